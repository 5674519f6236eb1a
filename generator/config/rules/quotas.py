"""Quotas that pools cannot provide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from generator import quantities
from generator.config.mistakes import Mistake
from generator.config.model.amounts import check_amount
from generator.config.model.cohorts import Cohort
from generator.config.model.quotas import ZERO, Amounts, Share, Supply, pools_offering, quota_amounts, sum_amounts
from generator.config.model.tenants import Tenant
from generator.config.rules.partial import PartialPlatform
from generator.documents.messages import format_value
from generator.errors import suggest
from generator.facts.nodes import labels_of_one_node
from generator.quantities import Quantity

_Path = tuple[str | int, ...]


def shares_unknown(
    path: _Path, fields: Sequence[tuple[str, Mapping[str, Share]]], draft: PartialPlatform, *, is_here: bool = True
) -> Iterator[Mistake]:
    """What the fields of an entry name that no pool offers, or not so much of it.

    `is_here`: the nodes of the pools are meant; else those of other clusters, of which there may be any number.
    """
    for field, shares in fields:
        for key in shares:
            yield from _share((*path, field, key), key, shares, draft, is_here=is_here)


def lends_more(
    path: _Path, lend: Mapping[str, Share] | None, quota: Mapping[str, Share], draft: PartialPlatform
) -> Iterator[Mistake]:
    """Kueue refuses a lendingLimit above the nominalQuota: v0.19.2 pkg/webhooks/clusterqueue_webhook.go."""
    pools = list(draft.supplies.values())
    owned = quota_amounts(quota, pools)
    for pool, resources in quota_amounts(lend or {}, pools).items():
        for resource, amount in resources.items():
            there = owned.get(pool, {}).get(resource, ZERO)
            if amount.value > there.value:
                what = f"{amount} {resource} of pool `{pool}`, of a quota of {there}"
                yield Mistake((*path, "lend"), what, "lend at most what is in `quota`")
                break


def _share(
    path: _Path, key: str, shares: Mapping[str, Any], draft: PartialPlatform, *, is_here: bool
) -> Iterator[Mistake]:
    share = shares[key]
    if key in draft.declared["pools"]:
        yield from _share_of_pool(path, key, share, draft, is_here=is_here)
        return
    if not draft.has_all_names:
        return  # it may be the pool whose name is missing
    offers = pools_offering(key, list(draft.supplies.values()))
    if isinstance(share, dict):
        fix = suggest(key, draft.declared["pools"])
        yield Mistake(path, f"there is no pool {format_value(key)}", fix, is_of_key=True)
    elif len(offers) > 1:
        names = ", ".join(pool.name for pool in offers)
        fix = f"say which, such as `{offers[0].name}: {{{key}: {share}}}`"
        yield Mistake(path, f"several pools have {key}: {names}", fix, is_of_key=True)
    elif not draft.has_all_pools:
        return  # it may be a resource of the pool that is not sound
    elif hidden := next((each for each in draft.supplies.values() if key in each.uncounted), None):
        yield _uncounted(path, key, hidden)
    elif not offers:
        known = {*draft.declared["pools"], *(name for pool in draft.supplies.values() for name in pool.offered)}
        what = f"there is no pool and no resource {format_value(key)}"
        yield Mistake(path, what, suggest(key, known), is_of_key=True)
    elif offers[0].name in shares:
        what = f"only pool `{offers[0].name}` has {key}, and its share is written out here already"
        fix = f"write both as one, such as `{offers[0].name}: {{{key}: {share}}}`"
        yield Mistake(path, what, fix, is_of_key=True)
    else:
        yield from _amount(path, key, str(share), offers[0] if is_here else None)


def _amount(path: _Path, resource: str, amount: str, pool: Supply | None) -> Iterator[Mistake]:
    if words := check_amount(resource, amount):
        yield Mistake(path, *words)
    elif pool is not None:
        yield from _within(path, resource, amount, pool)


def _share_of_pool(path: _Path, name: str, share: Any, draft: PartialPlatform, *, is_here: bool) -> Iterator[Mistake]:
    pool = draft.supply_named.get(name)
    if isinstance(share, str):
        fix = "write a whole number without quotes, or resources of the pool"
        yield Mistake(path, f"`{share}` is not a number of nodes", fix)
    elif pool is None:
        return
    elif isinstance(share, dict):
        for resource, amount in share.items():
            if resource in pool.offered:
                yield from _within((*path, resource), resource, amount, pool) if is_here else ()
            elif resource in pool.uncounted:
                yield _uncounted((*path, resource), resource, pool)
            else:
                fix = suggest(resource, pool.offered)
                what = f"nodes of pool `{name}` have no {resource}"
                yield Mistake((*path, resource), what, fix, is_of_key=True)
    elif share > pool.nodes and is_here:
        what = f"`{share}` is more than the {pool.nodes} nodes of pool `{name}`"
        yield Mistake(path, what, "write at most what the pool has")


def _uncounted(path: _Path, resource: str, pool: Supply) -> Mistake:
    instead = " and ".join(pool.uncounted[resource])
    if not instead:
        return Mistake(path, f"Kueue is told not to count {resource}", "remove it", is_of_key=True)
    what = f"Kueue is told to count {resource} only as {instead}"
    return Mistake(path, what, f"write an amount of {instead}", is_of_key=True)


def _within(path: _Path, resource: str, amount: str, pool: Supply) -> Iterator[Mistake]:
    there = quantities.parse(pool.offered[resource]) * pool.nodes
    if quantities.parse(amount).value > there.value:
        what = f"`{amount}` is more than the {there} {resource} of pool `{pool.name}`"
        yield Mistake(path, what, "write at most what the pool has")


def labels_of_one(draft: PartialPlatform) -> Iterator[Mistake]:
    """Report a label whose value differs from node to node, on a pool of several nodes: it selects one of them."""
    for index, pool in draft.pools.items():
        for key in labels_of_one_node() & pool.labels.keys() if pool.nodes > 1 else ():
            yield Mistake(
                ("pools", index, "labels", key),
                f"`{pool.labels[key]}` is the value of one node, and pool `{pool.name}` has {pool.nodes}",
                "write a label that all nodes of the pool carry, and no others",
            )


def pools_alike(draft: PartialPlatform) -> Iterator[Mistake]:
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
                yield Mistake(
                    ("pools", index),
                    f"nothing keeps pods of pool `{pool.name}` off the nodes of pool `{other.name}`",
                    f"add a label that only the nodes of `{pool.name}` carry, or the taint of `{other.name}`",
                )


def overcommitted(draft: PartialPlatform, tenants: list[Tenant], cohorts: list[Cohort]) -> Iterator[Mistake]:
    """What teams and groups always have must exist: Kueue would admit what then waits for nodes for ever."""
    quotas = [quota for tenant in tenants for quota in tenant.quotas] + [cohort.quota for cohort in cohorts]
    promised = _promised(draft, quotas)
    for index, pool in draft.supplies.items():
        if not pool.offered:
            what = f"Kueue is told to count nothing of pool `{pool.name}`, so that nothing limits its jobs"
            yield Mistake(("pools", index), what, "leave cpu, memory or devices of it to be counted")
            continue
        each = {resource: quantities.parse(amount) for resource, amount in pool.offered.items()}
        needs = {
            resource: promised.get(pool.name, {}).get(resource, ZERO).value / each[resource].value for resource in each
        }
        scarcest = max(needs, key=lambda resource: (needs[resource], resource == pool.accelerator))
        nodes = needs[scarcest]
        if nodes > pool.nodes:
            is_whole = nodes.denominator == 1
            words = f"{nodes} nodes" if is_whole else f"{each[scarcest] * nodes} {scarcest}"
            there = str(pool.nodes if is_whole else each[scarcest] * pool.nodes)
            yield Mistake(
                ("pools", index, "nodes"),
                f"the quotas take {words} of pool `{pool.name}`, which has {there}",
                "lower a quota and allow `borrow` instead, or add nodes",
            )


def _promised(draft: PartialPlatform, quotas: Sequence[Mapping[str, Share]]) -> Amounts:
    """Pool → resource → the sum of all quotas whose every share has a known pool."""
    named = draft.supply_named
    pools = list(named.values())
    return sum_amounts(
        *(
            quota_amounts(quota, pools)
            for quota in quotas
            if all(key in named or (draft.has_all_pools and len(pools_offering(key, pools)) == 1) for key in quota)
        )
    )


def limits_less(path: tuple[str | int, ...], tenant: Tenant, draft: PartialPlatform) -> Iterator[Mistake]:
    """A ResourceQuota below what Kueue admits refuses pods of jobs that then hold their quota and never start."""
    pools = list(draft.supplies.values())
    admitted = sum_amounts(*(quota_amounts(shares, pools) for shares in (*tenant.quotas, tenant.borrow)))
    for resource, amount in tenant.limits.resources.items():
        most = sum((each.get(resource, ZERO).value for each in admitted.values()), Fraction(0))
        if quantities.parse(amount).value < most:
            there = quantities.parse(amount)
            yield Mistake(
                (*path, "limits", "resources", resource),
                f"`{amount}`, and Kueue admits jobs of `{tenant.name}` up to {Quantity(most, there.is_binary)}",
                "write at least as much, or leave it out: Kueue keeps the quota",
            )
