"""The number of addresses that IPAM plugins assign to pods, and the addresses of the metadata services of clouds.

The IPAM plugins are whereabouts, host-local and nv-ipam.

Sources: whereabouts 3a262bd pkg/config/config.go; whereabouts 3a262bd pkg/iphelpers/iphelpers.go; whereabouts 3a262bd
pkg/allocate/allocate.go; nvidia-k8s-ipam 3ce4a34 api/v1alpha1/helpers.go; nvidia-k8s-ipam 3ce4a34 pkg/ip/cidr.go;
nvidia-k8s-ipam 3ce4a34 pkg/ipam-controller/allocator/allocator.go; nvidia-k8s-ipam 3ce4a34
pkg/ipam-controller/controllers/cidrpool/cidrpool.go, pkg/ipam-node/allocator; containernetworking/plugins v1.9.1
plugins/ipam/host-local/backend/allocator. tests/fixtures/addressing has recorded results of whereabouts and nv-ipam.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from generator.facts.table import read_table

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Span = tuple[int, int]
"""(first, last) of consecutive addresses, or of consecutive indices in a block."""

_CACHED_NETWORKS = 1024  # many teams use the same networks
_RESERVED = 2  # a network of so many addresses has only the network address and the broadcast address


@dataclass(frozen=True, slots=True)
class Supply:
    """The addresses that a range has for pods.

    Attributes:
        count: number of addresses for pods of all nodes together; with host-local, of each node, because all nodes use
            the same addresses.
        per_node: number of addresses that a node gets for its pods; None if all nodes share the range.
        nodes: number of nodes that get addresses; None if all nodes share the range, or if each node has its own copy.
        short: (position in the order of allocation, number of addresses) of each node that gets fewer than `per_node`.
    """

    count: int
    per_node: int | None = None
    nodes: int | None = None
    short: tuple[Span, ...] = ()


def parse_network(text: object) -> Network | None:
    """Parse a CIDR to its network, even if host bits are set; None if the value is not a CIDR."""
    return _parse_network(text) if isinstance(text, str) and "/" in text else None


def parse_address(text: object) -> Address | None:
    """Parse an IP address; None if the value is not an IP address."""
    try:
        return ipaddress.ip_address(text) if isinstance(text, str) and text else None
    except ValueError:
        return None


def contains(network: Network, part: Network) -> bool:
    """Return True if a network contains each address of another network."""
    return network.version == part.version and part.subnet_of(network)  # type: ignore[arg-type]


def span_of(network: Network) -> Span:
    """Return the first and the last address of a network."""
    return int(network.network_address), int(network.broadcast_address)


def overlap(spans: Iterable[Span]) -> bool:
    """Return True if two of the spans have an address in common."""
    return any(begin <= end for (_, end), (begin, _) in pairwise(sorted(spans)))


def alone(address: str) -> str:
    """Return the CIDR of a single address."""
    return f"{address}/{128 if ':' in address else 32}"


def whereabouts_supply(
    network: Network,
    excluded: Iterable[Network] = (),
    first: Address | None = None,
    last: Address | None = None,
) -> Supply:
    """Count the addresses that whereabouts assigns from a range.

    whereabouts never assigns the first or the last address of the network, so /31, /32, /127 and /128 have no address.
    It ignores a `range_start` or `range_end` outside the range, and a `range_end` before `range_start`. It can assign
    the address of the gateway.

    Args:
        network: the network of `range`.
        excluded: the networks of `exclude`; a single address is a /32 or /128.
        first: `range_start`.
        last: `range_end`.
    """
    low, high = span_of(network)
    low, high = low + 1, high - 1
    start = int(first) if first is not None and first.version == network.version else low
    end = int(last) if last is not None and last.version == network.version else high
    start = start if low <= start <= high else low
    end = end if start <= end <= high else high
    taken = _clip((span_of(part) for part in excluded if part.version == network.version), (start, end))
    return Supply(max(0, end - start + 1 - _count_addresses(taken)))


def whereabouts_slices(network: Network, prefix: int) -> Supply | None:
    """Count the addresses that whereabouts assigns from a range with `node_slice_size`.

    With `node_slice_size`, whereabouts ignores `range_start`, `range_end` and `exclude`.

    Returns:
        None if the range is IPv6, which DivideRangeBySize does not support, or if `prefix` is not between the prefix of
            the range and 32.
    """
    if network.version != 4 or not network.prefixlen <= prefix <= network.max_prefixlen:  # noqa: PLR2004
        return None
    nodes, per_node = 1 << (prefix - network.prefixlen), max(0, (1 << (network.max_prefixlen - prefix)) - 2)
    return Supply(nodes * per_node, per_node, nodes)


def host_local_supply(
    network: Network, first: Address | None = None, last: Address | None = None, gateway: Address | None = None
) -> Supply:
    """Count the addresses that host-local assigns on each node.

    It assigns all usable addresses except the gateway, which is by default the first usable address.

    Args:
        network: `subnet`; host-local rejects a subnet of fewer than four addresses.
        first: `rangeStart`.
        last: `rangeEnd`.
        gateway: `gateway`.
    """
    if network.num_addresses <= _RESERVED:
        return Supply(0, 0)
    low, high = span_of(network)
    start = int(first) if first is not None and first in network else low + 1
    end = int(last) if last is not None and last in network else high - (network.version == 4)  # noqa: PLR2004
    router = int(gateway) if gateway is not None else low + 1
    count = max(0, end - start + 1 - (start <= router <= end))
    return Supply(count, count)


def first_in_blocks(network: Network) -> int:
    """Return the first address that an IPPool of nv-ipam assigns."""
    return span_of(network)[0] + (network.num_addresses > _RESERVED)


def block_count(network: Network, size: int) -> int:
    """Return the number of blocks of `size` addresses (`perNodeBlockSize`) in an IPPool, without regard to exclusions.

    No block contains the first address or the broadcast address, which is the last address of an IPv4 network. Networks
    of one or two addresses have neither.
    """
    has_broadcast = network.version == 4 and network.num_addresses > _RESERVED  # noqa: PLR2004
    return (span_of(network)[1] - has_broadcast - first_in_blocks(network) + 1) // size


def ip_pool_supply(
    network: Network,
    size: int,
    exclusions: Sequence[Span] = (),
    per_node_exclusions: Sequence[Span] = (),
    gateway: Address | None = None,
) -> Supply:
    """Count the addresses of an IPPool. Nodes get its blocks in order, except blocks whose addresses are all excluded.

    Args:
        network: `subnet`.
        size: `perNodeBlockSize`.
        exclusions: `exclusions`, as addresses.
        per_node_exclusions: `perNodeExclusions`, as indices in each block.
        gateway: `gateway`, which no pod gets; no node gets a block with only this address.
    """
    is_broken = overlap(exclusions)  # overlapping exclusions of the pool break all its nodes

    def free(low: int, excluded: Sequence[Span], gateways: Sequence[Span]) -> int | None:
        """Return the number of free addresses in the block that starts at `low`; None if no node gets the block."""
        block = (low, low + size - 1)
        taken = [*excluded, *_shift(per_node_exclusions, low)]
        if _count_addresses(_clip(taken, block)) == size or (size == 1 and (low, low) in gateways):
            return None
        return 0 if is_broken or overlap(taken) else size - _count_addresses(_clip([*taken, *gateways], block))

    gateways = [] if gateway is None else [(int(gateway), int(gateway))]
    return _sum_blocks(first_in_blocks(network), size, block_count(network, size), free, exclusions, gateways)


def cidr_pool_supply(
    network: Network,
    prefix: int,
    exclusions: Sequence[Span] = (),
    per_node_exclusions: Sequence[Span] = (),
    gateway_index: int | None = None,
) -> Supply | None:
    """Count the addresses of a CIDRPool, which assigns a network to each node.

    Args:
        network: `cidr`.
        prefix: `perNodeNetworkPrefix`.
        exclusions: `exclusions`, as addresses.
        per_node_exclusions: `perNodeExclusions`, as indices in the network of a node.
        gateway_index: `gatewayIndex`, the index of the gateway in the network of a node.

    Returns:
        None if `prefix` is shorter than the prefix of the pool, or longer than an address. The webhook of nv-ipam
            rejects such a pool.
    """
    if not network.prefixlen <= prefix <= network.max_prefixlen:
        return None
    size = 1 << (network.max_prefixlen - prefix)
    first = 0 if size <= _RESERVED else 1
    last = size - 1 - (network.version == 4 and size > _RESERVED)  # noqa: PLR2004

    def free(low: int, excluded: Sequence[Span], _gateways: Sequence[Span]) -> int | None:
        """Return the number of free addresses in the network that starts at `low`; None if no node gets it."""
        end, usable = low + size - 1, (low + first, low + last)
        within = _shift(per_node_exclusions, low)
        if _count_addresses(_clip([*excluded, *within], (low, low + last))) == last + 1:
            return None
        # The agent of a node cuts an exclusion that exceeds the node's network to the usable addresses.
        own = [
            (start if start >= low else usable[0], stop if stop <= end else usable[1])
            for start, stop in excluded
            if low <= start <= end or low <= stop <= end
        ]
        own += [(start, min(stop, usable[1])) for start, stop in within if start <= usable[1]]
        # The agent rejects an exclusion that starts after its end after this cut.
        if overlap(own) or any(start > stop for start, stop in own):
            return 0
        gateway = [] if gateway_index is None else [(low + gateway_index, low + gateway_index)]
        return last - first + 1 - _count_addresses(_clip([*own, *gateway], usable))

    return _sum_blocks(int(network.network_address), size, 1 << (prefix - network.prefixlen), free, exclusions)


_Free = Callable[[int, Sequence[Span], Sequence[Span]], int | None]
"""(first address of a block, exclusions, gateways) → its number of free addresses; None if no node gets the block."""


def _sum_blocks(
    start: int, size: int, count: int, free: _Free, exclusions: Sequence[Span], gateways: Sequence[Span] = ()
) -> Supply:
    """Sum up the free addresses of all blocks. Blocks differ only at a gateway or at an end of an exclusion."""
    usual = free(start, (), ())
    if usual is None:
        return Supply(0, 0, 0)
    excluded = _clip(exclusions, (start, start + size * count - 1))
    runs = [((low - start) // size, (high - start) // size) for low, high in excluded]
    inner = [(low + 1, high - 1) for low, high in runs if high > low]  # blocks that lie inside an exclusion
    edges = {index for run in runs for index in run}
    edges |= {index for gateway, _ in gateways if 0 <= (index := (gateway - start) // size) < count}
    short: list[Span] = []
    lost = 0
    for index in sorted(edges):
        if any(low <= index <= high for low, high in inner):
            continue
        amount = free(start + index * size, exclusions, gateways)
        if amount is None:
            lost += 1
        elif amount < usual:
            skipped = sum(min(high, index - 1) - low + 1 for low, high in inner if low < index)
            short.append((index - skipped - lost, amount))
    nodes = count - _count_addresses(inner) - lost
    return Supply((nodes - len(short)) * usual + sum(amount for _, amount in short), usual, nodes, tuple(short))


def _clip(spans: Iterable[Span], bounds: Span) -> list[Span]:
    """Return the parts of spans that lie within bounds, sorted and merged."""
    merged: list[Span] = []
    for begin, end in sorted((max(begin, bounds[0]), min(end, bounds[1])) for begin, end in spans):
        if begin > end:
            continue
        if merged and begin <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _count_addresses(spans: Iterable[Span]) -> int:
    return sum(end - begin + 1 for begin, end in spans)


def _shift(spans: Iterable[Span], start: int) -> list[Span]:
    return [(start + begin, start + end) for begin, end in spans]


@lru_cache(_CACHED_NETWORKS)
def _parse_network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


@cache
def denied_metadata() -> tuple[Network, ...]:
    """Return the networks of metadata services that no pod of a team may reach, whatever egress the team declares."""
    return tuple(ipaddress.ip_network(row["network"]) for row in read_table("metadata")["addresses"] if row["denied"])


@cache
def metadata_of_clouds() -> Mapping[Network, str]:
    """Return network → names of clouds, for each known metadata service."""
    return {ipaddress.ip_network(row["network"]): row["clouds"] for row in read_table("metadata")["addresses"]}
