"""Pools that must differ, and quotas that must fit into them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from generator import quantities
from generator.config.draft import Contradiction, Draft
from generator.config.shares import amounts
from generator.config.tenants import Tenant


def pools_alike(draft: Draft) -> Iterator[Contradiction]:
    """A pod that selects pool A must not fit on B's nodes: B lacks one of A's labels, or has a taint that A has not."""
    for index, pool in draft.pools.items():
        for other in draft.pools.values():
            if other.name == pool.name or not pool.labels.items() <= other.labels.items():
                continue
            tolerated = {(taint.key, taint.value, taint.effect) for taint in pool.taints}
            barred = [
                taint
                for taint in other.taints
                if taint.effect != "PreferNoSchedule" and (taint.key, taint.value, taint.effect) not in tolerated
            ]
            if not barred:
                yield Contradiction(
                    ("pools", index),
                    f"nothing keeps pods of pool `{pool.name}` off the nodes of pool `{other.name}`",
                    f"add a label that only the nodes of `{pool.name}` carry, or the taint of `{other.name}`",
                )


def overcommitted(draft: Draft, tenants: list[Tenant]) -> Iterator[Contradiction]:
    """What teams always have must exist: Kueue would admit what then waits for nodes for ever."""
    promised = _promised(draft, tenants)
    for index, pool in draft.pools.items():
        nodes = max(
            promised.get((pool.name, resource), Fraction(0)) / each
            for resource, amount in pool.allocatable.items()
            if (each := quantities.parse(amount).value)
        )
        if nodes > pool.nodes:
            shown = nodes.numerator if nodes.denominator == 1 else f"{float(nodes):.1f}"
            yield Contradiction(
                ("pools", index, "nodes"),
                f"the tenants' quotas take {shown} nodes of pool `{pool.name}`, which has {pool.nodes}",
                "lower a quota and allow `borrow` instead, or add nodes",
            )


def _promised(draft: Draft, tenants: list[Tenant]) -> dict[tuple[str, str], Fraction]:
    """Pool and resource → the sum of all quotas, of the tenants that name sound pools only."""
    unsound = set(draft.declared["pools"]) - set(draft.pool_named)
    promised: dict[tuple[str, str], Fraction] = {}
    for tenant in tenants:
        if unsound.isdisjoint(tenant.quota):
            for pool, resources in amounts(tenant.quota, list(draft.pools.values())).items():
                for resource, amount in resources.items():
                    promised[pool, resource] = promised.get((pool, resource), Fraction(0)) + amount.value
    return promised
