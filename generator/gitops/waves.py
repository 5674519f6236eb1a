"""Waves: the order in which Argo CD applies a release, so that nothing waits for what comes after it.

Argo CD waits for the health of a wave before the next. A ClusterQueue is inactive without its flavors, which want their
topologies, and its checks, which want what they refer to, a LocalQueue without its ClusterQueue, and a namespace must
be closed before jobs can enter it.

Last comes what others must fill: a store that nobody can log in to is Degraded, a claim is Progressing until its first
pod. Nothing may wait for them, since one team's slip would hold up all teams: Argo CD applies the last wave and is done
(argo-cd v3.2.1, gitops-engine 13d5172 pkg/sync/sync_context.go `Sync`, pkg/health/health_pvc.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from generator.gitops.argocd import NOT_APPLIED
from generator.manifests import Manifest

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


def in_waves(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Annotate each manifest that is applied with its wave, unless it has one already."""
    return [manifest if manifest.file in NOT_APPLIED else _in_wave(manifest) for manifest in manifests]


def _in_wave(manifest: Manifest) -> Manifest:
    metadata = manifest.body.get("metadata", {})
    annotations = metadata.get("annotations", {})
    wave = WAVES.get(manifest.kind)
    if wave is None or ANNOTATION in annotations:
        return manifest
    marked = {**metadata, "annotations": {**annotations, ANNOTATION: str(wave)}}
    return replace(manifest, body={**manifest.body, "metadata": marked})
