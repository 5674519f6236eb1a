"""Fabrics: the objects that make the fabrics of a cluster, read once for all rules of `fabric/*`.

Whatever stands in them: what a schema has something to say about is here as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from generator.checks.fabric.attachments import Attachment, attachment
from generator.checks.fabric.pods import PodTemplate, pod_templates
from generator.checks.fabric.providers import PREFIXES, Provider, Source, providers
from generator.checks.fabric.resource import Resource, is_named_for_fabric, resource
from generator.checks.gathered import Gathered
from generator.manifests import Manifest

KINDS = frozenset(
    {
        "CIDRPool",
        "HostDeviceNetwork",
        "IPPool",
        "IPoIBNetwork",
        "MacvlanNetwork",
        "NetworkAttachmentDefinition",
        "NicClusterPolicy",
        "NicNodePolicy",
        "OVSNetwork",
        "SriovIBNetwork",
        "SriovNetwork",
        "SriovNetworkNodePolicy",
        "SriovNetworkPoolConfig",
        "SriovOperatorConfig",
    }
)
"""Of the operators, of Multus and of nv-ipam."""
_OPENSHIFT = "openshift-sriov-network-operator"


@dataclass(frozen=True)
class Fabrics:
    """What a set of manifests says of fabrics."""

    manifests: Sequence[Manifest]

    @classmethod
    def read(cls, gathered: Gathered) -> Fabrics:
        """Read the fabrics of some objects."""
        return cls(gathered.manifests)

    def of(self, kind: str) -> Sequence[Manifest]:
        """All of one of `KINDS`."""
        return self._by_kind.get(kind, ())

    @cached_property
    def providers(self) -> tuple[Provider, ...]:
        """The resources that are offered."""
        return tuple(found for manifest in self.manifests for found in providers(manifest))

    def offered_by(self, *sources: Source) -> Sequence[Provider]:
        """Those of some sources."""
        if sources not in self._offered:
            self._offered[sources] = [each for each in self.providers if each.source in sources]
        return self._offered[sources]

    @cached_property
    def attachments(self) -> tuple[Attachment, ...]:
        """The networks that pods can ask for."""
        found = (attachment(manifest) for manifest in self.manifests)
        return tuple(each for each in found if each and each.name)

    @cached_property
    def by_name(self) -> Mapping[str, Mapping[str, Attachment]]:
        """Name → namespace → network; the namespace is empty where nobody says which."""
        found: dict[str, dict[str, Attachment]] = {}
        for each in self.attachments:
            found.setdefault(each.name, {}).setdefault(each.namespace, each)
        return found

    @cached_property
    def pods(self) -> tuple[PodTemplate, ...]:
        """The pods that there are, or that become of what there is."""
        return tuple(found for manifest in self.manifests for found in pod_templates(manifest))

    @cached_property
    def devices(self) -> frozenset[Resource]:
        """What is a device of a fabric because an object says so."""
        offered = {each.resource for each in self.providers if each.source is not Source.FLAVOR}
        return frozenset(offered | {each.resource for each in self.attachments if each.resource})

    def is_device(self, full: str) -> bool:
        """Whether a resource that pods ask for is a device of a fabric."""
        wanted = resource(full)
        return is_named_for_fabric(full) or ("/" in full and any(wanted.may_be(each) for each in self.devices))

    @cached_property
    def is_openshift(self) -> bool:
        """Whether it is known that Multus keeps to namespaces."""
        return any(
            manifest.namespace == _OPENSHIFT or (manifest.kind == "Namespace" and _is_openshift(manifest))
            for manifest in self.manifests
        )

    @cached_property
    def operators(self) -> frozenset[str]:
        """The namespaces where an SR-IOV operator is known to be."""
        configured = {each.namespace for each in self.of("SriovOperatorConfig") if each.namespace}
        return frozenset(PREFIXES) | configured

    @cached_property
    def _offered(self) -> dict[tuple[Source, ...], list[Provider]]:
        return {}

    @cached_property
    def _by_kind(self) -> Mapping[str, Sequence[Manifest]]:
        found: dict[str, list[Manifest]] = {}
        for manifest in self.manifests:
            if manifest.kind in KINDS:
                found.setdefault(manifest.kind, []).append(manifest)
        return found


def _is_openshift(namespace: Manifest) -> bool:
    metadata = namespace.body.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    keys = labels if isinstance(labels, dict) else {}
    return any(isinstance(key, str) and key.partition("/")[0].endswith("openshift.io") for key in keys)
