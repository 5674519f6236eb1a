"""What to write instead, for mistakes that people make again and again in the kinds of network operators.

Upstream's own documents have some of them: sriov-network-operator 249e200 doc/rdma-configuration.md (`pfName`,
`metaPluginsConfig`), network-operator-docs 0c0ecad docs/deployment-guide-kubernetes.rst (a flat `nodeSelector`).
"""

from __future__ import annotations

from collections.abc import Mapping

from generator.manifests import Manifest
from generator.schemas.violations import Violation

_SRIOV = "sriovnetwork.openshift.io"
_GROUPS = (_SRIOV, "mellanox.com", "k8s.cni.cncf.io")
_JSON = ("ipam", "metaPlugins", "capabilities", "config")
_POOL = "write it below `matchLabels`: the pool has EVERY node where its selector says nothing"
_SWITCH = 'write "on" or "off" in quotes: YAML reads them as true and false'
_OBJECT = "write the JSON as a text: '{\"type\": …}'"
_CHAIN = 'write the JSON as a text, objects with commas between: \'{"type": …}, {"type": …}\''
_PKEY = "write a NetworkAttachmentDefinition of `ib-sriov` with a `pkey`: this kind has no field for one"
_UNRELEASED = "write a NetworkAttachmentDefinition with `plugins`: no release up to 26.4 has this field"

_FIELDS: Mapping[tuple[str, str], str] = {
    ("SriovIBNetwork", "pkey"): _PKEY,
    ("SriovIBNetwork", "pKey"): _PKEY,
    ("SriovNetwork", "metaPluginsConfig"): "call it `metaPlugins`",
    ("SriovIBNetwork", "metaPluginsConfig"): "call it `metaPlugins`",
    ("SriovNetworkNodePolicy", "pfName"): "call it `pfNames`, and write a list",
    ("MacvlanNetwork", "metaPlugins"): _UNRELEASED,
    ("HostDeviceNetwork", "metaPlugins"): _UNRELEASED,
}
"""Kind and unknown field → what to do."""


def word_of(manifest: Manifest, violation: Violation) -> str:
    """What to do about a violation in a kind of a network operator; nothing where there is no more to say."""
    if manifest.group not in _GROUPS or not violation.path:
        return ""
    if violation.keyword == "additionalProperties":
        return _unknown(manifest.kind, violation.path)
    return _other_value(violation.path, violation.value) if violation.keyword in ("type", "enum") else ""


def _unknown(kind: str, path: tuple[str | int, ...]) -> str:
    if kind == "SriovNetworkPoolConfig" and path[:2] == ("spec", "nodeSelector"):
        return _POOL
    return _FIELDS.get((kind, str(path[-1])), "")


def _other_value(path: tuple[str | int, ...], value: object) -> str:
    if path[-1] in ("spoofChk", "trust") and isinstance(value, bool):
        return _SWITCH
    if path[-1] in _JSON and isinstance(value, dict | list):
        return _CHAIN if path[-1] == "metaPlugins" else _OBJECT
    return ""
