"""The addresses that pods get on a fabric: the network of each rail, the addresses of a node, and their numbers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from generator.config.model.fabrics import Fabric
from generator.facts import addressing
from generator.facts.addressing import Address, Network, Span, Supply

Allocator = Literal["whereabouts", "nv-ipam"]


@dataclass(frozen=True, slots=True)
class RailRange:
    """The addresses of one rail. Pods get no address in `exclude`. `gateway` is None if the rail has no router."""

    network: Network
    gateway: Address | None
    exclude: tuple[Network, ...]


def allocator(fabric: Fabric) -> Allocator:
    """Return the IPAM plugin of a fabric: `addresses.by`, or the default if the fabric does not set it."""
    default: Allocator = "nv-ipam" if fabric.operated == "nvidia" else "whereabouts"
    return (fabric.addresses.by if fabric.addresses else None) or default


def addresses_per_node(fabric: Fabric) -> int:
    """Return the number of addresses of each rail that a node needs: one for each NIC of the rail in each pod.

    With nv-ipam and a router, a node needs one more address: nv-ipam assigns a block to each node, and reserves one
    address of a block for the router (nvidia-k8s-ipam 3ce4a34 README.md).
    """
    needed = fabric.all_rails[0].count * fabric.pods_per_node
    has_router = allocator(fabric) == "nv-ipam" and fabric.addresses and fabric.addresses.gateway
    return needed + 1 if has_router else needed


def rail_ranges(fabric: Fabric, own: Network | None = None) -> tuple[RailRange, ...]:
    """Return the addresses of each rail, in the order of `all_rails`; empty if pods have no addresses.

    Args:
        fabric: the fabric.
        own: the team's own network, if it has one, instead of the network and `exclude` of the fabric.

    Raises:
        ValueError: the network is too small for the rails or the router; never for a valid Platform.
    """
    if fabric.addresses is None:
        return ()
    rails = len(fabric.all_rails)
    taken = () if own else fabric.addresses.exclude
    return tuple(
        RailRange(network, _gateway(fabric, network), tuple(_within(network, taken)))
        for network in _split(own or fabric.addresses.range, rails)
    )


def _gateway(fabric: Fabric, network: Network) -> Address | None:
    """Return the address of a rail's router, at the position that `addresses.gateway` has in `addresses.range`.

    The result is None if the fabric has no router.

    Raises:
        ValueError: the rail is too small for this position.
    """
    addresses = fabric.addresses
    if addresses is None or addresses.gateway is None:
        return None
    place = int(addresses.gateway) - int(addresses.range.network_address)
    if place >= network.num_addresses:
        position = f"the gateway is at position {place} of each rail, counted from 0"
        raise ValueError(f"{position}, but a rail ({network}) has {network.num_addresses} addresses")
    return network[place]


def _split(whole: Network, rails: int) -> Iterator[Network]:
    """Yield one subnet of a network for each rail. All subnets have the same size.

    Raises:
        ValueError: the network has fewer addresses than the fabric has rails.
    """
    if whole.num_addresses < rails:
        addresses = "1 address" if whole.num_addresses == 1 else f"{whole.num_addresses} addresses"
        raise ValueError(f"the network has {addresses}, but the fabric has {rails} rails")
    return islice(whole.subnets((rails - 1).bit_length()), rails)


def _within(network: Network, taken: Iterable[Network]) -> Iterator[Network]:
    """Yield the intersection of a network with each network of `taken` that overlaps it.

    If two networks overlap, one contains the other, so the intersection is the smaller one.
    """
    for part in taken:
        if network.overlaps(part):
            yield part if part.prefixlen > network.prefixlen else network


def rail_supply(rail: RailRange, size: int, by: Allocator) -> Supply:
    """Return the addresses of a rail that the IPAM plugin can assign to pods.

    Args:
        rail: the addresses of the rail.
        size: the number of addresses that a node needs (the size of a block).
        by: the IPAM plugin.
    """
    if by == "whereabouts":
        return addressing.whereabouts_supply(rail.network, whereabouts_exclude(rail))
    return addressing.ip_pool_supply(rail.network, size, ip_pool_exclusions(rail, size), gateway=rail.gateway)


def count_free_addresses(rail: RailRange, size: int, by: Allocator) -> int:
    """Return the number of free addresses of a rail. With nv-ipam, count the blocks of `size`, with their routers."""
    given = rail_supply(rail, size, by)
    return given.count if given.nodes is None else given.nodes * size


def whereabouts_exclude(rail: RailRange) -> list[Network]:
    """Return the field `exclude` of whereabouts: `exclude` of the rail, and its gateway, which no pod must get."""
    return [*rail.exclude, *([ipaddress.ip_network(rail.gateway)] if rail.gateway else [])]


def ip_pool_exclusions(rail: RailRange, size: int) -> list[Span]:
    """Return `exclusions` of an IPPool: whole blocks that contain an excluded address.

    Otherwise a node would get the rest of such a block, too small for all of its pods. Exclusions must not overlap.
    """
    start, count = addressing.first_in_blocks(rail.network), addressing.block_count(rail.network, size)
    runs: list[Span] = []
    for part in sorted(rail.exclude, key=lambda network: int(network.network_address)):
        low, high = addressing.span_of(part)
        first, last = max(0, (low - start) // size), min(count - 1, (high - start) // size)
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(last, runs[-1][1]))
        elif first <= last:
            runs.append((first, last))
    return [(start + first * size, start + (last + 1) * size - 1) for first, last in runs]


def count_addresses(fabric: Fabric, own: Network | None = None) -> int:
    """Return the number of free addresses of a fabric: the number of rails times the fewest free addresses of a rail.

    The result is 0 if the fabric assigns no addresses.

    Args:
        fabric: the fabric.
        own: the team's own network, if it has one, instead of the network of the fabric.

    Raises:
        ValueError: the network is too small for the rails or the router; never for a valid Platform.
    """
    ranges = rail_ranges(fabric, own)
    return len(ranges) * min(
        (count_free_addresses(span, addresses_per_node(fabric), allocator(fabric)) for span in ranges), default=0
    )


def count_needed_addresses(fabric: Fabric, nodes: int) -> int:
    """Return the number of addresses of all rails that a number of nodes needs, with nv-ipam also for routers."""
    return nodes * addresses_per_node(fabric) * len(fabric.all_rails)
