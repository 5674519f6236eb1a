"""The networks that a pod asks for: the annotation that Multus reads, in its short form and as JSON.

k8snetworkplumbingwg/multus-cni 95a0932 pkg/k8sclient/k8sclient.go parsePodNetworkAnnotation, parsePodNetworkObjectName
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from generator.documents.json_text import read_json
from generator.documents.scalars import int64
from generator.documents.syntax import shown
from generator.objects.fields import items

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
                what = f"`{key}` has {shown(address)}, which is no IP address"
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
