"""ClusterQueue and LocalQueue: what a team always has, what it may borrow, and what it lends.

Fields, defaults and rules: kueue v0.19.2 apis/kueue/v1beta2/clusterqueue_types.go and pkg/webhooks. Defaults are
written out, so that Argo CD finds nothing that the API server added.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from generator.config.model.quotas import Supply, quota_amounts, sum_amounts
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import LOCAL_QUEUE, METADATA_NAME, RESERVATIONS
from generator.kueue.admission_checks import checks_of_queue
from generator.kueue.resources import Holding, resource_groups
from generator.manifests import Body

NEVER = {
    "reclaimWithinCohort": "Never",
    "borrowWithinCohort": {"policy": "Never"},
    "withinClusterQueue": "Never",
}
"""`preemption` of a queue that stops nobody's jobs."""

_PREEMPTION = {
    "never": NEVER,
    "lower-priority": {**NEVER, "reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "LowerPriority"},
    "reclaim": {**NEVER, "reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
}
_STOP = {"none": "None", "hold": "Hold", "drain": "HoldAndDrain"}


def cluster_queue(tenant: Tenant, platform: Platform) -> Body:
    """The queue that holds a tenant's quota and admits its jobs."""
    until = {reservation.name: reservation.until for reservation in tenant.reservations}
    annotations = {"annotations": {RESERVATIONS: json.dumps(until)}} if until else {}
    groups = resource_groups(holding(tenant, platform.supplies), platform.supplies)
    flavors = {flavor["name"] for group in groups for flavor in group["flavors"]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": tenant.name, **annotations},
        "spec": {
            "cohortName": platform.cohort_of(tenant),
            "namespaceSelector": _of_its_own(tenant),
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": _STOP[tenant.stop],
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "preemption": _PREEMPTION[tenant.preemption],
            "fairSharing": {"weight": str(tenant.weight)},
            **checks_of_queue(tenant, platform.pools, flavors),
            "resourceGroups": groups,
        },
    }


def _of_its_own(tenant: Tenant) -> Body:
    """The tenant's namespaces, by the label that the API server gives to each."""
    if not tenant.namespaces:
        return {"matchLabels": {METADATA_NAME: tenant.name}}
    names = [home.name for home in tenant.homes]
    return {"matchExpressions": [{"key": METADATA_NAME, "operator": "In", "values": names}]}


def holding(tenant: Tenant, pools: Sequence[Supply]) -> Holding:
    """All that a tenant has: its quota with what is reserved for it, and its limits."""
    return Holding(
        quota=sum_amounts(*(quota_amounts(quota, pools) for quota in tenant.quotas)),
        borrow=quota_amounts(tenant.borrow, pools),
        lend=None if tenant.lend is None else quota_amounts(tenant.lend, pools),
    )


def local_queues(tenant: Tenant) -> list[Body]:
    """The door to the tenant's ClusterQueue in each of its namespaces."""
    return [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": LOCAL_QUEUE, "namespace": home.name},
            "spec": {"clusterQueue": tenant.name, "stopPolicy": "None"},
        }
        for home in tenant.homes
    ]
