"""Checks of JSON in string fields: fabric/cni-json, fabric/cni-config.

The API server accepts any string in these fields. Operators use them as follows: sriov-network-operator v1.6.0
api/v1/helper.go RenderNetAttDef and bindata/manifests/cni-config; network-operator v26.4.1
manifests/state-{macvlan,hostdevice,ipoib}-network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

from generator.checks.finding import Severity
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.checks.schema import fix_of
from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.documents.scalars import JsonTextError, read_json
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.schemas import cni

_FIXES = {
    ("sriov", "mtu"): "set `mtu` in the SriovNetworkNodePolicy: the plugin uses the MTU of the device",
    ("sriov", "master"): "remove it: Multus passes the device to the plugin",
}
"""(plugin, unknown key) → fix."""
_HARMLESS = {("whereabouts", "datastore"), ("whereabouts", "etcd_host")}
"""Keys without effect since whereabouts v0.6, which dropped etcd (pkg/types/types.go UnmarshalJSON)."""


class _Mistake(NamedTuple):
    """A mistake in the JSON of a field; `path` starts at the root of the JSON."""

    path: Path
    message: str
    fix: str
    severity: Severity = ERROR


def _network_mistakes(config: Any) -> Iterator[_Mistake]:
    """Yield the mistakes of a CNI configuration: of one plugin, or of a list of plugins."""
    if isinstance(config, dict) and "plugins" in config:
        yield from _schema_mistakes("list", config, sort="whole")
        for number, plugin in indexed_mappings(config["plugins"]):
            yield from _inside(("plugins", number), _plugin_mistakes(plugin, is_first=number == 0))
    else:
        yield from _plugin_mistakes(config)


def _chain_mistakes(plugins: Any) -> Iterator[_Mistake]:
    for number, plugin in enumerate(plugins):
        yield from _inside((number,), _plugin_mistakes(plugin, is_first=False))


def _plugin_mistakes(config: Any, *, is_first: bool = True) -> Iterator[_Mistake]:
    if not isinstance(config, dict):
        yield _Mistake((), "a plugin must be a JSON object", "write `{…}` with the `type` of a plugin")
        return
    kind = config.get("type")
    if not isinstance(kind, str) or not kind:
        yield _Mistake((), "`type` is missing", "add the `type` of the plugin")
        return
    yield from _schema_mistakes(kind, config, sort="plugin")
    yield from _inside(("ipam",), _ipam_mistakes(config.get("ipam")))
    if kind == "sriov":
        yield from _sriov_mistakes(config)
    if kind == "ib-sriov" and config.get("pkey") and config.get("ibKubernetesEnabled") is not True:
        message = "without `ibKubernetesEnabled: true`, pods may start before ib-kubernetes sets the `pkey`"
        fix = "add `ibKubernetesEnabled: true`, so that no pod starts outside its partition"
        yield _Mistake(("pkey",), message, fix, WARNING)
    if is_first and kind == "rdma":
        message = "the plugin `rdma` creates no interface, and no plugin precedes it"
        yield _Mistake((), message, "chain `rdma` to a plugin that creates an interface")


def _sriov_mistakes(config: Mapping[str, Any]) -> Iterator[_Mistake]:
    for key, defaults in (("vlanQoS", (0,)), ("vlanProto", ("802.1q", "802.1Q"))):
        value = config.get(key)
        if value is not None and ("vlan" not in config or (not config["vlan"] and value not in defaults)):
            yield _Mistake((key,), f"`{key}` needs a `vlan`", f"set `vlan`, or remove `{key}`")
    least, most = config.get("min_tx_rate"), config.get("max_tx_rate")
    if isinstance(least, int) and isinstance(most, int) and 0 < most < least:
        message = f"`min_tx_rate` is {least}, which exceeds the `max_tx_rate` of {most}"
        yield _Mistake(("min_tx_rate",), message, "swap the two values, or remove one of the two keys")


def _ipam_mistakes(config: Any) -> Iterator[_Mistake]:
    """Yield the mistakes of an IPAM configuration. An empty configuration is valid: pods then get no addresses."""
    if config in (None, {}):
        return
    kind = mapping(config).get("type")
    if isinstance(kind, str) and kind:
        yield from _schema_mistakes(kind, config, sort="ipam")
    else:
        yield _Mistake((), "`type` is missing", "add the `type` of the IPAM plugin, such as `whereabouts`")


def _schema_mistakes(name: str, config: Any, *, sort: str = "whole") -> Iterator[_Mistake]:
    for violation in cni.find_violations(sort, name, config) or ():
        key = str(violation.path[-1] if violation.path else "")
        is_unknown = violation.keyword == "additionalProperties"
        message = f"`{key}` is not a field of `{name}`" if is_unknown else violation.message
        severity = WARNING if (name, key) in _HARMLESS else ERROR
        yield _Mistake(violation.path, message, _FIXES.get((name, key)) or fix_of(violation), severity)


def _inside(path: Path, mistakes: Iterator[_Mistake]) -> Iterator[_Mistake]:
    for mistake in mistakes:
        yield mistake._replace(path=(*path, *mistake.path))


def _read_chain(text: str) -> Any:
    """Parse `metaPlugins`: JSON objects separated by commas, which an operator puts into brackets."""
    if text.strip().startswith("["):
        raise JsonTextError("the text starts with `[`, but the operator adds the brackets of the list")
    return read_json(f"[{text}]")


class _Field(NamedTuple):
    """A string field with JSON: its path, the function that finds mistakes, and the parser."""

    path: tuple[str, ...]
    find: Callable[[Any], Iterator[_Mistake]]
    read: Callable[[str], Any] = read_json


_IPAM = _Field(("spec", "ipam"), _ipam_mistakes)
_SRIOV_NETWORK = (
    _IPAM,
    _Field(("spec", "capabilities"), partial(_schema_mistakes, "capabilities")),
    _Field(("spec", "metaPlugins"), _chain_mistakes, _read_chain),
)
_PLUGINS = tuple(
    _Field(("spec", name, "config"), partial(_schema_mistakes, name))
    for name in ("rdmaSharedDevicePlugin", "sriovDevicePlugin")
)
_FIELDS: Mapping[tuple[str, str], tuple[_Field, ...]] = {
    ("k8s.cni.cncf.io", "NetworkAttachmentDefinition"): (_Field(("spec", "config"), _network_mistakes),),
    **{
        ("sriovnetwork.openshift.io", kind): _SRIOV_NETWORK for kind in ("SriovNetwork", "SriovIBNetwork", "OVSNetwork")
    },
    **{("mellanox.com", kind): (_IPAM,) for kind in ("MacvlanNetwork", "HostDeviceNetwork", "IPoIBNetwork")},
    **{("mellanox.com", kind): _PLUGINS for kind in ("NicClusterPolicy", "NicNodePolicy")},
}
KINDS = frozenset(kind for _, kind in _FIELDS)
"""The kinds with JSON in string fields."""


@dataclass(frozen=True, slots=True)
class JsonFields:
    """The string fields of an object that hold JSON: (path, text, error of the parser, mistakes)."""

    fields: Sequence[tuple[Path, str, str, Sequence[_Mistake]]]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: object) -> JsonFields | None:
        """Read the JSON fields of an object; None if its kind has none. Fields that are no strings are skipped."""
        fields = _FIELDS.get((manifest.group, manifest.kind))
        if not fields:
            return None
        texts = [(field, mapping(manifest.body, *field.path[:-1]).get(field.path[-1])) for field in fields]
        return cls(
            [
                (field.path, text, *_judge(field, text))
                for field, text in texts
                if isinstance(text, str) and text.strip()
            ]
        )


@lru_cache(256)
def _judge(field: _Field, text: str) -> tuple[str, Sequence[_Mistake]]:
    """Return the error of the parser and the mistakes, cached because many teams have equal texts."""
    try:
        return "", tuple(field.find(field.read(text)))
    except JsonTextError as error:
        return str(error), ()


@check("fabric/cni-json", severity=ERROR, needs=JsonFields)
def cni_json(texts: JsonFields) -> Iterator[Breach]:
    """Report a string field whose JSON cannot be read.

    The API server accepts any string, but the plugin or operator cannot read it, and pods stay in ContainerCreating.
    The fields are `spec.config` of a NetworkAttachmentDefinition, `ipam`, `capabilities` and `metaPlugins` of the kinds
    from which operators create networks, and the configurations of device plugins in a NicClusterPolicy or
    NicNodePolicy. The check also reports a duplicate key, of which only the last one counts, and brackets around
    `metaPlugins`, which must be objects with commas between them.
    """
    for path, text, error, _ in texts.fields:
        if error:
            yield Breach(
                path,
                f"the field is not valid JSON: {error}",
                "the API server accepts any string, but the plugin or operator cannot read it, so pods stay in "
                "ContainerCreating",
                "correct the JSON",
                value=text,
            )


@check("fabric/cni-config", severity=ERROR, needs=JsonFields)
def cni_config(texts: JsonFields) -> Iterator[Breach]:
    """Report JSON of a network that its plugin rejects or ignores.

    The API server accepts any string, so the error appears only when a pod starts. The check reports unknown keys,
    values of a wrong type or form, `vlanQoS` without `vlan`, and `rdma` without a preceding plugin. It is a warning if
    `pkey` is set without `ibKubernetesEnabled: true`: then a pod may start before ib-kubernetes sets its partition.

    The check has schemas of the plugins sriov, ib-sriov, rdma, host-device, macvlan, ipvlan, ipoib, tuning and sbr, of
    the IPAM plugins whereabouts, nv-ipam, host-local, static and dhcp, and of both device plugins. Each schema names
    its upstream source (`generator/schemas/cni_schemas`). Other plugins are not checked. Keys may be in upper or lower
    case, because Go ignores the case.
    """
    for path, text, _, mistakes in texts.fields:
        for mistake in mistakes:
            place = f"at `{format_path(mistake.path)}` of the JSON: " if mistake.path else "in the JSON: "
            yield Breach(
                path,
                place + mistake.message,
                "the API server accepts any string, but the plugin or operator rejects this value or ignores it",
                mistake.fix,
                severity=mistake.severity,
                value=text,
            )
