"""What no section can see alone: names that must exist elsewhere, and what a node must offer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generator import quantities
from generator.config.capacity import overcommitted, pools_alike
from generator.config.draft import Contradiction, Draft, suggestion
from generator.config.pools import Pool
from generator.config.runtimes import Runtime
from generator.config.shares import offering
from generator.config.tenants import Tenant

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
    if runtime.pool not in draft.declared["pools"]:
        fix = suggestion(runtime.pool, draft.declared["pools"])
        yield Contradiction((*path, "pool"), f"there is no pool `{runtime.pool}`", fix)
        return
    pool = draft.pool_named.get(runtime.pool)
    if pool is None:
        return
    if pool.accelerator and runtime.image is None:
        yield Contradiction(
            path,
            f"no `image`, and pool `{pool.name}` has {pool.accelerator}",
            "name an image with Open MPI, OpenSSH on port 2222 and the device's libraries; there is no public one",
        )
    for resource, amount in runtime.resources.items():
        yield from _fits_a_node((*path, "resources", resource), resource, amount, pool)


def _fits_a_node(path: _Path, resource: str, amount: str, pool: Pool) -> Iterator[Contradiction]:
    if resource not in pool.allocatable:
        yield Contradiction(
            path, f"nodes of pool `{pool.name}` have no {resource}", suggestion(resource, pool.allocatable)
        )
    elif quantities.parse(amount).value > quantities.parse(pool.allocatable[resource]).value:
        yield Contradiction(
            path,
            f"`{amount}` is more than the {pool.allocatable[resource]} that a node of pool `{pool.name}` has",
            "ask for at most what one node offers",
        )


def _tenant(path: _Path, tenant: Tenant, draft: Draft) -> Iterator[Contradiction]:
    if tenant.cohort == draft.platform:
        yield Contradiction(
            (*path, "cohort"), f"`{tenant.cohort}` is the platform's own cohort", "leave it out, or name a group"
        )
    for field in ("quota", "borrow"):
        for key, share in getattr(tenant, field).items():
            yield from _share((*path, field, key), key, share, draft)


def _share(path: _Path, key: str, share: Any, draft: Draft) -> Iterator[Contradiction]:
    if key in draft.declared["pools"]:
        yield from _share_of_pool(path, key, share, draft)
        return
    offers = offering(key, list(draft.pools.values()))
    if isinstance(share, dict) or not offers:
        known = {*draft.declared["pools"], *(name for pool in draft.pools.values() for name in pool.allocatable)}
        yield Contradiction(path, f"there is no pool and no resource `{key}`", suggestion(key, known))
    elif len(offers) > 1:
        names = ", ".join(pool.name for pool in offers)
        example = f"{offers[0].name}: {{{key}: {share}}}"
        yield Contradiction(path, f"several pools have {key}: {names}", f"say which, such as `{example}`")


def _share_of_pool(path: _Path, name: str, share: Any, draft: Draft) -> Iterator[Contradiction]:
    if isinstance(share, str):
        yield Contradiction(path, f"`{share}` nodes", "write a whole number of nodes, or resources of the pool")
    elif isinstance(share, dict) and (pool := draft.pool_named.get(name)):
        for resource in share:
            if resource not in pool.allocatable:
                fix = suggestion(resource, pool.allocatable)
                yield Contradiction((*path, resource), f"nodes of pool `{name}` have no {resource}", fix)
