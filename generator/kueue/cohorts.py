"""Cohorts: the tree in which queues lend each other what they do not use, and the queue of what nobody owns.

Fields: kueue v0.19.2 apis/kueue/v1beta2/cohort_types.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.cohorts import Cohort, workers_cohort
from generator.config.model.quotas import ZERO, Amounts, node_amounts, quota_amounts, sum_amounts
from generator.config.platform import Platform
from generator.kueue.queues import NEVER
from generator.kueue.resources import Holding, resource_groups
from generator.manifests import Body
from generator.quantities import Quantity

SLACK = "slack"


def cohorts(platform: Platform) -> Iterator[Body]:
    """The platform's own cohort, and all groups below it, whether declared or only named by a tenant.

    Those of tenants whose jobs run on other clusters are below one of their own.
    """
    elsewhere = platform.cohorts_elsewhere
    yield _cohort(platform.platform, {})
    if any(tenant.multi_kueue for tenant in platform.tenants):
        yield _cohort(workers_cohort(platform.platform), {})
    declared = {cohort.name: cohort for cohort in platform.cohorts}
    named = {tenant.cohort for tenant in platform.tenants if tenant.cohort}
    for name in sorted(named | declared.keys()):
        cohort = declared.get(name, Cohort(name=name))
        holding = Holding(
            quota=quota_amounts(cohort.quota, platform.supplies),
            borrow=None
            if cohort.borrow is None
            else _of_every_pool(quota_amounts(cohort.borrow, platform.supplies), platform),
            lend=None
            if cohort.lend is None
            else _of_every_pool(quota_amounts(cohort.lend, platform.supplies), platform),
        )
        groups = resource_groups(holding, platform.supplies)
        root = workers_cohort(platform.platform) if name in elsewhere else platform.platform
        weight = {"fairSharing": {"weight": str(cohort.weight)}} if cohort.weight != 1 else {}
        yield _cohort(
            name,
            {
                "parentName": cohort.parent or root,
                **weight,
                **({"resourceGroups": groups} if groups else {}),
            },
        )


def _cohort(name: str, spec: Body) -> Body:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def _of_every_pool(limits: Amounts, platform: Platform) -> Amounts:
    """A limit of nothing where none is written: of a flavor that a Cohort does not name, Kueue knows no limit."""
    return {pool.name: limits.get(pool.name, {}) for pool in platform.pools}


def slack_queue(platform: Platform) -> Body | None:
    """A queue that owns what no quota does, lends all of it, and lets no namespace in; None where nothing is left."""
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
    """What the nodes of each pool offer beyond all quotas; nothing of a pool that is given away."""
    if not platform.queues.slack:
        return {}
    quotas = [quota for tenant in platform.tenants for quota in tenant.quotas if not tenant.multi_kueue]
    quotas += [cohort.quota for cohort in platform.cohorts if cohort.name not in platform.cohorts_elsewhere]
    given = sum_amounts(*(quota_amounts(quota, platform.supplies) for quota in quotas))
    left: Amounts = {}
    for pool in platform.supplies:
        taken = given.get(pool.name, {})
        rest = {
            resource: Quantity(there.value - taken.get(resource, ZERO).value, there.is_binary)
            for resource, there in node_amounts(pool, pool.nodes).items()
        }
        if any(amount.value > 0 for amount in rest.values()):
            left[pool.name] = rest
    return left
