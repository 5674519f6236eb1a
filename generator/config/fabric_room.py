"""How many addresses a fabric has, and how many its pods can need at the same time: rails and teams without room."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from generator.config.draft import Contradiction, Draft
from generator.config.fabric_ranges import allocator, block, free, rail_ranges
from generator.config.fabrics import Fabric
from generator.config.tenants import Tenant

_Path = tuple[str | int, ...]


def room(fabric: Fabric, own: str | None = None) -> int:
    """Addresses for pods, of rails that all are as small as the smallest; 0 where pods have none.

    Args:
        fabric: which.
        own: a team's own network instead of the fabric's.

    Raises:
        ValueError: see `rail_ranges`.
    """
    ranges = rail_ranges(fabric, own)
    return len(ranges) * min((free(each, block(fabric), allocator(fabric)) for each in ranges), default=0)


def needed(fabric: Fabric, nodes: int) -> int:
    """Addresses of all NICs of all pods that so many nodes can have on it."""
    return nodes * block(fabric) * len(fabric.all_rails)


def range_contradictions(draft: Draft) -> Iterator[Contradiction]:
    """Rails and teams without room, and teams in each other's networks."""
    nodes = {
        fabric.name: sum(pool.nodes for pool in draft.pools.values() if pool.fabric == fabric.name)
        for fabric in draft.fabrics.values()
    }
    by_name = {fabric.name: fabric for fabric in draft.fabrics.values()}
    for index, fabric in draft.fabrics.items():
        path = ("fabrics", index, "addresses", "range")
        yield from _room(path, fabric, None, nodes[fabric.name])
    for index, tenant in draft.tenants.items():
        for share in tenant.fabrics:
            found = by_name.get(share.name)
            if share.range and found and found.addresses:
                here = ("tenants", index, "fabrics")
                yield from _room(here, found, share.range, nodes[found.name])
                yield from _apart(here, tenant, share.range, found, draft.tenants)


def _room(path: _Path, fabric: Fabric, own: str | None, nodes: int) -> Iterator[Contradiction]:
    if fabric.addresses is None:
        return
    written = own or fabric.addresses.range
    try:
        there, asked = room(fabric, own), needed(fabric, nodes)
    except ValueError as error:
        yield Contradiction(path, f"{written}: {error}", "write a larger network")
        return
    if asked > there:
        what = f"{written} has {there} addresses, and {nodes} nodes with {fabric.pods_per_node} pods"
        yield Contradiction(path, f"{what} of {fabric.per_node} NICs need {asked}", "write a larger network")


def _apart(
    path: _Path, tenant: Tenant, own: str, fabric: Fabric, tenants: Mapping[int, Tenant]
) -> Iterator[Contradiction]:
    """No address is handed out from two networks."""
    mine = ipaddress.ip_network(own)
    others = [(f"`{fabric.name}` itself", fabric.addresses.range if fabric.addresses else None)]
    for index, other in tenants.items():
        if index < path[1] and other.name != tenant.name:  # type: ignore[operator]
            others += [(f"`{other.name}`", each.range) for each in other.fabrics if each.name == fabric.name]
    for name, theirs in others:
        if theirs and mine.overlaps(ipaddress.ip_network(theirs)):
            fix = "give each team a network of its own"
            yield Contradiction(path, f"`{fabric.name}`: {own} is also in the network of {name}, {theirs}", fix)
