"""resourceGroups: how much of which resource, of which flavor, belongs to a ClusterQueue or a Cohort.

Rules: kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateResourceGroups: every flavor has all covered
resources, in their order. Quantities are strings, because Kueue rewrites a number once and stores it the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generator.config.model.quotas import ZERO, Amounts, Supply
from generator.manifests import Body

_ALWAYS = ("cpu", "memory")  # in every node; but Kueue may be told not to count them


@dataclass(frozen=True, slots=True)
class Holding:
    """What belongs to a queue or a group.

    Attributes:
        quota: what it always has.
        borrow: what it may use beyond that; None: no limit.
        lend: what others may use of it; None: all.
    """

    quota: Amounts
    borrow: Amounts | None = None
    lend: Amounts | None = None


def resource_groups(holding: Holding, pools: Sequence[Supply]) -> list[Body]:
    """One group, since every pool has cpu and memory, and a resource is in one group only; none where there is nothing.

    Of a pool that only one of the limits names, there is no quota.
    """
    named = {*holding.quota, *(holding.borrow or {}), *(holding.lend or {})}
    used = sorted(
        (pool for pool in pools if pool.name in named),
        # Kueue tries flavors in order: a job that needs no device must not take a node that has some.
        key=lambda pool: (bool(pool.accelerator), pool.name),
    )
    if not used:
        return []
    counted = {resource for pool in used for resource in pool.offered}
    covered = [each for each in _ALWAYS if each in counted] + sorted(counted.difference(_ALWAYS))
    flavors = [
        {"name": pool.name, "resources": [_quota(holding, pool.name, resource) for resource in covered]}
        for pool in used
    ]
    return [{"coveredResources": covered, "flavors": flavors}]


def _quota(holding: Holding, pool: str, resource: str) -> Body:
    """A resource of a flavor; where the pool's nodes have none of it, zero keeps jobs that want some out."""
    quota: Body = {"name": resource, "nominalQuota": _amount(holding.quota, pool, resource)}
    if holding.borrow is not None:
        quota["borrowingLimit"] = _amount(holding.borrow, pool, resource)
    if holding.lend is not None:
        quota["lendingLimit"] = _amount(holding.lend, pool, resource)
    return quota


def _amount(amounts: Amounts, pool: str, resource: str) -> str:
    return str(amounts.get(pool, {}).get(resource, ZERO))
