"""Names of resources that resemble a real one: a pool with `nvidia.com/gpus` has no GPU, and nothing says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from generator.config.complaints import Contradiction
from generator.config.draft import Draft
from generator.facts.devices import likely_meant, misspelt_prefix
from generator.facts.mig import RESOURCE_PREFIX

Path = tuple[str | int, ...]
_ESCAPE = "if the name is right, add it to `cluster.resources`"


def misspelt(draft: Draft) -> Iterator[Contradiction]:
    """Report every resource whose name is one edit away from a known one."""
    if draft.cluster is None:
        return  # it may list the name in `resources`
    own = frozenset(draft.cluster.resources)
    for index, fabric in draft.fabrics.items():
        if fabric.resource:
            yield from _resembling(("fabrics", index, "resource"), fabric.resource, own, is_of_key=False)
    requested = frozenset(name for fabric in draft.fabrics.values() for name in fabric.requests)
    offered = requested | {name for pool in draft.pools.values() for name in pool.allocatable}
    for index, pool in draft.pools.items():
        for name in pool.allocatable:
            yield from _resembling(("pools", index, "allocatable", name), name, own, requested)
    for each in draft.queues.transformations if draft.queues else ():
        yield from _resembling(("queues", "transformations"), each.input, own, offered, is_of_key=False)
    for index, tenant in draft.tenants.items():
        limits = tenant.limits
        for field, names in (("devicesPerHost", limits.devices_per_host), ("resources", limits.resources)):
            for name in names:
                yield from _resembling(("tenants", index, "limits", field, name), name, own, offered)


def _resembling(
    path: Path, name: str, own: frozenset[str], chosen: Collection[str] = (), *, is_of_key: bool = True
) -> Iterator[Contradiction]:
    is_slice = name.startswith(RESOURCE_PREFIX)  # `impossible_slices` judges MIG profiles
    if "/" not in name or is_slice or name in own or name in chosen:
        return
    if meant := likely_meant(name, own | frozenset(chosen)):
        what = f"no device plugin offers `{name}`, so pods that request it stay Pending"
        yield Contradiction(path, what, f"did you mean `{meant}`? {_ESCAPE.capitalize()}", is_of_key)
    elif prefix := misspelt_prefix(name):
        what = f"no device plugin offers `{name}`, so pods that request it stay Pending"
        meant = f"{prefix}/{name.partition('/')[2]}"
        yield Contradiction(path, what, f"did you mean `{meant}`? {_ESCAPE.capitalize()}", is_of_key)
