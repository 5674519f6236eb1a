"""Second networks: the annotation that requests them, their definitions, and the segment that each leads to."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from generator.checks.fabric.devices import MELLANOX, SRIOV, Resource, parsed, prefix_of, resource
from generator.documents.json_text import read_json
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.documents.scalars import int64
from generator.facts.names import RESOURCE_NAME
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, items, mapping

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_INTERFACE = 15  # IFNAMSIZ of Linux, without the NUL
_BYTE = "[0-9a-fA-F]{2}"
_ADDRESS = re.compile(
    rf"{_BYTE}(?P<by>[:-]){_BYTE}((?P=by){_BYTE}){{4}}(((?P=by){_BYTE}){{2}})?(((?P=by){_BYTE}){{12}})?"
    rf"|{_BYTE * 2}\.{_BYTE * 2}(\.{_BYTE * 2}){{1,2}}((\.{_BYTE * 2}){{6}})?"
)
"""What Go's net.ParseMAC takes: 6, 8 or 20 bytes."""
_TYPES: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("name", "namespace", "interface", "mac", "infiniband-guid"), (str, "text")),
    **dict.fromkeys(("ips", "default-route", "portmappings"), (list, "list")),
    **dict.fromkeys(("bandwidth", "cni-args"), (dict, "mapping")),
}
"""Key, as Go compares it, and what it holds (network-attachment-definition-client v1.7.7 types.go)."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One interface that a pod asks for.

    Attributes:
        name: of the NetworkAttachmentDefinition.
        namespace: where that is; empty for the pod's own.
        interface: what it is to be called in the pod; empty where Multus chooses.
    """

    name: str
    namespace: str = ""
    interface: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Networks:
    """All of them, in order, or why Multus cannot read the annotation."""

    wanted: tuple[Wanted, ...] = ()
    error: str = ""
    fix: str = field(default="write `[namespace/]name[@interface]`, separated by commas", compare=False)


def networks(value: str) -> Networks:
    """What an annotation asks for. An empty one asks for nothing."""
    if not value:
        return Networks()
    try:
        return Networks(tuple(_of_json(value) if set('[{"') & set(value) else map(_short, value.split(","))))
    except _MalformedError as error:
        return Networks(error=error.args[0], fix=error.args[1])


class _MalformedError(Exception):
    """What is wrong, and what to write."""


def _short(item: str) -> Wanted:
    """`[namespace/]name[@interface]`."""
    text = item.strip()
    place, _, rest = text.rpartition("/")
    name, at, interface = rest.partition("@")
    name, place, interface = name.strip(), place.strip(), interface.strip()
    wrong = next((part for part in (name, place) if part and not _LABEL.fullmatch(part)), None if name else name)
    if wrong is not None:
        message = f"`{wrong}` in `{text}` is no name" if wrong else f"a name is missing in `{text}`"
        raise _MalformedError(message, "write `[namespace/]name[@interface]`: lower-case letters, digits and `-`")
    if at and interface and not _is_interface(interface):
        raise _MalformedError(f"`{interface}` is no name of an interface", "write at most 15 letters, no space, no `/`")
    return Wanted(name, place, interface)


def _is_interface(name: str) -> bool:
    return len(name.encode()) <= _LONGEST_INTERFACE and not re.search(r"[\s/@]", name)


def _of_json(value: str) -> Iterator[Wanted]:
    try:
        items = read_json(value)
    except ValueError as error:
        raise _MalformedError(
            f"it is no JSON: {error}", "write a JSON list, or `[namespace/]name[@interface]`"
        ) from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _MalformedError("it is no JSON list of objects", 'write `[{"name": "…", "namespace": "…"}]`')
    for item in ({key.lower(): value for key, value in each.items()} for each in items):
        wrong = next((key for key, (kind, _) in _TYPES.items() if not _is_a(kind, item.get(key))), None)
        if wrong:
            raise _MalformedError(f"`{wrong}` is no {_TYPES[wrong][1]}", f"write a {_TYPES[wrong][1]}, texts in quotes")
        if not item.get("name"):
            raise _MalformedError("an entry has no `name`", "name the NetworkAttachmentDefinition")
        _judge_addresses(item)
        yield Wanted(item["name"], item.get("namespace") or "", item.get("interface") or "")


def _is_a(kind: type, value: object) -> bool:
    return value is None or isinstance(value, kind)


def _judge_addresses(item: Mapping[str, object]) -> None:
    """Multus parses them before it attaches anything."""
    for key in ("mac", "infiniband-guid"):
        if (address := item.get(key)) and not _ADDRESS.fullmatch(str(address)):
            what = f"`{key}` is {address}, which is no hardware address"
            raise _MalformedError(what, "write pairs of hex digits and `:`")
    for key in ("ips", "default-route"):
        for address in items(item.get(key)):
            if not _is_ip(address, has_mask=key == "ips"):
                what = f"`{key}` has {format_value(address)}, which is no IP address"
                raise _MalformedError(what, "write an address or a CIDR" if key == "ips" else "write an address")


def _is_ip(value: object, *, has_mask: bool) -> bool:
    """What Go's net.ParseIP takes, or net.ParseCIDR: no zone, and no mask but the number of its bits."""
    if not isinstance(value, str) or "%" in value:
        return False
    address, slash, bits = value.partition("/")
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return False
    length = int64(bits)
    return not slash or (has_mask and length is not None and length <= known.max_prefixlen)


CNI = "k8s.cni.cncf.io"
OF_SRIOV = {"SriovNetwork": "sriov", "SriovIBNetwork": "ib-sriov", "OVSNetwork": "ovs"}
"""Kind of the SR-IOV operator → the plugin that it configures."""
OF_MELLANOX = {"MacvlanNetwork": "macvlan", "HostDeviceNetwork": "host-device", "IPoIBNetwork": "ipoib"}
"""The same of NVIDIA's network operator."""
_DEFAULT_NAMESPACE = {"MacvlanNetwork": "default", "IPoIBNetwork": "default"}
_HOST_DEVICE = "nvidia.com"  # network-operator b06827e pkg/state/state_hostdevice_network.go resourceNamePrefix


@dataclass(frozen=True, slots=True)
class Attachment:
    """A NetworkAttachmentDefinition, or an object of which an operator makes one.

    Attributes:
        manifest: the object.
        namespace: where the NetworkAttachmentDefinition is; empty where nobody says.
        resource: the device that it hands to a pod; None if it needs none.
        path: where that name stands.
        plugins: its CNI configuration: the main plugin, then those that are chained; empty where it cannot be read.
        plugins_path: where that stands, and that of the chained ones.
    """

    manifest: Manifest
    namespace: str
    resource: Resource | None
    path: Path
    plugins: tuple[Mapping[str, Any], ...]
    plugins_path: Path

    @property
    def name(self) -> str:
        """Of the NetworkAttachmentDefinition."""
        return self.manifest.name

    @property
    def main(self) -> Mapping[str, Any]:
        """The main plugin."""
        return self.plugins[0] if self.plugins else {}

    @property
    def type(self) -> str:
        """Of the main plugin; empty where nobody can tell."""
        kind = self.main.get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def ipam(self) -> Mapping[str, Any]:
        """How it gives addresses; empty where it gives none."""
        return mapping(self.main, "ipam")

    def chains(self, plugin: str) -> bool:
        """Whether a plugin comes after the main one."""
        return any(each.get("type") == plugin for each in self.plugins[1:])


def attachment(manifest: Manifest) -> Attachment | None:
    """The network that an object makes, if it makes one."""
    if manifest.group == CNI and manifest.kind == "NetworkAttachmentDefinition":
        return _definition(manifest)
    if manifest.group == SRIOV and manifest.kind in OF_SRIOV:
        return _of_sriov(manifest)
    if manifest.group == MELLANOX and manifest.kind in OF_MELLANOX:
        return _of_mellanox(manifest)
    return None


def _definition(manifest: Manifest) -> Attachment:
    name = mapping(manifest.body, "metadata", "annotations").get(RESOURCE_NAME)
    named = resource(name) if isinstance(name, str) and name else None
    said = mapping(parsed(mapping(manifest.body, "spec").get("config")))
    chain = tuple(plugin for _, plugin in indexed_mappings(said.get("plugins")))
    path: Path = ("metadata", "annotations", RESOURCE_NAME)
    return Attachment(manifest, manifest.namespace, named, path, chain or ((said,) if said else ()), ("spec", "config"))


def _of_sriov(manifest: Manifest) -> Attachment:
    spec = mapping(manifest.body, "spec")
    name = spec.get("resourceName")
    named = Resource(prefix_of(manifest.namespace), name) if isinstance(name, str) and name else None
    namespace = _text(spec.get("networkNamespace")) or manifest.namespace
    plugins = _made(OF_SRIOV[manifest.kind], spec)
    return Attachment(manifest, namespace, named, ("spec", "resourceName"), plugins, ("spec", "metaPlugins"))


def _of_mellanox(manifest: Manifest) -> Attachment:
    spec = mapping(manifest.body, "spec")
    name = _text(spec.get("resourceName")).removeprefix(f"{_HOST_DEVICE}/")
    named = Resource(_HOST_DEVICE, name) if name else None
    namespace = _text(spec.get("networkNamespace")) or _DEFAULT_NAMESPACE.get(manifest.kind, "")
    plugins = _made(OF_MELLANOX[manifest.kind], spec)
    return Attachment(manifest, namespace, named, ("spec", "resourceName"), plugins, ("spec", "metaPlugins"))


_KEPT = ("vlan", "master", "mode", "mtu", "linkState", "spoofChk", "trust")


def _made(plugin: str, spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The main plugin as an operator writes it, and those that are chained to it."""
    main = {"type": plugin, **{key: spec[key] for key in _KEPT if key in spec}, "ipam": parsed(spec.get("ipam"))}
    chained = parsed(f"[{spec.get('metaPlugins')}]") if spec.get("metaPlugins") else ()
    return (main, *(each for _, each in indexed_mappings(chained)))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_DEFAULT_PARTITION = 0x7FFF
_VLAN_FIX = "give each team a VLAN of its own (`vlan` of the network), which the switches carry"
_PARTITION_FIX = (
    "give each team a partition of its own: `pkey` in a NetworkAttachmentDefinition of ib-sriov, with ib-kubernetes "
    "and UFM, as a SriovIBNetwork has no such field"
)
_DEVICE_FIX = "give each team ports in a VLAN or partition of its own at the switch, or functions of NICs (SR-IOV)"


class Segment(NamedTuple):
    """Where two networks meet.

    Attributes:
        key: two networks with the same are in the same segment.
        told: what it is, for people.
        fix: how teams are kept apart there.
    """

    key: tuple[str, ...]
    told: str
    fix: str


def segment(network: Attachment) -> Segment | None:
    """The segment of a network; None where the network does not tell."""
    main, device = network.main, network.resource.name if network.resource else ""
    match network.type:
        case "sriov" if device:
            vlan = _number(main.get("vlan"), 0)
            told = f"the VLAN {vlan} of `{device}`" if vlan else f"`{device}` without a VLAN"
            return Segment(("sriov", device, str(vlan)), told, _VLAN_FIX)
        case "ib-sriov" if device:
            return _partition(device, main)
        case "host-device" if device:
            return Segment(("host-device", device), f"whatever `{device}` is plugged into", _DEVICE_FIX)
        case "macvlan" | "ipvlan" | "ipoib" if master := str(main.get("master") or ""):
            fix = (
                _DEVICE_FIX
                if network.type == "ipoib"
                else f"give each team a VLAN of its own, as with `master: {master}.120`"
            )
            return Segment(("master", master), f"whatever `{master}` of the nodes is plugged into", fix)
    return None


def _partition(device: str, main: Mapping[str, Any]) -> Segment:
    """Fifteen bits; the highest says whether full or limited members (ib-sriov-cni 543060d pkg/types)."""
    key = _number(main.get("pkey"), _DEFAULT_PARTITION) & _DEFAULT_PARTITION
    is_all = key == _DEFAULT_PARTITION
    told = f"the partition that everybody on `{device}` is in" if is_all else f"the partition {key:#x} of `{device}`"
    return Segment(("ib", device, str(key)), told, _PARTITION_FIX)


def shared_device(name: str) -> Segment:
    """The segment of a device that the shared device plugin of RDMA offers: all that the NICs of a node reach."""
    fix = "attach functions of NICs instead (SR-IOV, with RDMA in exclusive mode), each team in its VLAN or partition"
    told = f"`{resource(name)}`, which opens the same NICs to all pods of a node"
    return Segment(("shared", name), told, fix)


def _number(value: object, default: int) -> int:
    try:
        return int(str(value), 0) if value is not None else default
    except ValueError:
        return default
