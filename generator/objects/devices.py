"""Extended resources that device plugins offer, and the objects that configure the plugins."""

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
"""Default prefix of the resources of k8s-rdma-shared-dev-plugin.

Source: k8s-rdma-shared-dev-plugin 410b0f3 pkg/resources/resources_manager.go rdmaHcaResourcePrefix
"""


class Resource(NamedTuple):
    """An extended resource `prefix/name`. The prefix is empty if it depends on an unknown setting of an operator."""

    prefix: str
    name: str

    def __str__(self) -> str:
        return f"{self.prefix}/{self.name}" if self.prefix else self.name

    def may_be(self, other: Resource) -> bool:
        """Return True if this resource and the other one can be the same: an empty prefix matches every prefix."""
        return self.name == other.name and self.may_have_prefix_of(other)

    def may_have_prefix_of(self, other: Resource) -> bool:
        """Return True if the prefixes of both resources are equal, or if one of them is unknown."""
        return self.prefix == other.prefix or not (self.prefix and other.prefix)


def resource(full: str) -> Resource:
    """Split the name of a resource that a pod requests into prefix and name."""
    prefix, _, name = full.rpartition("/")
    return Resource(prefix, name)


def is_named_for_fabric(full: str) -> bool:
    """Return True if a resource is a fabric device on every cluster: of EFA, or with the prefix `rdma`."""
    return full == EFA or full.startswith(f"{SHARED_PREFIX}/")


def is_accelerator(full: str) -> bool:
    """Return True if a resource is an NVIDIA GPU, shared or not, or a MIG slice.

    GPUs for virtual machines are `nvidia.com/pgpu`, or have the model in capitals, such as `nvidia.com/GA102GL_A10`.

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
"""Value of `linkTypes` in the configuration of a device plugin → value of `linkType` of the SR-IOV operator."""


class Source(Enum):
    """The component, or the nodes, that offer a resource."""

    POLICY = "SR-IOV operator"
    PLUGIN = "device plugin"
    SHARED = "RDMA shared device plugin"
    FLAVOR = "nodes of a flavor"


@dataclass(frozen=True, slots=True)
class Provider:
    """An object that offers a resource.

    Attributes:
        manifest: the object.
        path: the path of the resource name in the object.
        resource: the resource.
        source: the component that offers the resource.
        link: the link type of its devices, `ib` or `eth`; empty unless the object sets exactly one.
    """

    manifest: Manifest
    path: Path
    resource: Resource
    source: Source
    link: str = ""

    def __str__(self) -> str:
        return f"{self.manifest.resource} offers `{self.resource}`"


def providers(manifest: Manifest) -> Iterator[Provider]:
    """Yield the resources that an object offers: a policy, the configuration of a plugin, or a ResourceFlavor."""
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
    """Return True if a ConfigMap contains the configuration of a device plugin."""
    texts = string_map(mapping(manifest.body, "data")).values()
    return any('"resourceList"' in text or '"configList"' in text for text in texts)


def prefix_of(namespace: str) -> str:
    """Return the resource prefix of the SR-IOV operator that a namespace usually contains; empty if unknown."""
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
    """Return the value of a JSON text; None if `text` is not a string or not valid JSON.

    The value is cached, so callers must not change it.
    """
    return _parsed(text) if isinstance(text, str) else None


@lru_cache(256)  # the networks of all teams share a few configurations
def _parsed(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return None


def amounts_of(manifest: Manifest) -> Mapping[str, object]:
    """Return resource → amount per node of a ResourceFlavor, from the annotation `mpigen.dev/allocatable`."""
    return mapping(parsed(mapping(manifest.body, "metadata", "annotations").get(ALLOCATABLE)))
