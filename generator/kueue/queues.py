"""Cohort, ClusterQueue and LocalQueue: who always has what, and who may borrow it while it lies idle.

Fields, defaults and rules: kueue v0.19.2 apis/kueue/v1beta2/clusterqueue_types.go and pkg/webhooks. Defaults are
written out, so that Argo CD finds nothing that the API server added; quantities are strings, because Kueue rewrites a
number once and stores it the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from generator.config.pools import Pool
from generator.config.shares import amounts
from generator.config.tenants import Tenant
from generator.manifests import Body
from generator.quantities import Quantity

LOCAL_QUEUE = "default"
"""With this name Kueue queues TrainJobs of the namespace that carry no queue label (LocalQueueDefaulting, GA)."""

_NOTHING = Quantity(Fraction(0))


def cohort(name: str, parent: str = "") -> Body:
    """A group whose members lend each other what they do not use."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": name},
        "spec": {"parentName": parent} if parent else {},
    }


def cluster_queue(tenant: Tenant, pools: Sequence[Pool], cohort_name: str) -> Body:
    """The queue that holds a tenant's quota and admits its jobs."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": tenant.name},
        "spec": {
            "cohortName": cohort_name,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": tenant.name}},
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "Never"},
                "withinClusterQueue": "LowerPriority",
            },
            "fairSharing": {"weight": str(tenant.weight)},
            "resourceGroups": [resource_group(tenant, pools)],
        },
    }


def resource_group(tenant: Tenant, pools: Sequence[Pool]) -> Body:
    """All quotas of a tenant. One group, since every pool has cpu and memory, and a resource is in one group only."""
    quota, borrow = amounts(tenant.quota, pools), amounts(tenant.borrow, pools)
    used = sorted(
        (pool for pool in pools if pool.name in quota or pool.name in borrow),
        # Kueue tries flavors in order: a job that needs no device must not take a node that has some.
        key=lambda pool: (bool(pool.accelerator), pool.name),
    )
    extended = {resource for pool in used for resource in pool.allocatable} - {"cpu", "memory"}
    covered = ["cpu", "memory", *sorted(extended)]
    return {
        "coveredResources": covered,
        "flavors": [
            {
                "name": pool.name,
                "resources": [
                    {
                        "name": resource,
                        "nominalQuota": str(quota.get(pool.name, {}).get(resource, _NOTHING)),
                        "borrowingLimit": str(borrow.get(pool.name, {}).get(resource, _NOTHING)),
                    }
                    for resource in covered
                ],
            }
            for pool in used
        ],
    }


def local_queue(tenant: Tenant) -> Body:
    """The door to the tenant's ClusterQueue in its namespace."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": LOCAL_QUEUE, "namespace": tenant.name},
        "spec": {"clusterQueue": tenant.name, "stopPolicy": "None"},
    }
