"""Argo CD: the AppProject, the Application, and the ClusterRole of the account that applies a release.

- The ClusterRole covers all kinds that a platform can have, because Argo CD must delete objects that this release no
  longer has. Argo CD reads and watches these kinds in all namespaces.
- RBAC forbids an account to grant rights that the account lacks, and the roles of a release grant such rights, for
  example on pods. So the account has `escalate` on these roles and `bind` on the roles that the release binds, each by
  name. Server-side apply is a PATCH, so RBAC sees the name of a new role; with `kubectl create`, RBAC does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from generator.config.model.cluster import GitOps
from generator.config.model.policies import AUDIT_POLICY_FILE
from generator.config.model.queues import CONFIGURATION_FILE
from generator.config.platform import Platform
from generator.facts.kinds import KINDS
from generator.facts.names import ARGOCD_FOLDER, GITOPS_ROLE
from generator.manifests import Body, Manifest
from generator.policies.access import (
    RBAC,
    READ,
    WRITE,
    cluster_role,
    cluster_role_binding,
    policy_rule,
    rules_for_kinds,
)
from generator.schemas.catalog import Catalog

CLUSTER_KINDS = tuple((row.group, row.kind) for row in KINDS if not row.namespaced)
"""(group, kind) of every cluster-scoped object that a platform can have."""

NOT_APPLIED = ("release.json", CONFIGURATION_FILE, AUDIT_POLICY_FILE, f"{ARGOCD_FOLDER}/*")
"""Files of a release that Argo CD ignores: release.json, which is no manifest, and files that an admin applies."""

_IN_CLUSTER = "https://kubernetes.default.svc"


def app_project(platform: Platform, gitops: GitOps, manifests: Iterable[Manifest]) -> Body:
    """Return the AppProject. It allows this repository, this cluster, and the cluster-scoped kinds of a platform.

    These are all kinds that mpigen can generate and the kinds that an admin added to this release: Argo CD must also
    prune kinds that this release no longer has (argo-cd v3.2.1 controller/sync.go checks every task, also pruning).
    """
    applied = (manifest for manifest in manifests if is_applied(manifest.file))
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


def is_applied(file: str) -> bool:
    """Return True if Argo CD applies the objects of a file of the release."""
    return file not in NOT_APPLIED and not file.startswith(f"{ARGOCD_FOLDER}/")


def application(platform: Platform, gitops: GitOps) -> Body:
    """Return the Application. Its `targetRevision` is a branch to follow, or the tag of the release to apply.

    The Application does not apply its own manifest, because the manifest at a tag names the tag of an earlier release.
    """
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": platform.platform, "namespace": gitops.namespace_on(platform.cluster)},
        "spec": {
            "project": platform.platform,
            "source": {
                "repoURL": gitops.repository,
                "targetRevision": gitops.revision,
                "path": f"{gitops.path}/{platform.platform}",
                # One pattern for a file's path below `path`, in which `*` matches `/` too (argo-cd v3.2.1
                # reposerver/repository/repository.go getPotentiallyValidManifestFile, gobwas/glob without separators).
                "directory": {"recurse": True, "exclude": f"{{{','.join(NOT_APPLIED)}}}"},
            },
            "destination": {"server": _IN_CLUSTER},
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True},
                "syncOptions": ["ServerSideApply=true", "PruneLast=true"],
            },
        },
    }


def application_manifests(platform: Platform, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the AppProject and the Application of a release; empty if the platform file has no section `gitops`."""
    if platform.gitops is None:
        return []
    return [
        Manifest(app_project(platform, platform.gitops, manifests), f"{ARGOCD_FOLDER}/project.yaml"),
        Manifest(application(platform, platform.gitops), f"{ARGOCD_FOLDER}/application.yaml"),
    ]


_ACCOUNT_FILE = "cluster/access/gitops.yaml"
_ROLES = {"ClusterRole": "clusterroles", "Role": "roles"}


def account_role(platform: Platform, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the ClusterRole of Argo CD's account and its binding; empty without `gitops`, or if its `grant` is false.

    Raises:
        EngineError: the bundled schemas are missing.
    """
    if platform.gitops is None or not platform.gitops.grant:
        return []
    catalog = Catalog.bundled(platform.cluster.versions.model_dump())
    accounts = [platform.gitops.account_on(platform.cluster)]
    binding = Manifest(cluster_role_binding(GITOPS_ROLE, GITOPS_ROLE, accounts), _ACCOUNT_FILE)
    unwritten = Manifest(cluster_role(GITOPS_ROLE, []), _ACCOUNT_FILE)
    applied = [manifest for manifest in manifests if is_applied(manifest.file)]
    role = cluster_role(GITOPS_ROLE, account_rules([*applied, unwritten, binding], catalog))
    return [Manifest(role, _ACCOUNT_FILE), binding]


def account_rules(manifests: Iterable[Manifest], catalog: Catalog) -> list[Body]:
    """Return the RBAC rules that an account needs to apply these manifests and to delete all kinds of a platform."""
    manifests = list(manifests)
    defined = {kind: {manifest.name for manifest in manifests if manifest.kind == kind} for kind in _ROLES}
    bound = {kind: {name for manifest in manifests for name in _bound_role(manifest, kind)} for kind in _ROLES}
    return [
        *rules_for_kinds([*READ, *WRITE]),
        *_rules_for_added_kinds(manifests, catalog),
        *_rules_for_roles("escalate", defined),
        *_rules_for_roles("bind", bound),
    ]


def _rules_for_added_kinds(manifests: Iterable[Manifest], catalog: Catalog) -> list[Body]:
    """Return RBAC rules for the kinds that admins add in Python, except kinds that are not in the catalogue."""
    known = {(row.group, row.kind) for row in KINDS}
    others: dict[str, set[str]] = {}
    for manifest in manifests:
        entry = catalog.entries.get((manifest.api_version, manifest.kind))
        if entry and (manifest.group, manifest.kind) not in known:
            others.setdefault(manifest.group, set()).add(entry.plural)
    return [policy_rule(group, sorted(resources), [*READ, *WRITE]) for group, resources in sorted(others.items())]


def _bound_role(manifest: Manifest, kind: str) -> Iterable[str]:
    reference = manifest.body.get("roleRef")
    if isinstance(reference, dict) and reference.get("kind") == kind:
        yield str(reference.get("name"))


def _rules_for_roles(verb: str, names: dict[str, set[str]]) -> list[Body]:
    return [policy_rule(RBAC, [_ROLES[kind]], [verb], sorted(named)) for kind, named in names.items() if named]
