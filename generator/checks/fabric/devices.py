"""The resources that device plugins offer, and the objects that configure the plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from generator.documents.json_text import read_json
from generator.documents.load import Path
from generator.facts.names import ALLOCATABLE, EFA
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping, strings

SHARED_PREFIX = "rdma"
"""Of k8s-rdma-shared-dev-plugin (410b0f3 pkg/resources/resources_manager.go rdmaHcaResourcePrefix)."""


class Resource(NamedTuple):
    """`prefix/name`; the prefix is empty where nothing tells what the operator was started with."""

    prefix: str
    name: str

    def __str__(self) -> str:
        return f"{self.prefix}/{self.name}" if self.prefix else self.name

    def may_be(self, other: Resource) -> bool:
        """Whether both can be the same device."""
        return self.name == other.name and (self.prefix == other.prefix or not (self.prefix and other.prefix))


def resource(full: str) -> Resource:
    """Of a name as pods write it."""
    prefix, _, name = full.rpartition("/")
    return Resource(prefix, name)


def is_named_for_fabric(full: str) -> bool:
    """Whether the name alone tells that it is a device of a fabric."""
    return full == EFA or full.startswith(f"{SHARED_PREFIX}/")


def is_accelerator(full: str) -> bool:
    """Whether it is a GPU or a part of one, which NVIDIA gives the same prefix as its network devices.

    NVIDIA/k8s-device-plugin 1b826ac internal/resource; those that are lent to virtual machines have names of models
    """
    prefix, name = resource(full)
    is_gpu = name in ("gpu", "gpu.shared", "pgpu") or name.startswith("mig-") or name.isupper()
    return prefix == "nvidia.com" and is_gpu


SRIOV = "sriovnetwork.openshift.io"
MELLANOX = "mellanox.com"
PREFIXES = {
    "openshift-sriov-network-operator": "openshift.io",
    "sriov-network-operator": "openshift.io",
    "nvidia-network-operator": "nvidia.com",
}
"""Namespace of the SR-IOV operator → RESOURCE_PREFIX that it is installed with there.

sriov-network-operator v1.6.0 hack/env.sh; network-operator b06827e deployment/network-operator/values.yaml
"""
_PLUGIN_PREFIX = "intel.com"  # sriov-network-device-plugin 40b6f50 cmd/sriovdp/main.go

_REMEMBERED = 256  # texts: the networks of one team say what those of the next do


class Source(Enum):
    """Who offers a resource."""

    POLICY = "SR-IOV operator"
    PLUGIN = "device plugin"
    SHARED = "RDMA shared device plugin"
    FLAVOR = "nodes of a flavor"


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource that is offered.

    Attributes:
        manifest: the object that says so.
        path: where it says the name.
        resource: the name.
        source: who offers it.
        link: `ib` or `eth`; empty where nobody says.
    """

    manifest: Manifest
    path: Path
    resource: Resource
    source: Source
    link: str = ""

    def __str__(self) -> str:
        return f"{self.manifest.resource} gives `{self.resource}`"


def providers(manifest: Manifest) -> Iterator[Provider]:
    """What one object has offered; of most objects nothing."""
    match manifest.group, manifest.kind:
        case "sriovnetwork.openshift.io", "SriovNetworkNodePolicy":
            yield from _policy(manifest)
        case "mellanox.com", "NicClusterPolicy" | "NicNodePolicy":
            yield from _nic_policy(manifest)
        case "", "ConfigMap":
            for key, text in mapping(manifest.body, "data").items():
                yield from _plugin(manifest, ("data", key), text)
        case "kueue.x-k8s.io", "ResourceFlavor":
            yield from _flavor(manifest)


def is_plugin_configuration(manifest: Manifest) -> bool:
    """Whether a ConfigMap configures a device plugin."""
    texts_of = mapping(manifest.body, "data").values()
    return any(isinstance(text, str) and ('"resourceList"' in text or '"configList"' in text) for text in texts_of)


def prefix_of(namespace: str) -> str:
    """That of the resources of an SR-IOV operator; empty where nobody can tell."""
    return PREFIXES.get(namespace, "")


def _policy(manifest: Manifest) -> Iterator[Provider]:
    spec = mapping(manifest.body, "spec")
    name, link = spec.get("resourceName"), spec.get("linkType")
    if isinstance(name, str) and name:
        of = Resource(prefix_of(manifest.namespace), name)
        told = link.lower() if isinstance(link, str) else ""
        yield Provider(manifest, ("spec", "resourceName"), of, Source.POLICY, told)


def _nic_policy(manifest: Manifest) -> Iterator[Provider]:
    for plugin in ("sriovDevicePlugin", "rdmaSharedDevicePlugin"):
        path: Path = ("spec", plugin, "config")
        yield from _plugin(manifest, path, mapping(manifest.body, "spec", plugin).get("config"))


def _plugin(manifest: Manifest, path: Path, text: object) -> Iterator[Provider]:
    """The resources of a configuration of sriov-network-device-plugin, or of k8s-rdma-shared-dev-plugin."""
    said = parsed(text)
    for key, source, default in (
        ("resourceList", Source.PLUGIN, _PLUGIN_PREFIX),
        ("configList", Source.SHARED, SHARED_PREFIX),
    ):
        for _, each in indexed_mappings(mapping(said).get(key)):
            name, prefix = each.get("resourceName"), each.get("resourcePrefix")
            if isinstance(name, str) and name:
                of = Resource(prefix if isinstance(prefix, str) and prefix else default, name)
                yield Provider(manifest, path, of, source, _link(each.get("selectors")))


def _link(selectors: object) -> str:
    """By the `linkTypes` that devices are selected by."""
    kinds = frozenset(strings(mapping(selectors).get("linkTypes")))
    return {frozenset({"infiniband"}): "ib", frozenset({"ether"}): "eth"}.get(kinds, "")


def _flavor(manifest: Manifest) -> Iterator[Provider]:
    path: Path = ("metadata", "annotations", ALLOCATABLE)
    amounts = parsed(mapping(manifest.body, "metadata", "annotations").get(ALLOCATABLE))
    for name in mapping(amounts):
        if "/" in name:
            yield Provider(manifest, path, resource(name), Source.FLAVOR)


def parsed(text: object) -> Any:
    """What a JSON text says, which nobody changes; nothing where it is none."""
    return _parsed(text) if isinstance(text, str) else None


@lru_cache(_REMEMBERED)
def _parsed(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return None


def amounts_of(manifest: Manifest) -> Mapping[str, object]:
    """What each node of a ResourceFlavor has for pods, if its annotation says so."""
    return mapping(parsed(mapping(manifest.body, "metadata", "annotations").get(ALLOCATABLE)))
