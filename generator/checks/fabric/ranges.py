"""Addressing: the addresses that a network gives, and who counts which of them are taken.

whereabouts 3a262bd pkg/iphelpers, pkg/allocate; nvidia-k8s-ipam 3ce4a34 pkg/ipam-controller/allocator;
containernetworking/plugins plugins/ipam
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from generator.checks.fabric.attachments import CNI, Attachment
from generator.checks.fabric.read import Fabrics
from generator.checks.mpi_runtime import mapping, mappings, texts
from generator.documents.load import Path
from generator.manifests import Manifest

NV_IPAM = "nv-ipam.nvidia.com"
_POOLS = {"ippool": "IPPool", "cidrpool": "CIDRPool"}
_REMEMBERED = 1024  # networks: those of one team are those of the next
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses that are given to pods.

    Attributes:
        manifest: the object that says them.
        path: where.
        network: all of it.
        count: how many of it pods can get.
        counted_by: who knows which are taken: two with the same never give the same address.
        per_node: how many a node keeps for its pods; None where nodes share.
        nodes: for how many nodes that is enough; None where nodes share.
    """

    manifest: Manifest
    path: Path
    network: Network
    count: int
    counted_by: str
    per_node: int | None = None
    nodes: int | None = None


def ipam_path(network: Attachment) -> Path:
    """Where a network says how it gives addresses."""
    return ("spec", "config") if network.manifest.group == CNI else ("spec", "ipam")


def pool_names(network: Attachment) -> list[str]:
    """The pools of nv-ipam that a network takes addresses from."""
    said = network.ipam.get("poolName") if network.ipam.get("type") == "nv-ipam" else None
    return [name.strip() for name in said.split(",") if name.strip()] if isinstance(said, str) else []


def pool_kind(network: Attachment) -> str:
    """The kind of these pools."""
    return _POOLS.get(str(network.ipam.get("poolType", "ippool")).lower(), "IPPool")


def pools(fabrics: Fabrics) -> Mapping[tuple[str, str], Manifest]:
    """Kind and name → the pool of nv-ipam."""
    found = (each for kind in _POOLS.values() for each in fabrics.of(kind) if each.group == NV_IPAM)
    return {(each.kind, each.name): each for each in found}


def ranges(network: Attachment, fabrics: Fabrics) -> list[Range]:
    """The addresses of a network, as far as they can be read."""
    ipam, path = network.ipam, ipam_path(network)
    match ipam.get("type"):
        case "whereabouts":
            return list(_of_whereabouts(network.manifest, path, ipam))
        case "host-local":
            return list(_of_host_local(network.manifest, path, ipam))
        case "nv-ipam":
            known = pools(fabrics)
            found = (known.get((pool_kind(network), name)) for name in pool_names(network))
            return [each for pool in found if pool for each in _of_pool(pool)]
    return []


def _of_whereabouts(manifest: Manifest, path: Path, ipam: Mapping[str, Any]) -> Iterator[Range]:
    """All networks of a cluster count together by the address alone, unless they say otherwise (types.go)."""
    name = ipam.get("network_name")
    counter = f"whereabouts with `network_name: {name}`" if name else "whereabouts"
    if ipam.get("enable_overlapping_ranges") is False:
        counter += f" for {ipam.get('range')} alone"
    for said in (ipam, *(each for _, each in mappings(ipam.get("ipRanges")))):
        text = str(said.get("range", ""))
        start, dash, rest = text.partition("-")  # `192.168.2.225-192.168.2.230/28` too
        prefix = rest.partition("/")[2]
        network = _network(f"{start}/{prefix}" if dash else text)
        if network:
            first = _address(start if dash else said.get("range_start"))
            last = _address(rest.partition("/")[0] if dash else said.get("range_end"))
            excluded = [each for each in map(_network, texts(said.get("exclude"))) if each]
            count = _count(network, first, last, excluded)
            yield Range(manifest, path, network, count, counter)


def _of_host_local(manifest: Manifest, path: Path, ipam: Mapping[str, Any]) -> Iterator[Range]:
    for said in _subnets(ipam):
        if network := _network(said.get("subnet")):
            count = _count(network, _address(said.get("rangeStart")), _address(said.get("rangeEnd")), [])
            yield Range(manifest, path, network, count, f"host-local of {manifest.resource}")


def _subnets(ipam: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield ipam
    sets = ipam.get("ranges")
    for each in sets if isinstance(sets, list) else ():
        yield from (said for _, said in mappings(each))


def _of_pool(pool: Manifest) -> Iterator[Range]:
    """Each node gets a block, the first after the address of the network, none with that of all hosts."""
    spec = mapping(pool.body, "spec")
    is_blocks = pool.kind == "IPPool"
    field = "subnet" if is_blocks else "cidr"
    network = _network(spec.get(field))
    size = spec.get("perNodeBlockSize" if is_blocks else "perNodeNetworkPrefix")
    if network is None or not isinstance(size, int) or isinstance(size, bool) or size < 1:
        return
    if is_blocks:
        count = _count(network, None, None, [])
        per_node, nodes = size, count // size
    elif network.prefixlen <= size <= network.max_prefixlen:
        nodes = 2 ** (size - network.prefixlen)
        block = 2 ** (network.max_prefixlen - size)
        gateway = 1 if spec.get("gatewayIndex") is not None else 0
        per_node = (block - 2 if block > 2 else block) - gateway  # noqa: PLR2004 - network and broadcast
        count = nodes * per_node
    else:
        return
    yield Range(pool, ("spec", field), network, count, f"the {pool.kind} {pool.name}", per_node, nodes)


def _count(network: Network, first: Any, last: Any, excluded: list[Network]) -> int:
    """How many addresses pods can get: neither that of the network nor that of all hosts."""
    whole = network.num_addresses
    low, high = int(network.network_address), int(network.broadcast_address)
    if whole > 2:  # noqa: PLR2004 - a network of one or two hosts has neither
        low, high = low + 1, high - 1
    low = max(low, int(first)) if first is not None and first in network else low
    high = min(high, int(last)) if last is not None and last in network else high
    taken = 0
    for part in excluded:
        if part.version == network.version:
            taken += max(0, min(high, int(part.broadcast_address)) - max(low, int(part.network_address)) + 1)
    return max(0, high - low + 1 - taken)


def _network(text: object) -> Network | None:
    return _read(text) if isinstance(text, str) and "/" in text else None


@lru_cache(_REMEMBERED)
def _read(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _address(text: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text) if isinstance(text, str) and text else None
    except ValueError:
        return None
