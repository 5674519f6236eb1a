"""Labels and annotations of every manifest in a release: its owner and the sync wave of Argo CD.

Argo CD waits until a wave is healthy before the next. A ClusterQueue is inactive without its flavors and checks, a
flavor needs its topology, a LocalQueue its ClusterQueue, and a namespace must be closed before jobs can enter it. The
last wave holds objects that others must fill: a SecretStore without a login is Degraded, and a claim is Progressing
until its first pod. No object waits for them, because the mistake of one team would hold up all teams: Argo CD applies
the last wave and is done (argo-cd v3.2.1, gitops-engine 13d5172 pkg/sync/sync_context.go `Sync`,
pkg/health/health_pvc.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from generator.facts.names import MANAGED_BY, PART_OF
from generator.gitops.argocd import NOT_APPLIED
from generator.manifests import Manifest

_SHARED = ("ClusterRole", "WorkloadPriorityClass")
"""Kinds whose names do not depend on the platform: where there are several on one cluster, these are of all of them."""


def label_owner(manifests: Iterable[Manifest], platform: str) -> list[Manifest]:
    """Label each manifest as generated for this platform."""
    return [
        _label(manifest, MANAGED_BY if manifest.kind in _SHARED else {**MANAGED_BY, PART_OF: platform})
        for manifest in manifests
    ]


def _label(manifest: Manifest, labels: dict[str, str]) -> Manifest:
    metadata = manifest.body["metadata"]
    named = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    labelled = {**named, "labels": {**metadata.get("labels", {}), **labels}}
    rest = {key: value for key, value in metadata.items() if key not in labelled}
    return replace(manifest, body={**manifest.body, "metadata": {**labelled, **rest}})


ANNOTATION = "argocd.argoproj.io/sync-wave"
WAVES = {
    "ValidatingAdmissionPolicy": -6,  # one may hold in a namespace what nothing else does
    "ValidatingAdmissionPolicyBinding": -6,
    "Namespace": -5,
    "ServiceAccount": -4,
    "SecurityContextConstraints": -4,
    "ClusterRole": -4,
    "ClusterRoleBinding": -3,
    "RoleBinding": -3,
    "NetworkPolicy": -3,
    "CiliumNetworkPolicy": -3,
    "AdminNetworkPolicy": -3,
    "BaselineAdminNetworkPolicy": -3,
    "ResourceQuota": -3,
    "LimitRange": -3,
    "Topology": -3,
    "WorkloadPriorityClass": -3,
    "ProvisioningRequestConfig": -3,
    "MultiKueueCluster": -3,
    "MultiKueueConfig": -3,
    "KubeletConfig": -4,
    "MachineConfig": -4,
    "PerformanceProfile": -4,
    "SriovNetworkPoolConfig": -4,  # says how many nodes go at a time when what follows takes them
    "SriovNetworkNodePolicy": -3,
    "NicNodePolicy": -3,
    "IPPool": -3,
    "DeviceClass": -3,
    "AdmissionCheck": -2,
    "NetworkAttachmentDefinition": -2,
    "ResourceClaimTemplate": -2,
    "SriovIBNetwork": -2,
    "SriovNetwork": -2,
    "ResourceFlavor": -2,
    "Cohort": -2,
    "ClusterQueue": -1,
    "SecretStore": 1,
    "ExternalSecret": 1,
    "PersistentVolumeClaim": 1,
}
"""Kind → wave; every other kind is in wave 0."""


def annotate_waves(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Annotate each manifest that is applied with its wave, unless it has one already."""
    return [manifest if manifest.file in NOT_APPLIED else _annotate_wave(manifest) for manifest in manifests]


def _annotate_wave(manifest: Manifest) -> Manifest:
    metadata = manifest.body.get("metadata", {})
    annotations = metadata.get("annotations", {})
    wave = WAVES.get(manifest.kind)
    if wave is None or ANNOTATION in annotations:
        return manifest
    marked = {**metadata, "annotations": {**annotations, ANNOTATION: str(wave)}}
    return replace(manifest, body={**manifest.body, "metadata": marked})
