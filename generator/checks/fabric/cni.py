"""Checks of JSON in string fields: fabric/cni-json, fabric/cni-config.

The API server accepts any string in these fields. These operators read them: sriov-network-operator v1.6.0
api/v1/helper.go SriovNetwork.RenderNetAttDef and bindata/manifests/cni-config; network-operator v26.4.1
manifests/state-{macvlan,hostdevice,ipoib}-network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

from generator.checks.finding import Severity
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_path, format_value
from generator.documents.scalars import JsonTextError, RepeatedKeyError, read_json
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.schemas import cni

_FIXES = {
    ("sriov", "mtu"): "remove `mtu`, and set it in the SriovNetworkNodePolicy: the plugin uses the MTU of the device",
    ("sriov", "master"): "remove `master`: Multus passes the device to the plugin",
}
"""(plugin, unknown key) → fix."""
_HARMLESS = {("whereabouts", "datastore"), ("whereabouts", "etcd_host")}
"""Keys without effect since whereabouts v0.6, which dropped etcd (whereabouts 3a262bd pkg/types/types.go
IPAMConfig)."""


class _Mistake(NamedTuple):
    """A mistake in the JSON of a field; `path` starts at the root of the JSON."""

    path: Path
    message: str
    fix: str
    severity: Severity = ERROR
    why: str = "the API server accepts any string, but the plugin or operator rejects this value or ignores it"


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
        has_type = "type" in config
        message = f"`type` is {format_value(kind)}, not the name of a plugin" if has_type else "`type` is missing"
        why = "Multus rejects a configuration without `type`: pods with this network stay ContainerCreating"
        yield _Mistake((), message, "set `type` to the name of the plugin, such as `macvlan`", why=why)
        return
    yield from _schema_mistakes(kind, config, sort="plugin")
    yield from _inside(("ipam",), _ipam_mistakes(config.get("ipam")))
    if kind == "sriov":
        yield from _sriov_mistakes(config)
    if kind == "ib-sriov" and config.get("pkey") and config.get("ibKubernetesEnabled") is not True:
        message = "`pkey` is set without `ibKubernetesEnabled: true`"
        why = "a pod may start before ib-kubernetes sets its `pkey`, and is outside its partition until then"
        yield _Mistake(("pkey",), message, "add `ibKubernetesEnabled: true`", WARNING, why)
    if is_first and kind == "rdma":
        message = "the plugin `rdma` is first, but it creates no interface"
        why = "`rdma` fails without the result of an earlier plugin: pods with this network stay ContainerCreating"
        fix = "write a list `plugins`, in which a plugin that creates an interface is before `rdma`"
        yield _Mistake((), message, fix, why=why)


def _sriov_mistakes(config: Mapping[str, Any]) -> Iterator[_Mistake]:
    for key, defaults in (("vlanQoS", (0,)), ("vlanProto", ("802.1q", "802.1Q"))):
        value = config.get(key)
        if value is not None and ("vlan" not in config or (not config["vlan"] and value not in defaults)):
            yield _Mistake((key,), f"`{key}` needs a `vlan`", f"set `vlan` to 1 or more, or remove `{key}`")
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
        yield _Mistake(violation.path, message, _FIXES.get((name, key)) or violation.fix, severity)


def _inside(path: Path, mistakes: Iterator[_Mistake]) -> Iterator[_Mistake]:
    for mistake in mistakes:
        yield mistake._replace(path=(*path, *mistake.path))


class _BracketsError(JsonTextError):
    """The error for `metaPlugins` that starts with `[`: the operator adds the brackets itself."""


def _read_chain(text: str) -> Any:
    """Parse `metaPlugins`: JSON objects separated by commas, which an operator puts into brackets.

    Raises:
        JsonTextError: the text in brackets is not JSON, or the text begins with `[`.
    """
    if text.strip().startswith("["):
        raise _BracketsError("`metaPlugins` starts with `[`, but the operator itself adds the brackets")
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
    """The string fields of an object that hold JSON: (path, text, error of the parser or None, mistakes)."""

    fields: Sequence[tuple[Path, str, JsonTextError | None, Sequence[_Mistake]]]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: object) -> JsonFields | None:
        """Read the JSON fields of an object; None if its kind has none. Skip empty fields and fields of other types."""
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
def _judge(field: _Field, text: str) -> tuple[JsonTextError | None, Sequence[_Mistake]]:
    """Return (error of the parser or None, mistakes), cached because many teams have equal texts.

    A text with an error has no mistakes.
    """
    try:
        return None, tuple(field.find(field.read(text)))
    except JsonTextError as error:
        return error, ()


_UNREADABLE = (
    "the API server accepts any string, but the plugin or operator cannot read it, so pods that need the network or "
    "device do not start"
)


@check("fabric/cni-json", severity=ERROR, needs=JsonFields)
def cni_json(texts: JsonFields) -> Iterator[Breach]:
    """Report a string field whose JSON cannot be read.

    The API server accepts any string. If the plugin or operator cannot read it, pods that need the network or device
    do not start. The check reads these fields:

    - `spec.config` of a NetworkAttachmentDefinition.
    - `ipam`, `capabilities` and `metaPlugins` of kinds from which operators create networks, such as SriovNetwork.
    - The configurations of device plugins in a NicClusterPolicy or NicNodePolicy.

    It also reports a duplicate key, because only the last value counts, and brackets around `metaPlugins`, because the
    operator adds them.

    Source: network-attachment-definition-client v1.7.7 pkg/utils/cniconfig.go GetCNIConfigFromSpec
    """
    for path, text, error, _ in texts.fields:
        match error:
            case None:
                continue
            case RepeatedKeyError():
                yield Breach(
                    path,
                    f"{error} in the JSON of this field",
                    "the plugin or operator uses only the last value of the key",
                    "remove one of the two keys",
                    value=text,
                )
            case _BracketsError():
                yield Breach(path, str(error), _UNREADABLE, "remove the brackets", value=text)
            case _:
                message = f"the field is not valid JSON: {error}"
                yield Breach(path, message, _UNREADABLE, "correct the JSON", value=text)


@check("fabric/cni-config", severity=ERROR, needs=JsonFields)
def cni_config(texts: JsonFields) -> Iterator[Breach]:
    """Report a value in JSON that a network plugin or device plugin rejects or ignores.

    The API server accepts any string, so the error appears only on a node, for example when a pod starts. The check
    reports unknown keys, values of a wrong type or form, `vlanQoS` without `vlan`, and `rdma` as the first plugin. As a
    warning, it reports `pkey` without `ibKubernetesEnabled: true`: pods may start before ib-kubernetes sets the `pkey`.
    Keys of whereabouts that have had no effect since v0.6, such as `datastore`, are also warnings.

    The check has schemas of:

    - The plugins sriov, ib-sriov, rdma, host-device, macvlan, ipvlan, ipoib, tuning and sbr.
    - The IPAM plugins whereabouts, nv-ipam, host-local, static and dhcp.
    - The SR-IOV device plugin and the RDMA shared device plugin.

    Each schema names its upstream source (`generator/schemas/cni_schemas`). Other plugins are not checked. The check
    ignores the case of keys, as Go does.

    Source: each file of generator/schemas/cni_schemas names the source of its plugin, such as sriov-cni v2.10.0
    pkg/types/types.go SriovNetConf
    """
    for path, text, _, mistakes in texts.fields:
        for mistake in mistakes:
            place = f"at `{format_path(mistake.path)}` of the JSON: " if mistake.path else "in the JSON: "
            yield Breach(
                path,
                place + mistake.message,
                mistake.why,
                mistake.fix,
                severity=mistake.severity,
                value=text,
            )
