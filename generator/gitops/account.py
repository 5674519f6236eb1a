"""The account that applies a release: a role with the least that Argo CD needs for it.

- It covers all kinds that a platform can have, because Argo CD must delete objects that this release no longer has.
  Argo CD reads and watches these kinds in all namespaces.
- RBAC forbids granting rights that the account lacks. The roles of a release grant such rights (pods, TrainJobs, …), so
  the account has `escalate` on these roles and `bind` on the roles that the release binds, each by name. Server-side
  apply is a PATCH, so RBAC sees the name of a new role; with `kubectl create` it does not.
"""

from __future__ import annotations

from collections.abc import Iterable

from generator.config.platform import Platform
from generator.facts.kinds import KINDS
from generator.gitops.argocd import NOT_APPLIED
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

NAME = "mpigen-gitops"
_FILE = "cluster/access/gitops.yaml"
_ROLES = {"ClusterRole": "clusterroles", "Role": "roles"}


def account(platform: Platform, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the role and its binding; nothing if the platform grants no rights.

    Raises:
        EngineError: there is no catalogue of kinds.
    """
    if platform.gitops is None or not platform.gitops.grant:
        return []
    catalog = Catalog.bundled(platform.cluster.versions.model_dump())
    accounts = [platform.gitops.account_on(platform.cluster)]
    binding = Manifest(cluster_role_binding(NAME, NAME, accounts), _FILE)
    unwritten = Manifest(cluster_role(NAME, []), _FILE)
    applied = [manifest for manifest in manifests if manifest.file not in NOT_APPLIED]
    role = cluster_role(NAME, rules([*applied, unwritten, binding], catalog))
    return [Manifest(role, _FILE), binding]


def rules(manifests: Iterable[Manifest], catalog: Catalog) -> list[Body]:
    """Return the rules of an account that applies these manifests, and the manifests of any other release."""
    manifests = list(manifests)
    defined = {kind: {manifest.name for manifest in manifests if manifest.kind == kind} for kind in _ROLES}
    bound = {kind: {name for manifest in manifests for name in _bound(manifest, kind)} for kind in _ROLES}
    return [
        *rules_for_kinds([*READ, *WRITE]),
        *_about_others(manifests, catalog),
        *_about_roles("escalate", defined),
        *_about_roles("bind", bound),
    ]


def _about_others(manifests: Iterable[Manifest], catalog: Catalog) -> list[Body]:
    """Return rules for kinds that admins add. The API server's name of a kind without a schema is unknown."""
    known = {(row.group, row.kind) for row in KINDS}
    others: dict[str, set[str]] = {}
    for manifest in manifests:
        entry = catalog.entries.get((manifest.api_version, manifest.kind))
        if entry and (manifest.group, manifest.kind) not in known:
            others.setdefault(manifest.group, set()).add(entry.plural)
    return [policy_rule(group, sorted(resources), [*READ, *WRITE]) for group, resources in sorted(others.items())]


def _bound(manifest: Manifest, kind: str) -> Iterable[str]:
    reference = manifest.body.get("roleRef")
    if isinstance(reference, dict) and reference.get("kind") == kind:
        yield str(reference.get("name"))


def _about_roles(verb: str, names: dict[str, set[str]]) -> list[Body]:
    return [policy_rule(RBAC, [_ROLES[kind]], [verb], sorted(named)) for kind, named in names.items() if named]
