"""Argo CD: the AppProject, the Application, and the role of the account that applies a release.

- The role covers all kinds that a platform can have, because Argo CD must delete objects that this release no longer
  has. Argo CD reads and watches these kinds in all namespaces.
- RBAC forbids granting rights that the account lacks. The roles of a release grant such rights (pods, TrainJobs, …), so
  the account has `escalate` on these roles and `bind` on the roles that the release binds, each by name. Server-side
  apply is a PATCH, so RBAC sees the name of a new role; with `kubectl create` it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from generator.config.model.cluster import GitOps
from generator.config.model.policies import AUDIT_POLICY_FILE
from generator.config.model.queues import CONFIGURATION_FILE
from generator.config.platform import Platform
from generator.facts.kinds import KINDS
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

NOT_APPLIED = ("release.json", CONFIGURATION_FILE, AUDIT_POLICY_FILE)
"""Files of a release that Argo CD ignores: the lock, which is no manifest, and files that an admin applies."""

_IN_CLUSTER = "https://kubernetes.default.svc"


def app_project(platform: Platform, gitops: GitOps, manifests: Iterable[Manifest]) -> Body:
    """Return the AppProject: this repository, this cluster, and all cluster-scoped kinds of mpigen and of the admin.

    The list does not depend on the release, because Argo CD must also prune kinds that this release no longer has, and
    restore them after a rollback (argo-cd v3.2.1 controller/sync.go checks every task, pruning included).
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
    """Return the Application. Its `path` names the release, so a change of this field promotes or rolls back."""
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
    """Return the AppProject and the Application of a release; empty without a GitOps engine.

    Files are relative to `output/<platform>/argocd/`.
    """
    if platform.gitops is None:
        return []
    return [
        Manifest(app_project(platform, platform.gitops, manifests), "project.yaml"),
        Manifest(application(platform, platform.gitops, release), "application.yaml"),
    ]


ACCOUNT_ROLE = "mpigen-gitops"
_ACCOUNT_FILE = "cluster/access/gitops.yaml"
_ROLES = {"ClusterRole": "clusterroles", "Role": "roles"}


def account_role(platform: Platform, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the ClusterRole of Argo CD's account and its binding; empty if the platform grants no rights.

    Raises:
        EngineError: there is no catalogue of kinds.
    """
    if platform.gitops is None or not platform.gitops.grant:
        return []
    catalog = Catalog.bundled(platform.cluster.versions.model_dump())
    accounts = [platform.gitops.account_on(platform.cluster)]
    binding = Manifest(cluster_role_binding(ACCOUNT_ROLE, ACCOUNT_ROLE, accounts), _ACCOUNT_FILE)
    unwritten = Manifest(cluster_role(ACCOUNT_ROLE, []), _ACCOUNT_FILE)
    applied = [manifest for manifest in manifests if manifest.file not in NOT_APPLIED]
    role = cluster_role(ACCOUNT_ROLE, account_rules([*applied, unwritten, binding], catalog))
    return [Manifest(role, _ACCOUNT_FILE), binding]


def account_rules(manifests: Iterable[Manifest], catalog: Catalog) -> list[Body]:
    """Return the RBAC rules with which an account applies these manifests, and the manifests of other releases."""
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
    """Return RBAC rules for kinds that admins add in Python; kinds without a schema are omitted."""
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
