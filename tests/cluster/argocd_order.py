"""Sort manifests in the order in which Argo CD applies them: by wave, kind, and name."""

from __future__ import annotations

from collections.abc import Iterable

from generator.manifests import Manifest

_WAVE = "argocd.argoproj.io/sync-wave"
_KINDS = (
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
)
"""gitops-engine 13d5172 pkg/sync/sync_tasks.go: these come first, in this order; all other kinds follow."""


def in_order(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the manifests in the order of Argo CD."""
    return sorted(manifests, key=_key)


def _key(manifest: Manifest) -> tuple[int, int, str]:
    wave = manifest.body["metadata"].get("annotations", {}).get(_WAVE, "0")
    kind = _KINDS.index(manifest.kind) if manifest.kind in _KINDS else len(_KINDS)
    return int(wave), kind, manifest.name
