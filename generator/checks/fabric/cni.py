"""fabric/cni-*: can what stands as JSON in a text of a manifest be read, and is all of it read?

The API server takes any text there. How operators use theirs: sriov-network-operator v1.6.0 api/v1/helper.go
RenderNetAttDef and bindata/manifests/cni-config; network-operator v26.4.1 manifests/state-{macvlan,hostdevice,ipoib}-
network. Plugins without a schema of ours are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from generator.checks.fabric.cni_mistakes import Mistake, of_chain, of_ipam, of_network, of_whole
from generator.checks.finding import Breach, Severity
from generator.documents.json_text import JsonTextError, read_json
from generator.documents.locate import format_path
from generator.manifests import Manifest
from generator.objects.fields import mapping

_WHY = {
    "cni-json": "the API server takes any text; whoever reads it cannot, and pods hang in ContainerCreating",
    "cni-config": "the API server takes any text; whoever reads it later refuses it, or works on without it",
}
CHECKS = tuple(f"fabric/{rule}" for rule in _WHY)
"""The ids of these checks."""
_REMEMBERED = 256  # texts: those of one team are those of the next


def _objects(text: str) -> Any:
    """What objects say that stand with commas between, as an operator puts them into a list."""
    if text.strip().startswith("["):
        raise JsonTextError("the operator makes the list: brackets around it make a list in a list")
    return read_json(f"[{text}]")


@dataclass(frozen=True, slots=True)
class _Text:
    """A field that holds JSON: where it is, what judges it, and what reads it."""

    path: tuple[str, ...]
    judge: Callable[[Any], Iterator[Mistake]]
    read: Callable[[str], Any] = read_json


def _made(*fields: str) -> tuple[_Text, ...]:
    """The texts of a kind that an operator makes a network from."""
    known = {
        "ipam": _Text(("spec", "ipam"), of_ipam),
        "capabilities": _Text(("spec", "capabilities"), partial(of_whole, "capabilities")),
        "metaPlugins": _Text(("spec", "metaPlugins"), of_chain, _objects),
    }
    return tuple(known[field] for field in fields)


def _device_plugins() -> tuple[_Text, ...]:
    names = ("rdmaSharedDevicePlugin", "sriovDevicePlugin")
    return tuple(_Text(("spec", name, "config"), partial(of_whole, name)) for name in names)


_OF_SRIOV = ("ipam", "capabilities", "metaPlugins")
_TEXTS: Mapping[tuple[str, str], tuple[_Text, ...]] = {
    ("k8s.cni.cncf.io", "NetworkAttachmentDefinition"): (_Text(("spec", "config"), of_network),),
    ("sriovnetwork.openshift.io", "SriovNetwork"): _made(*_OF_SRIOV),
    ("sriovnetwork.openshift.io", "SriovIBNetwork"): _made(*_OF_SRIOV),
    ("sriovnetwork.openshift.io", "OVSNetwork"): _made(*_OF_SRIOV),
    ("mellanox.com", "MacvlanNetwork"): _made("ipam"),
    ("mellanox.com", "HostDeviceNetwork"): _made("ipam"),
    ("mellanox.com", "IPoIBNetwork"): _made("ipam"),
    ("mellanox.com", "NicClusterPolicy"): _device_plugins(),
    ("mellanox.com", "NicNodePolicy"): _device_plugins(),
}
KINDS = frozenset(kind for _, kind in _TEXTS)
"""The kinds that hold JSON texts."""


def breaches(manifest: Manifest) -> Iterator[Breach]:
    """What is wrong in the JSON texts of an object. What is no text at all is left to its schema."""
    for each in _TEXTS.get((manifest.group, manifest.kind), ()):
        text = mapping(manifest.body, *each.path[:-1]).get(each.path[-1])
        if isinstance(text, str) and text.strip():
            yield from _of_text(each, text)


@lru_cache(_REMEMBERED)
def _of_text(each: _Text, text: str) -> tuple[Breach, ...]:
    try:
        said = each.read(text)
    except JsonTextError as error:
        return (_breach(each, "cni-json", f"this cannot be read: {error}", "correct it", text),)
    return tuple(_mistaken(each, mistake, text) for mistake in each.judge(said))


def _mistaken(each: _Text, mistake: Mistake, text: str) -> Breach:
    place = f"in the text at `{format_path(mistake.path)}`: " if mistake.path else "in the text: "
    return _breach(each, "cni-config", place + mistake.message, mistake.fix, text, mistake.severity)


def _breach(each: _Text, rule: str, message: str, fix: str, text: str, severity: Severity = Severity.ERROR) -> Breach:
    return Breach(each.path, f"fabric/{rule}", message, _WHY[rule], fix, severity, value=text)
