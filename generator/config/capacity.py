"""Pools that must differ, and quotas that must fit into them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from generator import quantities
from generator.config.draft import Contradiction, Draft
from generator.config.shares import amounts, offering
from generator.config.tenants import Tenant


def pools_alike(draft: Draft) -> Iterator[Contradiction]:
    """A pod that selects pool A must not fit on B's nodes: B lacks one of A's labels, or has a taint that A has not."""
    named = draft.pool_named.values()
    known = {index: pool for index, pool in draft.pools.items() if index not in draft.unsure and pool in named}
    for index, pool in known.items():
        for other in known.values():
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
        each = {resource: quantities.parse(amount) for resource, amount in pool.allocatable.items()}
        needs = {resource: promised.get((pool.name, resource), Fraction(0)) / each[resource].value for resource in each}
        scarcest = max(needs, key=lambda resource: (needs[resource], resource == pool.accelerator))
        nodes = needs[scarcest]
        if nodes > pool.nodes:
            is_whole = nodes.denominator == 1
            taken = f"{nodes} nodes" if is_whole else f"{each[scarcest] * nodes} {scarcest}"
            there = str(pool.nodes if is_whole else each[scarcest] * pool.nodes)
            yield Contradiction(
                ("pools", index, "nodes"),
                f"the tenants' quotas take {taken} of pool `{pool.name}`, which has {there}",
                "lower a quota and allow `borrow` instead, or add nodes",
            )


def _promised(draft: Draft, tenants: list[Tenant]) -> dict[tuple[str, str], Fraction]:
    """Pool and resource → the sum of all quotas, of the tenants whose every share has a known pool."""
    pools = list(draft.pool_named.values())
    promised: dict[tuple[str, str], Fraction] = {}
    for tenant in tenants:
        if all(
            key in draft.pool_named or (draft.has_all_pools and len(offering(key, pools)) == 1) for key in tenant.quota
        ):
            for pool, resources in amounts(tenant.quota, pools).items():
                for resource, amount in resources.items():
                    promised[pool, resource] = promised.get((pool, resource), Fraction(0)) + amount.value
    return promised
