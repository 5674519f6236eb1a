"""fabric/cni-json, fabric/cni-config: JSON in a string field that cannot be read, or is read only in part.

The API server accepts any string there. How operators use theirs: sriov-network-operator v1.6.0 api/v1/helper.go
RenderNetAttDef and bindata/manifests/cni-config; network-operator v26.4.1 manifests/state-{macvlan,hostdevice,ipoib}-
network. Plugins without a schema here are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.registry import ERROR, declare
from generator.checks.schema import fix_of
from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.documents.scalars import JsonTextError, read_json
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.schemas import cni
from generator.schemas.embedded import Violation

_ON_ITS_OWN = "rdma"
_SAID_ELSEWHERE = {
    ("sriov", "mtu"): "say it in the `mtu` of the SriovNetworkNodePolicy: the plugin takes what the device has",
    ("sriov", "master"): "remove it: the device that Multus hands over says whose it is",
}
"""Plugin and unknown key → what to do."""
_OF_OLD = {("whereabouts", "datastore"), ("whereabouts", "etcd_host")}
"""Keys that once were read and do no harm since: whereabouts v0.6 dropped etcd (pkg/types/types.go UnmarshalJSON)."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong inside of a JSON text.

    Attributes:
        path: where, from the root of the text.
        message: what is wrong there.
        fix: what to do.
        severity: whether it fails a run.
    """

    path: Path
    message: str
    fix: str
    severity: Severity = Severity.ERROR


def of_network(said: Any) -> Iterator[Mistake]:
    """Of a whole configuration: one plugin, or a list of them."""
    if not (isinstance(said, dict) and "plugins" in said):
        yield from of_plugin(said)
        return
    yield from of_whole("list", said)
    for number, plugin in indexed_mappings(said["plugins"]):
        yield from _inside(("plugins", number), of_plugin(plugin, is_first=number == 0))


def of_chain(said: Any) -> Iterator[Mistake]:
    """Of plugins that are chained to another one."""
    for number, plugin in enumerate(said):
        yield from _inside((number,), of_plugin(plugin, is_first=False))


def of_plugin(said: Any, *, is_first: bool = True) -> Iterator[Mistake]:
    """Of one plugin, with how it gives addresses."""
    if not isinstance(said, dict):
        yield Mistake((), "this is no object", "write `{…}` with the `type` of a plugin")
        return
    kind = said.get("type")
    if not isinstance(kind, str) or not kind:
        yield Mistake((), "`type` is missing", "name the plugin")
        return
    yield from _judged("plugin", kind, said)
    yield from _inside(("ipam",), of_ipam(said.get("ipam")))
    for rule in _RULES.get(kind, ()):
        yield from rule(said)
    if is_first and kind == _ON_ITS_OWN:
        yield Mistake((), "`rdma` makes no interface, and no plugin stands before it", "chain it to one that does")


def of_ipam(said: Any) -> Iterator[Mistake]:
    """Of how a plugin gives addresses; without a type it gives none."""
    if said in (None, {}):
        return
    kind = mapping(said).get("type")
    if not isinstance(kind, str) or not kind:
        yield Mistake((), "`type` is missing", "name how addresses are given, such as `whereabouts`")
        return
    yield from _judged("ipam", kind, said)


def of_whole(name: str, said: Any) -> Iterator[Mistake]:
    """Of a text that is one thing, such as the configuration of a device plugin."""
    yield from _judged("whole", name, said)


def _judged(sort: str, name: str, said: Any) -> Iterator[Mistake]:
    for violation in cni.find_violations(sort, name, said) or ():
        key = (name, str(violation.path[-1] if violation.path else ""))
        fix = _SAID_ELSEWHERE.get(key) or fix_of(violation)
        severity = Severity.WARNING if key in _OF_OLD else Severity.ERROR
        yield Mistake(violation.path, _message(violation, name), fix, severity)


def _message(violation: Violation, name: str) -> str:
    if violation.keyword == "additionalProperties":
        return f"`{violation.path[-1]}` is read by nobody: `{name}` does not know it"
    return violation.message


def _inside(path: Path, mistakes: Iterator[Mistake]) -> Iterator[Mistake]:
    for mistake in mistakes:
        yield replace(mistake, path=(*path, *mistake.path))


def _vlan(said: Mapping[str, Any]) -> Iterator[Mistake]:
    for key, harmless in (("vlanQoS", (0,)), ("vlanProto", ("802.1q", "802.1Q"))):
        value = said.get(key)
        if value is not None and ("vlan" not in said or (not said["vlan"] and value not in harmless)):
            yield Mistake((key,), f"`{key}` needs a `vlan`, which is not there", "set the `vlan`, or remove it")


def _rates(said: Mapping[str, Any]) -> Iterator[Mistake]:
    least, most = said.get("min_tx_rate"), said.get("max_tx_rate")
    if isinstance(least, int) and isinstance(most, int) and 0 < most < least:
        yield Mistake(
            ("min_tx_rate",), f"{least} is more than the `max_tx_rate`, {most}", "swap the two, or remove one"
        )


def _partition(said: Mapping[str, Any]) -> Iterator[Mistake]:
    if said.get("pkey") and said.get("ibKubernetesEnabled") is not True:
        message = "`ib-sriov` does not set the `pkey`: ib-kubernetes does, and nobody waits for it"
        fix = "write `ibKubernetesEnabled: true`, so that no pod starts outside of its partition"
        yield Mistake(("pkey",), message, fix, Severity.WARNING)


_RULES: Mapping[str, tuple[Callable[[Mapping[str, Any]], Iterator[Mistake]], ...]] = {
    "sriov": (_vlan, _rates),
    "ib-sriov": (_partition,),
}


_WHY = {
    "cni-json": "the API server takes any text; whoever reads it cannot, and pods hang in ContainerCreating",
    "cni-config": "the API server takes any text; whoever reads it later refuses it, or works on without it",
}
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


declare(
    "fabric/cni-json",
    severity=ERROR,
    text="""Report a string field whose JSON cannot be read.

    A text that must hold JSON holds none: `spec.config` of a NetworkAttachmentDefinition, `ipam`, `capabilities`
    and `metaPlugins` of the kinds that operators make networks from, and the configurations of device plugins in a
    NicClusterPolicy or NicNodePolicy. The API server takes any text there. Commas before a closing bracket, a key
    twice (of which the last would count), and brackets around `metaPlugins`, which are objects with commas between
    them and nothing more.
    """,
)

declare(
    "fabric/cni-config",
    severity=ERROR,
    text="""Report JSON of a network that its reader rejects or ignores.

    The JSON can be read, and says what its reader refuses or does not know: a key of nobody, another type, a form
    that is none, `vlanQoS` without `vlan`, `rdma` with no plugin before it. Schemas of ours judge the plugins
    sriov, ib-sriov, rdma, host-device, macvlan, ipvlan, ipoib, tuning and sbr, the addresses of whereabouts,
    nv-ipam, host-local, static and dhcp, and both device plugins; each says which upstream source it was read from
    (`generator/schemas/cni_schemas`). Other plugins are left alone. Keys may be in upper or lower case, as Go reads
    them alike. It is a warning where a `pkey` stands without `ibKubernetesEnabled: true`: not the plugin but
    ib-kubernetes sets it, and without that key a pod starts even if nobody did.
    """,
)
