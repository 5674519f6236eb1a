"""Which addresses of a fabric are whose: every rail has a network of its own, large enough for all of its nodes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from generator.config.fabrics import Fabric

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
Allocator = Literal["whereabouts", "nv-ipam"]


@dataclass(frozen=True, slots=True)
class RailRange:
    """The addresses of one rail.

    Attributes:
        network: all of them.
        gateway: the router's; empty where there is none.
        exclude: parts that nobody gets.
    """

    network: IPNetwork
    gateway: str
    exclude: tuple[IPNetwork, ...]


def allocator(fabric: Fabric) -> Allocator:
    """Who hands its addresses out."""
    default: Allocator = "nv-ipam" if fabric.operated == "nvidia" else "whereabouts"
    return (fabric.addresses.by if fabric.addresses else None) or default


def block(fabric: Fabric) -> int:
    """How many addresses of each rail a node takes: one for each NIC of each pod, in blocks also one for the router.

    nvidia-k8s-ipam 3ce4a34 README.md: the gateway lies in a node's block, and is passed over there.
    """
    needed = fabric.all_rails[0].count * fabric.pods_per_node
    has_router = allocator(fabric) == "nv-ipam" and fabric.addresses and fabric.addresses.gateway
    return needed + 1 if has_router else needed


def rail_ranges(fabric: Fabric, own: str | None = None) -> tuple[RailRange, ...]:
    """The addresses of each rail, in the order of `all_rails`; none where pods have no addresses on it.

    Args:
        fabric: which.
        own: a team's own network instead of the fabric's.

    Raises:
        ValueError: the network has no room for so many rails, or for the router; a checked Platform never does that.
    """
    if fabric.addresses is None:
        return ()
    rails = len(fabric.all_rails)
    taken = () if own else tuple(ipaddress.ip_network(part) for part in fabric.addresses.exclude)
    return tuple(
        RailRange(network, _gateway(fabric, network), tuple(_within(network, taken)))
        for network in _split(ipaddress.ip_network(own or fabric.addresses.range), rails)
    )


def _gateway(fabric: Fabric, network: IPNetwork) -> str:
    """The router stands at the same place of every rail."""
    addresses = fabric.addresses
    if addresses is None or addresses.gateway is None:
        return ""
    place = int(ipaddress.ip_address(addresses.gateway)) - int(ipaddress.ip_network(addresses.range).network_address)
    if place >= network.num_addresses:
        raise ValueError(f"{network} has no address number {place}, where the gateway stands")
    return str(network[place])


def _split(whole: IPNetwork, rails: int) -> Iterator[IPNetwork]:
    """The first so many of equal parts: as many as the next power of two."""
    return islice(whole.subnets((rails - 1).bit_length()), rails)


def _within(network: IPNetwork, taken: Iterable[IPNetwork]) -> Iterator[IPNetwork]:
    """What networks have in common with one, all of one version: of two that overlap, one holds the other."""
    for part in taken:
        if network.overlaps(part):
            yield part if part.prefixlen > network.prefixlen else network


def free(rail: RailRange, size: int, by: Allocator) -> int:
    """The addresses that can be handed out: with nv-ipam whole blocks."""
    usable = rail.network.num_addresses - 2
    if by == "whereabouts":
        apart: Iterable[IPNetwork] = ipaddress.collapse_addresses(rail.exclude)  # type: ignore[type-var]
        taken = sum(part.num_addresses for part in apart)
        return max(0, usable - taken - bool(rail.gateway))
    lost = sum(last - first + 1 for first, last in excluded_blocks(rail, size))
    return (usable // size - lost) * size


def excluded_blocks(rail: RailRange, size: int) -> list[tuple[int, int]]:
    """The blocks of nv-ipam in which any address is excluded: first and last of each run, from 0.

    A block begins right after the network's own address (nvidia-k8s-ipam 3ce4a34 pkg/ipam-controller/allocator).
    """
    start, last = int(rail.network.network_address) + 1, (rail.network.num_addresses - 2) // size - 1
    runs: list[tuple[int, int]] = []
    for part in sorted(rail.exclude, key=lambda each: int(each.network_address)):
        first = max(0, (int(part.network_address) - start) // size)
        end = min(last, (int(part.broadcast_address) - start) // size)
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        elif first <= end:
            runs.append((first, end))
    return runs
