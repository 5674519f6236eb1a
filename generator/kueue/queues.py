"""ClusterQueue, LocalQueue and Cohort: the quota of each team, its limits for borrowing and lending, and unowned quota.

Fields, defaults and rules: kueue v0.19.2 apis/kueue/v1beta2/clusterqueue_types.go ClusterQueueSpec; kueue v0.19.2
apis/kueue/v1beta2/cohort_types.go CohortSpec; kueue v0.19.2 pkg/webhooks. Defaults are written out, so that Argo CD
finds no field that the API server added. Quantities are strings, because Kueue would
store a number as a string when it next writes the object.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from generator.config.model.quotas import Amounts, Shares, Supply, node_amounts, quota_amounts, sum_amounts
from generator.config.model.tenants import Cohort, Tenant, workers_cohort
from generator.config.platform import Platform
from generator.facts.names import LOCAL_QUEUE, METADATA_NAME, RESERVATIONS
from generator.kueue.flavors import checks_of_queue
from generator.manifests import Body, omit_none
from generator.quantities import ZERO, Quantity

_ALWAYS = ("cpu", "memory")  # every node has them, but the configuration of Kueue may exclude them


@dataclass(frozen=True, slots=True)
class Holding:
    """The quota of a ClusterQueue or Cohort: nominal quota, borrowing limit and lending limit (None: no limit)."""

    quota: Amounts
    borrow: Amounts | None = None
    lend: Amounts | None = None


def resource_groups(holding: Holding, pools: Sequence[Supply]) -> list[Body]:
    """Return one resource group with a flavor for each pool of the holding; empty if the holding names no pool.

    Every pool has cpu and memory, so all flavors are in one group. A pool with a borrowing or lending limit but without
    quota gets a nominal quota of zero.
    """
    named = {*holding.quota, *(holding.borrow or {}), *(holding.lend or {})}
    used = sorted(
        (pool for pool in pools if pool.name in named),
        # Kueue tries flavors in order: a job without accelerators must not use a node with accelerators.
        key=lambda pool: (bool(pool.accelerator), pool.name),
    )
    if not used:
        return []
    counted = {resource for pool in used for resource in pool.offered}
    covered = [resource for resource in _ALWAYS if resource in counted] + sorted(counted.difference(_ALWAYS))
    flavors = [
        {"name": pool.name, "resources": [_quota(holding, pool.name, resource) for resource in covered]}
        for pool in used
    ]
    return [omit_none({"coveredResources": covered, "flavors": flavors})]


def _quota(holding: Holding, pool: str, resource: str) -> Body:
    """Return the quota and the limits of a resource in a flavor. Amounts are zero if the pool lacks the resource."""
    return {
        "name": resource,
        "nominalQuota": _amount(holding.quota, pool, resource),
        "borrowingLimit": _amount(holding.borrow, pool, resource),
        "lendingLimit": _amount(holding.lend, pool, resource),
    }


def _amount(amounts: Amounts | None, pool: str, resource: str) -> str | None:
    return None if amounts is None else str(amounts.get(pool, {}).get(resource, ZERO))


NEVER = {
    "reclaimWithinCohort": "Never",
    "borrowWithinCohort": {"policy": "Never"},
    "withinClusterQueue": "Never",
}
"""`preemption` of a queue that never preempts."""

_PREEMPTION = {
    "never": NEVER,
    "lower-priority": {**NEVER, "reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "LowerPriority"},
    "reclaim": {**NEVER, "reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
}
_STOP = {"none": "None", "hold": "Hold", "drain": "HoldAndDrain"}


def cluster_queue(tenant: Tenant, platform: Platform) -> Body:
    """Return the ClusterQueue of a tenant."""
    until = {reservation.name: reservation.until for reservation in tenant.reservations}
    groups = resource_groups(holding(tenant, platform.supplies), platform.supplies)
    flavors = {flavor["name"] for group in groups for flavor in group["flavors"]}
    return omit_none(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {
                "name": tenant.name,
                "annotations": {RESERVATIONS: json.dumps(until)} if until else None,
            },
            "spec": {
                "cohortName": platform.cohort_of(tenant),
                "namespaceSelector": _namespace_selector(tenant),
                "queueingStrategy": "BestEffortFIFO",
                "stopPolicy": _STOP["drain" if tenant.retired else tenant.stop],
                "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
                "preemption": _PREEMPTION[tenant.preemption],
                "fairSharing": {"weight": str(tenant.weight)},
                "admissionChecksStrategy": checks_of_queue(tenant, platform.pools, flavors),
                "resourceGroups": groups,
            },
        }
    )


def _namespace_selector(tenant: Tenant) -> Body:
    """Return the `namespaceSelector` of a ClusterQueue: the names of the tenant's namespaces."""
    if not tenant.namespaces:
        return {"matchLabels": {METADATA_NAME: tenant.name}}
    names = [home.name for home in tenant.homes]
    return {"matchExpressions": [{"key": METADATA_NAME, "operator": "In", "values": names}]}


def holding(tenant: Tenant, pools: Sequence[Supply]) -> Holding:
    """Return the nominal quota of a tenant, including its reservations, and its limits for borrowing and lending.

    A retired tenant has no lending limit. Kueue lends the nominal quota of a stopped ClusterQueue too: it counts all
    ClusterQueues of a cohort (kueue v0.19.2 pkg/cache/scheduler/resource_node.go updateCohortResourceNode), and stops
    only the admission of the queue itself (kueue v0.19.2 pkg/cache/scheduler/snapshot.go skipInactiveCQReason).
    """
    return Holding(
        quota=sum_amounts(*(quota_amounts(quota, pools) for quota in tenant.quotas)),
        borrow=quota_amounts(tenant.borrow, pools),
        lend=None if tenant.lend is None or tenant.retired else quota_amounts(tenant.lend, pools),
    )


def local_queues(tenant: Tenant) -> list[Body]:
    """Return a LocalQueue for each namespace of a tenant. It refers to the tenant's ClusterQueue."""
    return [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": LOCAL_QUEUE, "namespace": home.name},
            "spec": {"clusterQueue": tenant.name, "stopPolicy": "None"},
        }
        for home in tenant.homes
    ]


SLACK = "slack"


def cohorts(platform: Platform) -> Iterator[Body]:
    """Yield the Cohort of the platform and the Cohorts below it.

    If tenants use MultiKueue, also yield a separate root Cohort, and the Cohorts of such tenants below it.
    """
    remote = platform.remote_cohorts
    yield _cohort(platform.platform, {})
    if any(tenant.multi_kueue for tenant in platform.tenants):
        yield _cohort(workers_cohort(platform.platform), {})
    declared = {cohort.name: cohort for cohort in platform.cohorts}
    named = {tenant.cohort for tenant in platform.tenants if tenant.cohort}
    for name in sorted(named | declared.keys()):
        cohort = declared.get(name, Cohort(name=name))
        holding = Holding(
            quota=quota_amounts(cohort.quota, platform.supplies),
            borrow=_limit_every_pool(cohort.borrow, platform),
            lend=_limit_every_pool(cohort.lend, platform),
        )
        root = workers_cohort(platform.platform) if name in remote else platform.platform
        spec = {
            "parentName": cohort.parent or root,
            "fairSharing": {"weight": str(cohort.weight)} if cohort.weight != 1 else None,
            "resourceGroups": resource_groups(holding, platform.supplies) or None,
        }
        yield _cohort(name, omit_none(spec))


def _cohort(name: str, spec: Body) -> Body:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def _limit_every_pool(declared: Shares | None, platform: Platform) -> Amounts | None:
    """Return the limit of a Cohort for every pool, zero for an undeclared pool; None if the Cohort has no limit.

    Kueue does not limit a flavor that a Cohort omits.
    """
    if declared is None:
        return None
    limits = quota_amounts(declared, platform.supplies)
    return {pool.name: limits.get(pool.name, {}) for pool in platform.pools}


def slack_queue(platform: Platform) -> Body | None:
    """Return the ClusterQueue that lends the resources that no quota covers; None if `slack` is empty.

    The ClusterQueue admits no job, because no namespace matches it.
    """
    left = slack(platform)
    if not left:
        return None
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": SLACK},
        "spec": {
            "cohortName": platform.platform,
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "preemption": NEVER,
            "fairSharing": {"weight": "1"},
            "resourceGroups": resource_groups(Holding(quota=left, borrow={}), platform.supplies),
        },
    }


def slack(platform: Platform) -> Amounts:
    """Return pool → resource → the amount that no quota covers; empty if `queues.slack` is false.

    Pools without such an amount are left out. Quotas for jobs that MultiKueue sends to other clusters do not count.
    """
    if not platform.queues.slack:
        return {}
    quotas = [quota for tenant in platform.tenants for quota in tenant.quotas if not tenant.multi_kueue]
    quotas += [cohort.quota for cohort in platform.cohorts if cohort.name not in platform.remote_cohorts]
    given = sum_amounts(*(quota_amounts(quota, platform.supplies) for quota in quotas))
    left: Amounts = {}
    for pool in platform.supplies:
        taken = given.get(pool.name, {})
        rest = {
            resource: Quantity(amount.value - taken.get(resource, ZERO).value, amount.is_binary)
            for resource, amount in node_amounts(pool, pool.nodes).items()
        }
        if any(amount.value > 0 for amount in rest.values()):
            left[pool.name] = rest
    return left
