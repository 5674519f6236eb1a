"""Attachment: a network that pods can ask for, and the CNI plugins that make it.

How operators make a NetworkAttachmentDefinition: sriov-network-operator v1.6.0 api/v1/helper.go RenderNetAttDef;
network-operator b06827e manifests/state-{macvlan,hostdevice,ipoib}-network
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks.fabric.providers import MELLANOX, SRIOV, parsed, prefix_of
from generator.checks.fabric.resource import Resource, resource
from generator.documents.load import Path
from generator.facts.names import RESOURCE_NAME
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping

CNI = "k8s.cni.cncf.io"
OF_SRIOV = {"SriovNetwork": "sriov", "SriovIBNetwork": "ib-sriov", "OVSNetwork": "ovs"}
"""Kind of the SR-IOV operator → the plugin that it configures."""
OF_MELLANOX = {"MacvlanNetwork": "macvlan", "HostDeviceNetwork": "host-device", "IPoIBNetwork": "ipoib"}
"""The same of NVIDIA's network operator."""
_DEFAULT_NAMESPACE = {"MacvlanNetwork": "default", "IPoIBNetwork": "default"}
_HOST_DEVICE = "nvidia.com"  # network-operator b06827e pkg/state/state_hostdevice_network.go resourceNamePrefix


@dataclass(frozen=True, slots=True)
class Attachment:
    """A NetworkAttachmentDefinition, or an object of which an operator makes one.

    Attributes:
        manifest: the object.
        namespace: where the NetworkAttachmentDefinition is; empty where nobody says.
        resource: the device that it hands to a pod; None if it needs none.
        path: where that name stands.
        plugins: its CNI configuration: the main plugin, then those that are chained; empty where it cannot be read.
        plugins_path: where that stands, and that of the chained ones.
    """

    manifest: Manifest
    namespace: str
    resource: Resource | None
    path: Path
    plugins: tuple[Mapping[str, Any], ...]
    plugins_path: Path

    @property
    def name(self) -> str:
        """Of the NetworkAttachmentDefinition."""
        return self.manifest.name

    @property
    def main(self) -> Mapping[str, Any]:
        """The main plugin."""
        return self.plugins[0] if self.plugins else {}

    @property
    def type(self) -> str:
        """Of the main plugin; empty where nobody can tell."""
        kind = self.main.get("type")
        return kind if isinstance(kind, str) else ""

    @property
    def ipam(self) -> Mapping[str, Any]:
        """How it gives addresses; empty where it gives none."""
        return mapping(self.main, "ipam")

    def chains(self, plugin: str) -> bool:
        """Whether a plugin comes after the main one."""
        return any(each.get("type") == plugin for each in self.plugins[1:])


def attachment(manifest: Manifest) -> Attachment | None:
    """The network that an object makes, if it makes one."""
    if manifest.group == CNI and manifest.kind == "NetworkAttachmentDefinition":
        return _definition(manifest)
    if manifest.group == SRIOV and manifest.kind in OF_SRIOV:
        return _of_sriov(manifest)
    if manifest.group == MELLANOX and manifest.kind in OF_MELLANOX:
        return _of_mellanox(manifest)
    return None


def _definition(manifest: Manifest) -> Attachment:
    name = mapping(manifest.body, "metadata", "annotations").get(RESOURCE_NAME)
    named = resource(name) if isinstance(name, str) and name else None
    said = mapping(parsed(mapping(manifest.body, "spec").get("config")))
    chain = tuple(plugin for _, plugin in indexed_mappings(said.get("plugins")))
    path: Path = ("metadata", "annotations", RESOURCE_NAME)
    return Attachment(manifest, manifest.namespace, named, path, chain or ((said,) if said else ()), ("spec", "config"))


def _of_sriov(manifest: Manifest) -> Attachment:
    spec = mapping(manifest.body, "spec")
    name = spec.get("resourceName")
    named = Resource(prefix_of(manifest.namespace), name) if isinstance(name, str) and name else None
    namespace = _text(spec.get("networkNamespace")) or manifest.namespace
    plugins = _made(OF_SRIOV[manifest.kind], spec)
    return Attachment(manifest, namespace, named, ("spec", "resourceName"), plugins, ("spec", "metaPlugins"))


def _of_mellanox(manifest: Manifest) -> Attachment:
    spec = mapping(manifest.body, "spec")
    name = _text(spec.get("resourceName")).removeprefix(f"{_HOST_DEVICE}/")
    named = Resource(_HOST_DEVICE, name) if name else None
    namespace = _text(spec.get("networkNamespace")) or _DEFAULT_NAMESPACE.get(manifest.kind, "")
    plugins = _made(OF_MELLANOX[manifest.kind], spec)
    return Attachment(manifest, namespace, named, ("spec", "resourceName"), plugins, ("spec", "metaPlugins"))


_KEPT = ("vlan", "master", "mode", "mtu", "linkState", "spoofChk", "trust")


def _made(plugin: str, spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The main plugin as an operator writes it, and those that are chained to it."""
    main = {"type": plugin, **{key: spec[key] for key in _KEPT if key in spec}, "ipam": parsed(spec.get("ipam"))}
    chained = parsed(f"[{spec.get('metaPlugins')}]") if spec.get("metaPlugins") else ()
    return (main, *(each for _, each in indexed_mappings(chained)))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
