"""Second networks: the annotation that requests them, their definitions, and the segments that they connect to."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.documents.scalars import int64, read_json
from generator.facts.names import RESOURCE_NAME
from generator.manifests import Manifest
from generator.objects.devices import MELLANOX, SRIOV, Resource, parsed, prefix_of, resource
from generator.objects.fields import indexed_mappings, items, mapping

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_INTERFACE = 15  # IFNAMSIZ of Linux, without the NUL
_BYTE = "[0-9a-fA-F]{2}"
_ADDRESS = re.compile(
    rf"{_BYTE}(?P<by>[:-]){_BYTE}((?P=by){_BYTE}){{4}}(((?P=by){_BYTE}){{2}})?(((?P=by){_BYTE}){{12}})?"
    rf"|{_BYTE * 2}\.{_BYTE * 2}(\.{_BYTE * 2}){{1,2}}((\.{_BYTE * 2}){{6}})?"
)
"""Addresses that Go's net.ParseMAC accepts: 6, 8 or 20 bytes."""
_TYPES: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("name", "namespace", "interface", "mac", "infiniband-guid"), (str, "string")),
    **dict.fromkeys(("ips", "default-route", "portmappings"), (list, "list")),
    **dict.fromkeys(("bandwidth", "cni-args"), (dict, "mapping")),
}
"""Key in lower case → its type, and the name of the type (network-attachment-definition-client v1.7.7 types.go)."""


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """A network that a pod requests for one interface.

    Attributes:
        name: the name of the NetworkAttachmentDefinition.
        namespace: its namespace; empty for the namespace of the pod.
        interface: the name of the interface in the pod; empty if Multus chooses it.
    """

    name: str
    namespace: str = ""
    interface: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class NetworkRequests:
    """The networks that an annotation requests, or the error with which Multus rejects it."""

    requests: tuple[NetworkRequest, ...] = ()
    error: str = ""
    fix: str = field(default="write `[namespace/]name[@interface]`, separated by commas", compare=False)


def parse_networks(value: str) -> NetworkRequests:
    """Parse an annotation that requests networks. An empty one requests none."""
    if not value:
        return NetworkRequests()
    try:
        return NetworkRequests(
            tuple(_parse_json(value) if set('[{"') & set(value) else map(_parse_short, value.split(",")))
        )
    except _MalformedError as error:
        return NetworkRequests(error=error.args[0], fix=error.args[1])


class _MalformedError(Exception):
    """The message and the fix of an annotation that Multus cannot read."""


def _parse_short(item: str) -> NetworkRequest:
    """Parse `[namespace/]name[@interface]`."""
    text = item.strip()
    place, _, rest = text.rpartition("/")
    name, at, interface = rest.partition("@")
    name, place, interface = name.strip(), place.strip(), interface.strip()
    wrong = next((part for part in (name, place) if part and not _LABEL.fullmatch(part)), None if name else name)
    if wrong is not None:
        message = f"`{wrong}` in `{text}` is not a valid name" if wrong else f"a name is missing in `{text}`"
        raise _MalformedError(message, "write `[namespace/]name[@interface]`: lower-case letters, digits and `-`")
    if at and interface and not _is_interface(interface):
        raise _MalformedError(
            f"`{interface}` is not a valid interface name", "use at most 15 characters, without spaces and `/`"
        )
    return NetworkRequest(name, place, interface)


def _is_interface(name: str) -> bool:
    return len(name.encode()) <= _LONGEST_INTERFACE and not re.search(r"[\s/@]", name)


def _parse_json(value: str) -> Iterator[NetworkRequest]:
    try:
        items = read_json(value)
    except ValueError as error:
        raise _MalformedError(
            f"it is not valid JSON: {error}", "write a JSON list, or `[namespace/]name[@interface]`"
        ) from None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _MalformedError("it is not a JSON list of objects", 'write `[{"name": "…", "namespace": "…"}]`')
    for item in ({key.lower(): value for key, value in entry.items()} for entry in items):
        wrong_key = next((key for key, (kind, _) in _TYPES.items() if not _is_a(kind, item.get(key))), None)
        if wrong_key:
            raise _MalformedError(f"`{wrong_key}` is not a {_TYPES[wrong_key][1]}", f"write a {_TYPES[wrong_key][1]}")
        if not item.get("name"):
            raise _MalformedError("an entry has no `name`", "name the NetworkAttachmentDefinition")
        _judge_addresses(item)
        yield NetworkRequest(item["name"], item.get("namespace") or "", item.get("interface") or "")


def _is_a(kind: type, value: object) -> bool:
    return value is None or isinstance(value, kind)


def _judge_addresses(item: Mapping[str, object]) -> None:
    """Raise an error for an address that Multus cannot parse. Multus parses all before it attaches a network."""
    for key in ("mac", "infiniband-guid"):
        if (address := item.get(key)) and not _ADDRESS.fullmatch(str(address)):
            message = f"`{key}` is `{address}`, which is not a hardware address"
            raise _MalformedError(message, "write pairs of hex digits, separated by `:`")
    for key in ("ips", "default-route"):
        for address in items(item.get(key)):
            if not _is_ip(address, has_mask=key == "ips"):
                message = f"`{key}` has {format_value(address)}, which is not an IP address"
                raise _MalformedError(message, "write an address or a CIDR" if key == "ips" else "write an address")


def _is_ip(value: object, *, has_mask: bool) -> bool:
    """Return True if Go's net.ParseIP or net.ParseCIDR accepts the value: without a zone, with a mask in bits."""
    if not isinstance(value, str) or "%" in value:
        return False
    address, slash, bits = value.partition("/")
    try:
        parsed_address = ipaddress.ip_address(address)
    except ValueError:
        return False
    length = int64(bits)
    return not slash or (has_mask and length is not None and length <= parsed_address.max_prefixlen)


CNI = "k8s.cni.cncf.io"
SRIOV_PLUGINS = {"SriovNetwork": "sriov", "SriovIBNetwork": "ib-sriov", "OVSNetwork": "ovs"}
"""Kind of the SR-IOV operator → CNI plugin."""
MELLANOX_PLUGINS = {"MacvlanNetwork": "macvlan", "HostDeviceNetwork": "host-device", "IPoIBNetwork": "ipoib"}
"""Kind of NVIDIA's network operator → CNI plugin."""
_DEFAULT_NAMESPACE = {"MacvlanNetwork": "default", "IPoIBNetwork": "default"}
_HOST_DEVICE = "nvidia.com"  # network-operator b06827e pkg/state/state_hostdevice_network.go resourceNamePrefix


@dataclass(frozen=True, slots=True)
class Attachment:
    """A NetworkAttachmentDefinition, or an object from which an operator creates one.

    Attributes:
        manifest: the object.
        namespace: the namespace of the NetworkAttachmentDefinition; empty if the object does not set it.
        resource: the device that the network gives to a pod; None if it needs none.
        path: the path of the resource name.
        plugins: its CNI configuration: the main plugin, then the chained plugins; empty if it cannot be parsed.
        plugins_path: the path of the configuration or of the chained plugins.
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
        """The main plugin."""
        return self.plugins[0] if self.plugins else {}

    @property
    def type(self) -> str:
        """The type of the main plugin; empty if the configuration has none."""
        kind = self.main.get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def ipam(self) -> Mapping[str, Any]:
        """The IPAM configuration; empty if the network gives no addresses."""
        return mapping(self.main, "ipam")

    def chains(self, plugin: str) -> bool:
        """Return True if a plugin is chained to the main plugin."""
        return any(plugin_config.get("type") == plugin for plugin_config in self.plugins[1:])


def attachment(manifest: Manifest) -> Attachment | None:
    """Return the network that an object defines; None for other objects."""
    if manifest.group == CNI and manifest.kind == "NetworkAttachmentDefinition":
        return _definition(manifest)
    if manifest.group == SRIOV and manifest.kind in SRIOV_PLUGINS:
        return _sriov_network(manifest)
    if manifest.group == MELLANOX and manifest.kind in MELLANOX_PLUGINS:
        return _mellanox_network(manifest)
    return None


def _definition(manifest: Manifest) -> Attachment:
    name = mapping(manifest.body, "metadata", "annotations").get(RESOURCE_NAME)
    device = resource(name) if isinstance(name, str) and name else None
    config = mapping(parsed(mapping(manifest.body, "spec").get("config")))
    chain = tuple(plugin for _, plugin in indexed_mappings(config.get("plugins")))
    path: Path = ("metadata", "annotations", RESOURCE_NAME)
    return Attachment(
        manifest, manifest.namespace, device, path, chain or ((config,) if config else ()), ("spec", "config")
    )


def _sriov_network(manifest: Manifest) -> Attachment:
    spec = mapping(manifest.body, "spec")
    name = spec.get("resourceName")
    device = Resource(prefix_of(manifest.namespace), name) if isinstance(name, str) and name else None
    namespace = _text(spec.get("networkNamespace")) or manifest.namespace
    plugins = _operator_plugins(SRIOV_PLUGINS[manifest.kind], spec)
    return Attachment(manifest, namespace, device, ("spec", "resourceName"), plugins, ("spec", "metaPlugins"))


def _mellanox_network(manifest: Manifest) -> Attachment:
    spec = mapping(manifest.body, "spec")
    name = _text(spec.get("resourceName")).removeprefix(f"{_HOST_DEVICE}/")
    device = Resource(_HOST_DEVICE, name) if name else None
    namespace = _text(spec.get("networkNamespace")) or _DEFAULT_NAMESPACE.get(manifest.kind, "")
    plugins = _operator_plugins(MELLANOX_PLUGINS[manifest.kind], spec)
    return Attachment(manifest, namespace, device, ("spec", "resourceName"), plugins, ("spec", "metaPlugins"))


_KEPT = ("vlan", "master", "mode", "mtu", "linkState", "spoofChk", "trust")


def _operator_plugins(plugin: str, spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the main plugin as an operator configures it, and the chained plugins."""
    main = {"type": plugin, **{key: spec[key] for key in _KEPT if key in spec}, "ipam": parsed(spec.get("ipam"))}
    chained = parsed(f"[{spec.get('metaPlugins')}]") if spec.get("metaPlugins") else ()
    return (main, *(plugin_config for _, plugin_config in indexed_mappings(chained)))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_DEFAULT_PARTITION = 0x7FFF
_VLAN_FIX = "give each team its own VLAN (`vlan` of the network), and configure it on the switches"
_PARTITION_FIX = (
    "give each team its own partition: set `pkey` in a NetworkAttachmentDefinition of type ib-sriov (a SriovIBNetwork "
    "has no such field), and run ib-kubernetes and UFM"
)
_DEVICE_FIX = "give each team ports in its own VLAN or partition of the switch, or virtual functions (SR-IOV)"


class Segment(NamedTuple):
    """A layer 2 segment or InfiniBand partition that networks connect to.

    Attributes:
        key: the identity of the segment.
        text: its name in messages.
        fix: the way to separate teams.
    """

    key: tuple[str, ...]
    text: str
    fix: str


def segment(network: Attachment) -> Segment | None:
    """Return the segment of a network; None if its configuration does not define one."""
    main, device = network.main, network.resource.name if network.resource else ""
    match network.type:
        case "sriov" if device:
            vlan = _number(main.get("vlan"), 0)
            text = f"the VLAN {vlan} of `{device}`" if vlan else f"`{device}` without a VLAN"
            return Segment(("sriov", device, str(vlan)), text, _VLAN_FIX)
        case "ib-sriov" if device:
            return _partition(device, main)
        case "host-device" if device:
            return Segment(("host-device", device), f"the physical network of `{device}`", _DEVICE_FIX)
        case "macvlan" | "ipvlan" | "ipoib" if master := str(main.get("master") or ""):
            fix = (
                _DEVICE_FIX
                if network.type == "ipoib"
                else f"give each team its own VLAN, for example `master: {master}.120`"
            )
            return Segment(("master", master), f"the physical network of the nodes' interface `{master}`", fix)
    return None


def _partition(device: str, main: Mapping[str, Any]) -> Segment:
    """Return the partition of a `pkey`: 15 bits without the membership bit (ib-sriov-cni 543060d pkg/types)."""
    key = _number(main.get("pkey"), _DEFAULT_PARTITION) & _DEFAULT_PARTITION
    is_all = key == _DEFAULT_PARTITION
    text = f"the default partition of `{device}`" if is_all else f"the partition {key:#x} of `{device}`"
    return Segment(("ib", device, str(key)), text, _PARTITION_FIX)


def shared_device(name: str) -> Segment:
    """Return the segment of a device of the RDMA shared device plugin: all networks that the node's NICs reach."""
    fix = "attach virtual functions instead (SR-IOV, RDMA mode exclusive), with a VLAN or partition per team"
    text = f"`{resource(name)}`, which gives all pods of a node access to the same NICs"
    return Segment(("shared", name), text, fix)


def _number(value: object, default: int) -> int:
    try:
        return int(str(value), 0) if value is not None else default
    except ValueError:
        return default
