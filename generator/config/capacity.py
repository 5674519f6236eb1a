"""Pools that must differ, and quotas that must fit into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from generator import quantities
from generator.config.cohorts import Cohort
from generator.config.complaints import Contradiction
from generator.config.draft import Draft
from generator.config.shares import NOTHING, Amounts, Share, amounts, offering, total
from generator.config.tenants import Tenant
from generator.facts.node_labels import labels_of_one_node
from generator.quantities import Quantity


def labels_of_one(draft: Draft) -> Iterator[Contradiction]:
    """Report a label whose value differs from node to node, on a pool of several nodes: it selects one of them."""
    for index, pool in draft.pools.items():
        for key in labels_of_one_node() & pool.labels.keys() if pool.nodes > 1 else ():
            yield Contradiction(
                ("pools", index, "labels", key),
                f"`{pool.labels[key]}` is the value of one node, and pool `{pool.name}` has {pool.nodes}",
                "write a label that all nodes of the pool carry, and no others",
            )


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


def overcommitted(draft: Draft, tenants: list[Tenant], cohorts: list[Cohort]) -> Iterator[Contradiction]:
    """What teams and groups always have must exist: Kueue would admit what then waits for nodes for ever."""
    quotas = [quota for tenant in tenants for quota in tenant.quotas] + [cohort.quota for cohort in cohorts]
    promised = _promised(draft, quotas)
    for index, pool in draft.supplies.items():
        if not pool.offered:
            what = f"Kueue is told to count nothing of pool `{pool.name}`, so that nothing limits its jobs"
            yield Contradiction(("pools", index), what, "leave cpu, memory or devices of it to be counted")
            continue
        each = {resource: quantities.parse(amount) for resource, amount in pool.offered.items()}
        needs = {
            resource: promised.get(pool.name, {}).get(resource, NOTHING).value / each[resource].value
            for resource in each
        }
        scarcest = max(needs, key=lambda resource: (needs[resource], resource == pool.accelerator))
        nodes = needs[scarcest]
        if nodes > pool.nodes:
            is_whole = nodes.denominator == 1
            words = f"{nodes} nodes" if is_whole else f"{each[scarcest] * nodes} {scarcest}"
            there = str(pool.nodes if is_whole else each[scarcest] * pool.nodes)
            yield Contradiction(
                ("pools", index, "nodes"),
                f"the quotas take {words} of pool `{pool.name}`, which has {there}",
                "lower a quota and allow `borrow` instead, or add nodes",
            )


def _promised(draft: Draft, quotas: Sequence[Mapping[str, Share]]) -> Amounts:
    """Pool → resource → the sum of all quotas whose every share has a known pool."""
    named = draft.supply_named
    pools = list(named.values())
    return total(
        *(
            amounts(quota, pools)
            for quota in quotas
            if all(key in named or (draft.has_all_pools and len(offering(key, pools)) == 1) for key in quota)
        )
    )


def limits_less(path: tuple[str | int, ...], tenant: Tenant, draft: Draft) -> Iterator[Contradiction]:
    """A ResourceQuota below what Kueue admits refuses pods of jobs that then hold their quota and never start."""
    pools = list(draft.supplies.values())
    admitted = total(*(amounts(shares, pools) for shares in (*tenant.quotas, tenant.borrow)))
    for resource, amount in tenant.limits.resources.items():
        most = sum((each.get(resource, NOTHING).value for each in admitted.values()), Fraction(0))
        if quantities.parse(amount).value < most:
            there = quantities.parse(amount)
            yield Contradiction(
                (*path, "limits", "resources", resource),
                f"`{amount}`, and Kueue admits jobs of `{tenant.name}` up to {Quantity(most, there.is_binary)}",
                "write at least as much, or leave it out: Kueue keeps the quota",
            )
