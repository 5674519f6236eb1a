"""What no section can see alone: names that must exist elsewhere, and what a node must offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator import quantities
from generator.config.capacity import overcommitted, pools_alike
from generator.config.draft import Contradiction, Draft, suggestion
from generator.config.pools import Pool
from generator.config.runtime_fit import runtime_contradictions
from generator.config.runtimes import Runtime
from generator.config.shares import offering
from generator.config.tenants import Tenant
from generator.documents.syntax import shown

_Path = tuple[str | int, ...]


def contradictions(draft: Draft) -> Iterator[Contradiction]:
    """Every contradiction in the draft, in the order of the file's sections."""
    for section in ("pools", "runtimes", "tenants"):
        yield from _declared_twice(section, draft.declared[section])
    yield from pools_alike(draft)
    for index, runtime in draft.runtimes.items():
        yield from _runtime(("runtimes", index), runtime, draft)
    clean = []
    for index, tenant in draft.tenants.items():
        found = list(_tenant(("tenants", index), tenant, draft))
        yield from found
        if not found:
            clean.append(tenant)
    yield from overcommitted(draft, clean)


def _declared_twice(section: str, names: tuple[str, ...]) -> Iterator[Contradiction]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield Contradiction((section, index, "name"), f"`{name}` is there twice", "give each its own name")
        elif name:
            seen.add(name)


def _runtime(path: _Path, runtime: Runtime, draft: Draft) -> Iterator[Contradiction]:
    if all(draft.declared["tenants"]):
        for tenant in runtime.tenants:
            if tenant not in draft.declared["tenants"]:
                fix = suggestion(tenant, draft.declared["tenants"])
                yield Contradiction((*path, "tenants"), f"there is no tenant `{tenant}`", fix)
    if runtime.pool not in draft.declared["pools"]:
        if draft.has_all_names:
            fix = suggestion(runtime.pool, draft.declared["pools"])
            yield Contradiction((*path, "pool"), f"there is no pool `{runtime.pool}`", fix)
        return
    pool = draft.pool_named.get(runtime.pool)
    if pool is None:
        return
    yield from runtime_contradictions(runtime, pool, path)


def _tenant(path: _Path, tenant: Tenant, draft: Draft) -> Iterator[Contradiction]:
    if tenant.cohort == draft.platform:
        yield Contradiction(
            (*path, "cohort"), f"`{tenant.cohort}` is the platform's own cohort", "leave it out, or name a group"
        )
    for field in ("quota", "borrow"):
        shares = getattr(tenant, field)
        for key in shares:
            yield from _share((*path, field, key), key, shares, draft)


def _share(path: _Path, key: str, shares: Mapping[str, Any], draft: Draft) -> Iterator[Contradiction]:
    share = shares[key]
    if key in draft.declared["pools"]:
        yield from _share_of_pool(path, key, share, draft)
        return
    if not draft.has_all_names:
        return  # it may be the pool whose name is missing
    offers = offering(key, list(draft.pools.values()))
    if isinstance(share, dict):
        fix = suggestion(key, draft.declared["pools"])
        yield Contradiction(path, f"there is no pool {shown(key)}", fix, is_of_key=True)
    elif len(offers) > 1:
        names = ", ".join(pool.name for pool in offers)
        fix = f"say which, such as `{offers[0].name}: {{{key}: {share}}}`"
        yield Contradiction(path, f"several pools have {key}: {names}", fix, is_of_key=True)
    elif not draft.has_all_pools:
        return  # it may be a resource of the pool that is not sound
    elif not offers:
        known = {*draft.declared["pools"], *(name for pool in draft.pools.values() for name in pool.allocatable)}
        what = f"there is no pool and no resource {shown(key)}"
        yield Contradiction(path, what, suggestion(key, known), is_of_key=True)
    elif offers[0].name in shares:
        what = f"only pool `{offers[0].name}` has {key}, and its share is written out here already"
        fix = f"write both as one, such as `{offers[0].name}: {{{key}: {share}}}`"
        yield Contradiction(path, what, fix, is_of_key=True)
    else:
        yield from _within(path, key, str(share), offers[0])


def _share_of_pool(path: _Path, name: str, share: Any, draft: Draft) -> Iterator[Contradiction]:
    pool = draft.pool_named.get(name)
    if isinstance(share, str):
        fix = "write a whole number without quotes, or resources of the pool"
        yield Contradiction(path, f"`{share}` is not a number of nodes", fix)
    elif pool is None:
        return
    elif isinstance(share, dict):
        for resource, amount in share.items():
            if resource in pool.allocatable:
                yield from _within((*path, resource), resource, amount, pool)
            else:
                fix = suggestion(resource, pool.allocatable)
                what = f"nodes of pool `{name}` have no {resource}"
                yield Contradiction((*path, resource), what, fix, is_of_key=True)
    elif share > pool.nodes:
        what = f"`{share}` is more than the {pool.nodes} nodes of pool `{name}`"
        yield Contradiction(path, what, "write at most what the pool has")


def _within(path: _Path, resource: str, amount: str, pool: Pool) -> Iterator[Contradiction]:
    there = quantities.parse(pool.allocatable[resource]) * pool.nodes
    if quantities.parse(amount).value > there.value:
        what = f"`{amount}` is more than the {there} {resource} of pool `{pool.name}`"
        yield Contradiction(path, what, "write at most what the pool has")
