"""Second networks of pods, which Multus attaches: their definitions, their segments, and their addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from generator.documents.load import Path
from generator.documents.scalars import int64
from generator.facts import addressing
from generator.facts.addressing import Network, Span, Supply, parse_address, parse_network
from generator.facts.names import RESOURCE_NAME
from generator.manifests import Manifest
from generator.objects.devices import MELLANOX, SRIOV, Resource, parsed, prefix_of, resource
from generator.objects.fields import integer, items, mapping, mappings, string, strings

CNI = "k8s.cni.cncf.io"
SRIOV_PLUGINS = {"SriovNetwork": "sriov", "SriovIBNetwork": "ib-sriov", "OVSNetwork": "ovs"}
"""Network kind of the SR-IOV operator → CNI plugin."""
_MELLANOX_PLUGINS = {"MacvlanNetwork": "macvlan", "HostDeviceNetwork": "host-device", "IPoIBNetwork": "ipoib"}
"""Network kind of NVIDIA's network operator → CNI plugin."""
NV_IPAM = "nv-ipam.nvidia.com"
POOLS = {"ippool": "IPPool", "cidrpool": "CIDRPool"}
"""`poolType` in an IPAM configuration of nv-ipam → kind of the pool."""
_DEFAULT_NAMESPACE = {"MacvlanNetwork": "default", "IPoIBNetwork": "default"}


@dataclass(frozen=True, slots=True)
class Attachment:
    """A NetworkAttachmentDefinition, or an object from which an operator creates one.

    Attributes:
        manifest: the object.
        namespace: the namespace of the NetworkAttachmentDefinition; empty if it is unknown.
        resource: the resource whose devices the network uses; None if the network needs no device.
        path: the path of the resource name in the object.
        plugins: the CNI configuration: the main plugin, then the chained plugins; empty if it cannot be parsed.
        plugins_path: the path of the CNI configuration, or of the chained plugins, in the object.
    """

    manifest: Manifest
    namespace: str
    resource: Resource | None
    path: Path
    plugins: tuple[Mapping[str, Any], ...]
    plugins_path: Path

    @property
    def name(self) -> str:
        """The name of the NetworkAttachmentDefinition."""
        return self.manifest.name

    @property
    def main(self) -> Mapping[str, Any]:
        """The configuration of the main plugin; empty if there is none."""
        return self.plugins[0] if self.plugins else {}

    @property
    def type(self) -> str:
        """The type of the main plugin; empty if the configuration has none."""
        return string(self.main.get("type"))

    @property
    def ipam(self) -> Mapping[str, Any]:
        """The IPAM configuration; empty if the network assigns no addresses."""
        return mapping(self.main, "ipam")

    @property
    def ipam_path(self) -> Path:
        """The path of the IPAM configuration."""
        return ("spec", "config") if self.manifest.group == CNI else ("spec", "ipam")

    @property
    def pool_kind(self) -> str:
        """The kind of the nv-ipam pools in the IPAM configuration: IPPool or CIDRPool."""
        return POOLS.get(str(self.ipam.get("poolType", "ippool")).lower(), "IPPool")

    @property
    def pool_names(self) -> list[str]:
        """The names of the nv-ipam pools that the network gets addresses from; empty for other IPAM plugins."""
        names = self.ipam.get("poolName") if self.ipam.get("type") == "nv-ipam" else None
        return [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else []

    def chains(self, plugin: str) -> bool:
        """Return True if a CNI plugin of this type is chained to the main plugin."""
        return any(chained.get("type") == plugin for chained in self.plugins[1:])


def attachment(manifest: Manifest) -> Attachment | None:
    """Return the network that an object defines; None if the object defines no network.

    Source: network-operator b06827e pkg/state/state_hostdevice_network.go resourceNamePrefix
    """
    group, kind = manifest.group, manifest.kind
    if group == CNI and kind == "NetworkAttachmentDefinition":
        name = string(mapping(manifest.body, "metadata", "annotations").get(RESOURCE_NAME))
        config = mapping(parsed(mapping(manifest.body, "spec").get("config")))
        plugins = mappings(config.get("plugins")) or ((config,) if config else ())
        path: Path = ("metadata", "annotations", RESOURCE_NAME)
        device = resource(name) if name else None
        return Attachment(manifest, manifest.namespace, device, path, plugins, ("spec", "config"))
    if group == SRIOV and kind in SRIOV_PLUGINS:
        return _operator_network(manifest, SRIOV_PLUGINS[kind], prefix_of(manifest.namespace), manifest.namespace)
    if group == MELLANOX and kind in _MELLANOX_PLUGINS:
        return _operator_network(manifest, _MELLANOX_PLUGINS[kind], "nvidia.com", _DEFAULT_NAMESPACE.get(kind, ""))
    return None


_KEPT = ("vlan", "master", "mode", "mtu", "linkState", "spoofChk", "trust")


def _operator_network(manifest: Manifest, plugin: str, prefix: str, default_namespace: str) -> Attachment:
    """Return the network that an operator creates from an object whose CNI plugin is `plugin`."""
    spec = mapping(manifest.body, "spec")
    name = string(spec.get("resourceName"))
    if manifest.group == MELLANOX:
        name = name.removeprefix(f"{prefix}/")
    main = {"type": plugin, **{key: spec[key] for key in _KEPT if key in spec}, "ipam": parsed(spec.get("ipam"))}
    chained = mappings(parsed(f"[{spec['metaPlugins']}]")) if spec.get("metaPlugins") else ()
    return Attachment(
        manifest,
        string(spec.get("networkNamespace"), default_namespace),
        Resource(prefix, name) if name else None,
        ("spec", "resourceName"),
        (main, *chained),
        ("spec", "metaPlugins"),
    )


_DEFAULT_PARTITION = 0x7FFF
_VLAN_FIX = "give each team its own VLAN (`vlan` of the network), and configure it on the switches"
_PARTITION_FIX = (
    "give each team its own partition: set `pkey` in a NetworkAttachmentDefinition of type ib-sriov (a SriovIBNetwork "
    "has no such field), and run ib-kubernetes and UFM"
)
_DEVICE_FIX = "give each team ports in its own VLAN or partition of the switch, or virtual functions (SR-IOV)"


class Segment(NamedTuple):
    """A layer 2 segment or InfiniBand partition. Pods on networks of one segment can reach each other.

    Attributes:
        key: equal for networks that connect to the same segment.
        text: the name of the segment in messages.
        fix: how to give each team a segment of its own.
    """

    key: tuple[str, ...]
    text: str
    fix: str


def segment(network: Attachment) -> Segment | None:
    """Return the segment that a network connects to; None if its configuration does not define one."""
    main, device = network.main, network.resource.name if network.resource else ""
    match network.type:
        case "sriov" if device:
            vlan = _number(main.get("vlan"), 0)
            text = (
                f"VLAN {vlan} on the devices of resource `{device}`"
                if vlan
                else f"the devices of resource `{device}` without a VLAN"
            )
            return Segment(("sriov", device, str(vlan)), text, _VLAN_FIX)
        case "ib-sriov" if device:
            # a pkey has 15 bits and the membership bit (ib-sriov-cni 543060d pkg/types)
            key = _number(main.get("pkey"), _DEFAULT_PARTITION) & _DEFAULT_PARTITION
            partition = "the default partition" if key == _DEFAULT_PARTITION else f"the partition {key:#x}"
            return Segment(
                ("ib", device, str(key)), f"{partition} on the devices of resource `{device}`", _PARTITION_FIX
            )
        case "host-device" if device:
            return Segment(
                ("host-device", device), f"the physical network of the devices of resource `{device}`", _DEVICE_FIX
            )
        case "macvlan" | "ipvlan" | "ipoib" if master := str(main.get("master") or ""):
            fix = f"give each team its own VLAN, for example `master: {master}.120`"
            fix = _DEVICE_FIX if network.type == "ipoib" else fix
            return Segment(("master", master), f"the physical network of the nodes' interface `{master}`", fix)
    return None


def shared_device(name: str) -> Segment:
    """Return the segment of a resource of the RDMA shared device plugin: all networks that its NICs reach."""
    fix = "attach virtual functions instead (SR-IOV, RDMA mode exclusive), with a VLAN or partition per team"
    text = f"`{resource(name)}`, which gives all pods of a node access to the same NICs"
    return Segment(("shared", name), text, fix)


def _number(value: object, default: int) -> int:
    try:
        return int(str(value), 0) if value is not None else default
    except ValueError:
        return default


@dataclass(frozen=True, slots=True)
class Range:
    """A range of addresses that one network or pool assigns to pods.

    Attributes:
        manifest: the object that declares the range.
        path: the path of the range in the object.
        network: the IP network that contains the addresses.
        supply: the number of addresses for pods.
        allocator: the name of the record of the addresses in use. Ranges with the same record do not assign one address
            to two pods at a time. host-local keeps a record on each node, so pods on two nodes can get the same
            address.
    """

    manifest: Manifest
    path: Path
    network: Network
    supply: Supply
    allocator: str


def ranges(network: Attachment, pools: Mapping[tuple[str, str], Manifest]) -> list[Range]:
    """Return the ranges of addresses that whereabouts, host-local or nv-ipam assigns to the pods of a network.

    Ranges that cannot be parsed are absent; the list is empty for any other IPAM plugin.

    Args:
        network: the network.
        pools: (kind, name) → pool of nv-ipam.
    """
    match network.ipam.get("type"):
        case "whereabouts":
            return list(_whereabouts_ranges(network))
        case "host-local":
            return list(_host_local_ranges(network))
        case "nv-ipam":
            named = (pools.get((network.pool_kind, name)) for name in network.pool_names)
            return [pool_range for pool in named if pool and (pool_range := _pool_range(pool))]
    return []


def exclusions(pool: Manifest) -> list[Span] | None:
    """Return `exclusions` of an nv-ipam pool; None if one is invalid, because the webhook then rejects the pool."""
    return _spans(mapping(pool.body, "spec").get("exclusions"), "startIP", "endIP", _address_number)


def _whereabouts_ranges(network: Attachment) -> Iterator[Range]:
    """Yield the ranges of a whereabouts network. Networks with one `network_name` share a record of used addresses.

    Source: whereabouts 3a262bd pkg/types/types.go; whereabouts 3a262bd pkg/config/config.go (a range may be
    `192.168.2.225-192.168.2.230/28`); whereabouts 3a262bd pkg/allocate/allocate.go (`exclude` may list single
    addresses)
    """
    ipam = network.ipam
    name = ipam.get("network_name")
    allocator = f"whereabouts with `network_name: {name}`" if name else "whereabouts"
    if ipam.get("enable_overlapping_ranges") is False:
        allocator += f" for {ipam.get('range')} alone"
    for entry in (ipam, *mappings(ipam.get("ipRanges"))):
        ip_network = parse_network(str(entry.get("range", "")).rpartition("-")[2])
        if ip_network is None:
            continue
        supply: Supply | None = _whereabouts_supply(entry, ip_network)
        if "node_slice_size" in ipam:
            length = int64(string(ipam["node_slice_size"]).removeprefix("/"))
            supply = None if length is None else addressing.whereabouts_slices(ip_network, length)
        if supply is not None:
            yield Range(network.manifest, network.ipam_path, ip_network, supply, allocator)


def _whereabouts_supply(entry: Mapping[str, Any], ip_network: Network) -> Supply:
    """Return the addresses that whereabouts assigns from one range; none if it rejects the start of the range."""
    start, dash, text = str(entry["range"]).rpartition("-")
    limits = (start, text.partition("/")[0]) if dash else (entry.get("range_start"), entry.get("range_end"))
    first, last = map(parse_address, limits)
    if dash and (first is None or first not in ip_network):
        return Supply(0)
    texts = (item if "/" in item else addressing.alone(item) for item in strings(entry.get("exclude")))
    return addressing.whereabouts_supply(ip_network, filter(None, map(parse_network, texts)), first, last)


def _host_local_ranges(network: Attachment) -> Iterator[Range]:
    """Yield the ranges of a host-local network. A pod gets one address of each list of ranges in `ranges`.

    host-local records addresses on each node, so pods on two nodes can get the same address.
    """
    sets = network.ipam.get("ranges")
    for entries in ((network.ipam,), *(mappings(entry) for entry in items(sets))):
        known = [(entry, subnet) for entry in entries if (subnet := parse_network(entry.get("subnet")))]
        count = sum(
            addressing.host_local_supply(
                subnet, *(parse_address(entry.get(key)) for key in ("rangeStart", "rangeEnd", "gateway"))
            ).count
            for entry, subnet in known
        )
        for _, subnet in known:
            allocator = f"host-local of {network.manifest.resource}"
            yield Range(network.manifest, network.ipam_path, subnet, Supply(count, count), allocator)


def _pool_range(pool: Manifest) -> Range | None:
    spec, is_blocks = mapping(pool.body, "spec"), pool.kind == "IPPool"
    field = "subnet" if is_blocks else "cidr"
    network = parse_network(spec.get(field))
    size = _natural(spec.get("perNodeBlockSize" if is_blocks else "perNodeNetworkPrefix"))
    excluded = exclusions(pool)
    per_node = _spans(spec.get("perNodeExclusions"), "startIndex", "endIndex", _natural)
    if network is None or not size or excluded is None or per_node is None:
        return None
    supply = (
        addressing.ip_pool_supply(network, size, excluded, per_node, parse_address(spec.get("gateway")))
        if is_blocks
        else addressing.cidr_pool_supply(network, size, excluded, per_node, _natural(spec.get("gatewayIndex")))
    )
    return Range(pool, ("spec", field), network, supply, f"the {pool.kind} {pool.name}") if supply else None


def _spans(value: object, first: str, last: str, read: Callable[[object], int | None]) -> list[Span] | None:
    """Return (first, last) of each exclusion of a pool; None if one is invalid, so nv-ipam rejects the pool."""
    bounds = [(read(entry.get(first)), read(entry.get(last))) for entry in mappings(value)]
    spans = [(begin, end) for begin, end in bounds if begin is not None and end is not None and begin <= end]
    return spans if len(spans) == len(bounds) else None


def _address_number(text: object) -> int | None:
    address = parse_address(text)
    return None if address is None else int(address)


def _natural(value: object) -> int | None:
    return number if (number := integer(value, -1)) >= 0 else None
