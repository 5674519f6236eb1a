"""The AppProject and the Application of Argo CD: what it may apply, and which release it applies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from generator.config.model.cluster import GitOps
from generator.config.model.policies import AUDIT_POLICY_FILE
from generator.config.model.queues import CONFIGURATION_FILE
from generator.config.platform import Platform
from generator.facts.kinds import KINDS
from generator.manifests import Body, Manifest

CLUSTER_KINDS = tuple((row.group, row.kind) for row in KINDS if not row.is_namespaced)
"""(group, kind) of every cluster-scoped object that a platform can have."""

NOT_APPLIED = ("release.json", CONFIGURATION_FILE, AUDIT_POLICY_FILE)
"""Files of a release that Argo CD ignores: the lock, which is no manifest, and files that an admin applies."""

_IN_CLUSTER = "https://kubernetes.default.svc"


def app_project(platform: Platform, gitops: GitOps, manifests: Iterable[Manifest]) -> Body:
    """Return the AppProject: this repository, this cluster, and the cluster-scoped kinds of mpigen.

    All of them, whether this release has some or not: what a release no longer has must be pruned, what an older one
    had must come back (argo-cd v3.2.1 controller/sync.go checks every task, pruning included). Kinds of the admin's
    own come on top.
    """
    applied = (manifest for manifest in manifests if manifest.file not in NOT_APPLIED)
    kinds = sorted(
        {*CLUSTER_KINDS, *((manifest.group, manifest.kind) for manifest in applied if not manifest.namespace)}
    )
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": platform.platform, "namespace": gitops.namespace_on(platform.cluster)},
        "spec": {
            "description": f"MPI training platform {platform.platform}",
            "sourceRepos": [gitops.repository],
            "destinations": [{"server": _IN_CLUSTER, "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": group, "kind": kind} for group, kind in kinds],
        },
    }


def application(platform: Platform, gitops: GitOps, release: str) -> Body:
    """Return the Application: its `path` names the release, so changing one line promotes or rolls back."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": platform.platform, "namespace": gitops.namespace_on(platform.cluster)},
        "spec": {
            "project": platform.platform,
            "source": {
                "repoURL": gitops.repository,
                "targetRevision": gitops.revision,
                "path": f"{gitops.path}/{platform.platform}/{release}",
                # One pattern for all of a file's path (argo-cd v3.2.1 getPotentiallyValidManifestFile, gobwas/glob).
                "directory": {"recurse": True, "exclude": f"{{{','.join(NOT_APPLIED)}}}"},
            },
            "destination": {"server": _IN_CLUSTER},
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True},
                "syncOptions": ["ServerSideApply=true", "PruneLast=true"],
            },
        },
    }


def pointer(platform: Platform, manifests: Sequence[Manifest], release: str) -> list[Manifest]:
    """Return the project and the application that apply a release; nothing if no engine applies it.

    Files are relative to `output/<platform>/argocd/`.
    """
    if platform.gitops is None:
        return []
    return [
        Manifest(app_project(platform, platform.gitops, manifests), "project.yaml"),
        Manifest(application(platform, platform.gitops, release), "application.yaml"),
    ]
