"""Ranges of addresses that networks give to pods, and the IPAM plugin that records which of them are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks.fabric.attachments import CNI, Attachment
from generator.checks.fabric.read import Fabrics
from generator.documents.load import Path
from generator.documents.scalars import int64
from generator.facts import addressing
from generator.facts.addressing import Network, Span, Supply, parse_address, parse_network
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, strings

NV_IPAM = "nv-ipam.nvidia.com"
_POOLS = {"ippool": "IPPool", "cidrpool": "CIDRPool"}


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses that one network or pool gives to pods.

    Attributes:
        manifest: the object that declares them.
        path: where it does.
        network: the network that they are in.
        supply: how many of them pods get.
        counted_by: what records which are taken. Two ranges with the same record never give one address twice.
    """

    manifest: Manifest
    path: Path
    network: Network
    supply: Supply
    counted_by: str


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


def exclusions(pool: Manifest) -> list[Span] | None:
    """Return `exclusions` of a pool of nv-ipam; None if its webhook rejects one of them."""
    return _spans(mapping(pool.body, "spec").get("exclusions"), "startIP", "endIP", _number)


def _of_whereabouts(manifest: Manifest, path: Path, ipam: Mapping[str, Any]) -> Iterator[Range]:
    """All networks of a cluster count together by the address alone, unless they say otherwise (types.go)."""
    name = ipam.get("network_name")
    counter = f"whereabouts with `network_name: {name}`" if name else "whereabouts"
    if ipam.get("enable_overlapping_ranges") is False:
        counter += f" for {ipam.get('range')} alone"
    for said in (ipam, *(each for _, each in indexed_mappings(ipam.get("ipRanges")))):
        # whereabouts 3a262bd pkg/config/config.go: `192.168.2.225-192.168.2.230/28` too
        start, dash, text = str(said.get("range", "")).rpartition("-")
        network = parse_network(text)
        if network is None:
            continue
        first = parse_address(start if dash else said.get("range_start"))
        last = parse_address(text.partition("/")[0] if dash else said.get("range_end"))
        supply = addressing.whereabouts_supply(network, _excluded(said), first, last)
        if dash and (first is None or first not in network):
            supply = Supply(0)  # whereabouts rejects the configuration
        if "node_slice_size" in ipam:
            sliced = _slices(network, ipam["node_slice_size"])
            if sliced is None:
                continue
            supply = sliced
        yield Range(manifest, path, network, supply, counter)


def _slices(network: Network, size: object) -> Supply | None:
    prefix = size.removeprefix("/") if isinstance(size, str) else ""
    length = int64(prefix)
    return None if length is None else addressing.whereabouts_slices(network, length)


def _excluded(said: Mapping[str, Any]) -> Iterator[Network]:
    """Return the networks of `exclude`, which may name single addresses (pkg/allocate/allocate.go)."""
    for text in strings(said.get("exclude")):
        found = parse_network(text if "/" in text else addressing.alone(text))
        if found:
            yield found


def _of_host_local(manifest: Manifest, path: Path, ipam: Mapping[str, Any]) -> Iterator[Range]:
    """A pod gets one address of each set, from any range of it."""
    for said in _sets(ipam):
        known = [(each, network) for each in said if (network := parse_network(each.get("subnet")))]
        counts = [addressing.host_local_supply(network, *_bounds(each)).count for each, network in known]
        for _, network in known:
            yield Range(manifest, path, network, Supply(sum(counts), sum(counts)), f"host-local of {manifest.resource}")


def _bounds(said: Mapping[str, Any]) -> Iterator[addressing.Address | None]:
    return (parse_address(said.get(key)) for key in ("rangeStart", "rangeEnd", "gateway"))


def _sets(ipam: Mapping[str, Any]) -> Iterator[list[Mapping[str, Any]]]:
    yield [ipam]
    sets = ipam.get("ranges")
    for each in sets if isinstance(sets, list) else ():
        yield [said for _, said in indexed_mappings(each)]


def _of_pool(pool: Manifest) -> Iterator[Range]:
    spec = mapping(pool.body, "spec")
    is_blocks = pool.kind == "IPPool"
    field = "subnet" if is_blocks else "cidr"
    network = parse_network(spec.get(field))
    size = _whole(spec.get("perNodeBlockSize" if is_blocks else "perNodeNetworkPrefix"))
    excluded = exclusions(pool)
    per_node = _spans(spec.get("perNodeExclusions"), "startIndex", "endIndex", _whole)
    if network is None or not size or excluded is None or per_node is None:
        return
    supply = (
        addressing.ip_pool_supply(network, size, excluded, per_node, parse_address(spec.get("gateway")))
        if is_blocks
        else addressing.cidr_pool_supply(network, size, excluded, per_node, _whole(spec.get("gatewayIndex")))
    )
    if supply:
        yield Range(pool, ("spec", field), network, supply, f"the {pool.kind} {pool.name}")


def _spans(said: object, first: str, last: str, read: Callable[[object], int | None]) -> list[Span] | None:
    """Return first and last of each exclusion; None if one of them cannot be read, and the pool is rejected for it."""
    found = [(read(each.get(first)), read(each.get(last))) for _, each in indexed_mappings(said)]
    spans = [(begin, end) for begin, end in found if begin is not None and end is not None and begin <= end]
    return spans if len(spans) == len(found) else None


def _number(text: object) -> int | None:
    address = parse_address(text)
    return None if address is None else int(address)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
