"""Fabrics, the pools that have them, and the tenants that share them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from generator.config.mistakes import Mistake
from generator.config.model.fabric_addresses import count_addresses, count_needed_addresses
from generator.config.model.fabric_nodes import MachineConfigPool, machine_config_pool, operator_namespaces
from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.tenants import Tenant
from generator.config.rules.partial import PartialPlatform
from generator.errors import suggest

_Path = tuple[str | int, ...]


def fabric_contradictions(draft: PartialPlatform) -> Iterator[Mistake]:
    """Every contradiction around the fabrics of the draft."""
    for index, fabric in draft.fabrics.items():
        yield from _setup(("fabrics", index), fabric, draft)
        yield from _as_others(("fabrics", index), fabric, draft)
        yield from _as_counted(("fabrics", index), fabric, draft)
    yield from _inhabited(draft)
    yield from range_contradictions(draft)
    yield from machine_contradictions(draft)
    for index, pool in draft.pools.items():
        yield from _pool(("pools", index), pool, draft)
    for index, tenant in draft.tenants.items():
        yield from _shares(("tenants", index), tenant, draft)


def _setup(path: _Path, fabric: Fabric, draft: PartialPlatform) -> Iterator[Mistake]:
    if draft.is_openshift is False and fabric.nodes.is_of_openshift:
        what = "only OpenShift's Machine Config Operator does this to nodes"
        yield Mistake((*path, "nodes"), what, "set up the image of the nodes, and remove it")
    if draft.is_openshift and (fabric.attached, fabric.operated) == ("sriov", "nvidia"):
        # There NVIDIA's operator comes without an SR-IOV operator of its own, whose devices begin with nvidia.com/.
        what = "on OpenShift virtual functions are made by the SR-IOV operator, and called openshift.io/…"
        yield Mistake((*path, "operator"), what, "write sriov")


def _inhabited(draft: PartialPlatform) -> Iterator[Mistake]:
    """A team in an operator's namespace would be held to nothing, as the operator is not."""
    if draft.is_openshift is None:
        return
    taken = operator_namespaces(draft.fabrics.values(), is_openshift=draft.is_openshift)
    for index, tenant in draft.tenants.items():
        for name in sorted(taken & {tenant.name, *tenant.namespaces}):
            field = "name" if name == tenant.name else "namespaces"
            what = f"`{name}` is where an operator of a fabric runs"
            yield Mistake(("tenants", index, field), what, "choose another namespace")


def _as_others(path: _Path, fabric: Fabric, draft: PartialPlatform) -> Iterator[Mistake]:
    """Two fabrics whose devices have one name cannot be told apart by whoever asks for them."""
    for index, other in draft.fabrics.items():
        both = fabric.requests.keys() & other.requests.keys()
        if index < path[1] and both and fabric.name != other.name:  # type: ignore[operator]
            what = f"{min(both)} is also what a NIC of `{other.name}` is called"
            yield Mistake((*path, "resource"), what, "give each fabric a resource of its own")
        is_claimed = fabric.attached == other.attached == "dra" and fabric.name != other.name
        if index < path[1] and is_claimed and fabric.claimed == other.claimed:  # type: ignore[operator]
            # kueue v0.19.2 pkg/config/validation.go validateDeviceClassMappings
            what = f"`{fabric.claimed}` is also the class of `{other.name}`: Kueue could not tell whose quota is used"
            yield Mistake((*path, "deviceClass"), what, "give each fabric a DeviceClass of its own")


def _as_counted(path: _Path, fabric: Fabric, draft: PartialPlatform) -> Iterator[Mistake]:
    """Kueue counts claimed devices whatever else it is told (v0.19.2 pkg/workload/workload.go)."""
    counting = draft.counting
    if fabric.attached != "dra" or counting is None:
        return
    if fabric.device.startswith(counting.excluded) or fabric.device in counting.transformations:
        what = f"Kueue counts {fabric.device}, which is claimed, whatever `queues` says of it"
        yield Mistake((*path, "resource"), what, "let `queues` leave it out, or give it another `resource`")


def _pool(path: _Path, pool: Pool, draft: PartialPlatform) -> Iterator[Mistake]:
    if pool.fabric is None:
        return
    declared = draft.declared.get("fabrics", ())
    if pool.fabric not in declared:
        if all(declared):
            fix = suggest(pool.fabric, declared)
            yield Mistake((*path, "fabric"), f"there is no fabric `{pool.fabric}`", fix)
        return
    fabric = pool.wiring
    if fabric is None:
        return
    if not pool.labels and fabric.operated != "none":
        what = f"the operator `{fabric.operated}` cannot tell its nodes from others: the pool has no labels"
        yield Mistake((*path, "fabric"), what, "add a label that only these nodes carry")
    for resource, amount in fabric.offered.items():
        if pool.allocatable.get(resource) != amount:
            yield Mistake(
                (*path, "allocatable", resource),
                f"`{pool.allocatable.get(resource)}`, and the fabric `{fabric.name}` gives each node {amount}",
                "remove it: the fabric says it",
            )


def _shares(path: _Path, tenant: Tenant, draft: PartialPlatform) -> Iterator[Mistake]:
    declared = draft.declared.get("fabrics", ())
    by_name = {fabric.name: fabric for fabric in draft.fabrics.values()}
    for share in tenant.fabrics:
        here = (*path, "fabrics")
        if share.name not in declared:
            if all(declared):
                fix = suggest(share.name, declared)
                yield Mistake(here, f"there is no fabric `{share.name}`", fix)
            continue
        fabric = by_name.get(share.name)
        if fabric is None:
            continue
        if share.pkey and (fabric.type, fabric.attached, fabric.networks) != ("infiniband", "sriov", "nad"):
            what = f"`{share.name}`: a key of a partition is for virtual functions of InfiniBand, by `networks: nad`"
            yield Mistake(here, what, "remove `pkey`")
        if share.vlan and (fabric.type not in ("roce", "ethernet") or fabric.attached != "sriov"):
            what = f"`{share.name}`: a VLAN is for virtual functions of Ethernet"
            yield Mistake(here, what, "remove `vlan`")
        if share.range and fabric.addresses is None:
            yield Mistake(here, f"`{share.name}` gives no addresses", "remove `range`")
        yield from _as_another_teams(here, tenant, share.name, draft)


def _as_another_teams(path: _Path, tenant: Tenant, fabric: str, draft: PartialPlatform) -> Iterator[Mistake]:
    """A partition that another team has too separates nobody."""
    mine = next(share for share in tenant.fabrics if share.name == fabric)
    for index, other in draft.tenants.items():
        theirs = next((share for share in other.fabrics if share.name == fabric), None)
        if theirs is None or index >= path[1]:  # type: ignore[operator]
            continue
        for field in ("pkey", "vlan"):
            value = getattr(mine, field)
            if value is not None and value == getattr(theirs, field):
                what = f"`{fabric}`: {field} {value} is also that of `{other.name}`"
                yield Mistake(path, what, "give each team one of its own")


def machine_contradictions(draft: PartialPlatform) -> Iterator[Mistake]:
    """Fabrics that want different things of the same nodes."""
    seen: list[tuple[str, MachineConfigPool]] = []
    for index, fabric in draft.fabrics.items():
        if fabric.nodes.is_of_openshift:
            mine = machine_config_pool(fabric)
            yield from _different_machines(
                ("fabrics", index, "nodes"), mine, [each for each in seen if each[1].pool == mine.pool]
            )
            seen.append((fabric.name, mine))


def _different_machines(
    path: tuple[str | int, ...], mine: MachineConfigPool, others: Iterable[tuple[str, MachineConfigPool]]
) -> Iterator[Mistake]:
    for key, field in (("numa", "numa"), ("reserved", "reservedCpus"), ("isolated", "isolatedCpus")):
        ours = getattr(mine, key)
        name, theirs = next(((name, got) for name, each in others if (got := getattr(each, key))), ("", ours))
        if ours and ours != theirs:
            what = f"{ours}, and `{name}` says {theirs} of the same MachineConfigPool, {mine.pool}"
            yield Mistake((*path, field), what, "write the same, or name another pool")


def range_contradictions(draft: PartialPlatform) -> Iterator[Mistake]:
    """Rails and teams without room, and teams in each other's networks."""
    nodes = {
        fabric.name: sum(pool.nodes for pool in draft.pools.values() if pool.fabric == fabric.name)
        for fabric in draft.fabrics.values()
    }
    by_name = {fabric.name: fabric for fabric in draft.fabrics.values()}
    for index, fabric in draft.fabrics.items():
        path = ("fabrics", index, "addresses", "range")
        yield from _lacks_room(path, fabric, None, nodes[fabric.name])
    for index, tenant in draft.tenants.items():
        for share in tenant.fabrics:
            found = by_name.get(share.name)
            if share.range and found and found.addresses:
                here = ("tenants", index, "fabrics")
                yield from _lacks_room(here, found, share.range, nodes[found.name])
                yield from _own_range_overlaps(here, tenant, share.range, found, draft.tenants)


def _lacks_room(path: _Path, fabric: Fabric, own: str | None, nodes: int) -> Iterator[Mistake]:
    if fabric.addresses is None:
        return
    written = own or fabric.addresses.range
    try:
        there, asked = count_addresses(fabric, own), count_needed_addresses(fabric, nodes)
    except ValueError as error:
        yield Mistake(path, f"{written}: {error}", "write a larger network")
        return
    if asked > there:
        what = f"{written} has {there} addresses, and {nodes} nodes with {fabric.pods_per_node} pods"
        yield Mistake(path, f"{what} of {fabric.per_node} NICs need {asked}", "write a larger network")


def _own_range_overlaps(
    path: _Path, tenant: Tenant, own: str, fabric: Fabric, tenants: Mapping[int, Tenant]
) -> Iterator[Mistake]:
    """No address is handed out from two networks."""
    mine = ipaddress.ip_network(own)
    others = [(f"`{fabric.name}` itself", fabric.addresses.range if fabric.addresses else None)]
    for index, other in tenants.items():
        if index < path[1] and other.name != tenant.name:  # type: ignore[operator]
            others += [(f"`{other.name}`", each.range) for each in other.fabrics if each.name == fabric.name]
    for name, theirs in others:
        if theirs and mine.overlaps(ipaddress.ip_network(theirs)):
            fix = "give each team a network of its own"
            yield Mistake(path, f"`{fabric.name}`: {own} is also in the network of {name}, {theirs}", fix)
