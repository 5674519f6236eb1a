"""The resources that device plugins offer, and the objects that configure the plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from generator.documents.load import Path
from generator.documents.scalars import read_json
from generator.facts.names import ALLOCATABLE, EFA
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string, string_map, strings

SHARED_PREFIX = "rdma"
"""Prefix of k8s-rdma-shared-dev-plugin (410b0f3 pkg/resources/resources_manager.go rdmaHcaResourcePrefix)."""


class Resource(NamedTuple):
    """A resource `prefix/name`. The prefix is empty if the operator's option `RESOURCE_PREFIX` is unknown."""

    prefix: str
    name: str

    def __str__(self) -> str:
        return f"{self.prefix}/{self.name}" if self.prefix else self.name

    def may_be(self, other: Resource) -> bool:
        """Return True if both names can mean the same resource: an empty prefix matches every prefix."""
        return self.name == other.name and (self.prefix == other.prefix or not (self.prefix and other.prefix))


def resource(full: str) -> Resource:
    """Split the name of a resource that a pod requests into prefix and name."""
    prefix, _, name = full.rpartition("/")
    return Resource(prefix, name)


def is_named_for_fabric(full: str) -> bool:
    """Return True if the name alone identifies a device of a fabric: EFA, or the shared RDMA plugin."""
    return full == EFA or full.startswith(f"{SHARED_PREFIX}/")


def is_accelerator(full: str) -> bool:
    """Return True for a GPU, a MIG slice, or a GPU for virtual machines, whose name is a model in upper case.

    Source: NVIDIA/k8s-device-plugin 1b826ac internal/resource
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
"""Namespace of the SR-IOV operator → RESOURCE_PREFIX of its installation.

sriov-network-operator v1.6.0 hack/env.sh; network-operator b06827e deployment/network-operator/values.yaml
"""
_PLUGIN_PREFIX = "intel.com"  # sriov-network-device-plugin 40b6f50 cmd/sriovdp/main.go

_LINKS = {"infiniband": "ib", "ether": "eth"}
"""Link type in the selectors of a device plugin → link type of the SR-IOV operator."""


class Source(Enum):
    """The kind of component that offers a resource."""

    POLICY = "SR-IOV operator"
    PLUGIN = "device plugin"
    SHARED = "RDMA shared device plugin"
    FLAVOR = "nodes of a flavor"


@dataclass(frozen=True, slots=True)
class Provider:
    """An object that offers a resource.

    Attributes:
        manifest: the object.
        path: the path of the resource name.
        resource: the resource name.
        source: the component that offers it.
        link: `ib` or `eth`; empty if the object does not set it.
    """

    manifest: Manifest
    path: Path
    resource: Resource
    source: Source
    link: str = ""

    def __str__(self) -> str:
        return f"{self.manifest.resource} offers `{self.resource}`"


def providers(manifest: Manifest) -> Iterator[Provider]:
    """Yield the resources that an object offers."""
    match manifest.group, manifest.kind:
        case "sriovnetwork.openshift.io", "SriovNetworkNodePolicy":
            spec = mapping(manifest.body, "spec")
            if name := string(spec.get("resourceName")):
                device, link = Resource(prefix_of(manifest.namespace), name), string(spec.get("linkType")).lower()
                yield Provider(manifest, ("spec", "resourceName"), device, Source.POLICY, link)
        case "mellanox.com", "NicClusterPolicy" | "NicNodePolicy":
            for plugin in ("sriovDevicePlugin", "rdmaSharedDevicePlugin"):
                text = mapping(manifest.body, "spec", plugin).get("config")
                yield from _plugin(manifest, ("spec", plugin, "config"), text)
        case "", "ConfigMap":
            for key, text in mapping(manifest.body, "data").items():
                yield from _plugin(manifest, ("data", key), text)
        case "kueue.x-k8s.io", "ResourceFlavor":
            for name in amounts_of(manifest):
                if "/" in name:
                    path: Path = ("metadata", "annotations", ALLOCATABLE)
                    yield Provider(manifest, path, resource(name), Source.FLAVOR)


def is_plugin_configuration(manifest: Manifest) -> bool:
    """Return True if a ConfigMap configures a device plugin."""
    texts = string_map(mapping(manifest.body, "data")).values()
    return any('"resourceList"' in text or '"configList"' in text for text in texts)


def prefix_of(namespace: str) -> str:
    """Return the resource prefix of an SR-IOV operator; empty if its namespace is not a usual one."""
    return PREFIXES.get(namespace, "")


def _plugin(manifest: Manifest, path: Path, text: object) -> Iterator[Provider]:
    """Yield the resources in a configuration of sriov-network-device-plugin or k8s-rdma-shared-dev-plugin."""
    config = mapping(parsed(text))
    for key, source, default in (
        ("resourceList", Source.PLUGIN, _PLUGIN_PREFIX),
        ("configList", Source.SHARED, SHARED_PREFIX),
    ):
        for entry in mappings(config.get(key)):
            if name := string(entry.get("resourceName")):
                device = Resource(string(entry.get("resourcePrefix"), default), name)
                links = {_LINKS.get(link, "") for link in strings(mapping(entry, "selectors").get("linkTypes"))}
                yield Provider(manifest, path, device, source, links.pop() if len(links) == 1 else "")


def parsed(text: object) -> Any:
    """Parse JSON; None for other values. The result is cached and must not be changed."""
    return _parsed(text) if isinstance(text, str) else None


@lru_cache(256)  # the networks of all teams have the same few configurations
def _parsed(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return None


def amounts_of(manifest: Manifest) -> Mapping[str, object]:
    """Return the allocatable resources per node of a ResourceFlavor, from its annotation."""
    return mapping(parsed(mapping(manifest.body, "metadata", "annotations").get(ALLOCATABLE)))
