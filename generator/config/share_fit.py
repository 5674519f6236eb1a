"""Whether quotas, and what is borrowed and lent of them, name what the pools offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generator import quantities
from generator.config.amounts import implausible
from generator.config.complaints import Contradiction, suggestion
from generator.config.counting import Supply
from generator.config.draft import Draft
from generator.config.shares import NOTHING, Share, amounts, offering
from generator.documents.syntax import shown

_Path = tuple[str | int, ...]


def shares_unknown(
    path: _Path, fields: Sequence[tuple[str, Mapping[str, Share]]], draft: Draft, *, is_here: bool = True
) -> Iterator[Contradiction]:
    """What the fields of an entry name that no pool offers, or not so much of it.

    `is_here`: the nodes of the pools are meant; else those of other clusters, of which there may be any number.
    """
    for field, shares in fields:
        for key in shares:
            yield from _share((*path, field, key), key, shares, draft, is_here=is_here)


def lends_more(
    path: _Path, lend: Mapping[str, Share] | None, quota: Mapping[str, Share], draft: Draft
) -> Iterator[Contradiction]:
    """Kueue refuses a lendingLimit above the nominalQuota: v0.19.2 pkg/webhooks/clusterqueue_webhook.go."""
    pools = list(draft.supplies.values())
    owned = amounts(quota, pools)
    for pool, resources in amounts(lend or {}, pools).items():
        for resource, amount in resources.items():
            there = owned.get(pool, {}).get(resource, NOTHING)
            if amount.value > there.value:
                what = f"{amount} {resource} of pool `{pool}`, of a quota of {there}"
                yield Contradiction((*path, "lend"), what, "lend at most what is in `quota`")
                break


def _share(path: _Path, key: str, shares: Mapping[str, Any], draft: Draft, *, is_here: bool) -> Iterator[Contradiction]:
    share = shares[key]
    if key in draft.declared["pools"]:
        yield from _share_of_pool(path, key, share, draft, is_here=is_here)
        return
    if not draft.has_all_names:
        return  # it may be the pool whose name is missing
    offers = offering(key, list(draft.supplies.values()))
    if isinstance(share, dict):
        fix = suggestion(key, draft.declared["pools"])
        yield Contradiction(path, f"there is no pool {shown(key)}", fix, is_of_key=True)
    elif len(offers) > 1:
        names = ", ".join(pool.name for pool in offers)
        fix = f"say which, such as `{offers[0].name}: {{{key}: {share}}}`"
        yield Contradiction(path, f"several pools have {key}: {names}", fix, is_of_key=True)
    elif not draft.has_all_pools:
        return  # it may be a resource of the pool that is not sound
    elif hidden := next((each for each in draft.supplies.values() if key in each.uncounted), None):
        yield _uncounted(path, key, hidden)
    elif not offers:
        known = {*draft.declared["pools"], *(name for pool in draft.supplies.values() for name in pool.offered)}
        what = f"there is no pool and no resource {shown(key)}"
        yield Contradiction(path, what, suggestion(key, known), is_of_key=True)
    elif offers[0].name in shares:
        what = f"only pool `{offers[0].name}` has {key}, and its share is written out here already"
        fix = f"write both as one, such as `{offers[0].name}: {{{key}: {share}}}`"
        yield Contradiction(path, what, fix, is_of_key=True)
    else:
        yield from _amount(path, key, str(share), offers[0] if is_here else None)


def _amount(path: _Path, resource: str, amount: str, pool: Supply | None) -> Iterator[Contradiction]:
    if words := implausible(resource, amount):
        yield Contradiction(path, *words)
    elif pool is not None:
        yield from _within(path, resource, amount, pool)


def _share_of_pool(path: _Path, name: str, share: Any, draft: Draft, *, is_here: bool) -> Iterator[Contradiction]:
    pool = draft.supply_named.get(name)
    if isinstance(share, str):
        fix = "write a whole number without quotes, or resources of the pool"
        yield Contradiction(path, f"`{share}` is not a number of nodes", fix)
    elif pool is None:
        return
    elif isinstance(share, dict):
        for resource, amount in share.items():
            if resource in pool.offered:
                yield from _within((*path, resource), resource, amount, pool) if is_here else ()
            elif resource in pool.uncounted:
                yield _uncounted((*path, resource), resource, pool)
            else:
                fix = suggestion(resource, pool.offered)
                what = f"nodes of pool `{name}` have no {resource}"
                yield Contradiction((*path, resource), what, fix, is_of_key=True)
    elif share > pool.nodes and is_here:
        what = f"`{share}` is more than the {pool.nodes} nodes of pool `{name}`"
        yield Contradiction(path, what, "write at most what the pool has")


def _uncounted(path: _Path, resource: str, pool: Supply) -> Contradiction:
    instead = " and ".join(pool.uncounted[resource])
    if not instead:
        return Contradiction(path, f"Kueue is told not to count {resource}", "remove it", is_of_key=True)
    what = f"Kueue is told to count {resource} only as {instead}"
    return Contradiction(path, what, f"write an amount of {instead}", is_of_key=True)


def _within(path: _Path, resource: str, amount: str, pool: Supply) -> Iterator[Contradiction]:
    there = quantities.parse(pool.offered[resource]) * pool.nodes
    if quantities.parse(amount).value > there.value:
        what = f"`{amount}` is more than the {there} {resource} of pool `{pool.name}`"
        yield Contradiction(path, what, "write at most what the pool has")
