"""Argo CD: the AppProjects, the Applications, the ApplicationSet, and the ClusterRole of Argo CD's account.

- The ClusterRole covers all kinds that a platform can have, because Argo CD must delete objects that this release no
  longer has. Argo CD reads and watches these kinds in all namespaces.
- RBAC forbids an account to grant rights that the account lacks, and the roles of a release grant such rights, for
  example on pods. So the account has `bind` on the roles that the release binds, each by name, and `escalate` on all
  ClusterRoles. Argo CD creates a role with `kubectl auth reconcile` before it applies the role. The API server checks
  a create request without the name of the object, so names in `escalate` would forbid the first sync (gitops-engine
  13d5172 pkg/utils/kube/resource_ops.go runResourceCommand; kubernetes v1.34.2 pkg/registry/rbac/escalation_check.go
  RoleEscalationAuthorized). The account could give itself this right, because it updates its own role.
- Argo CD never deletes the ClusterRole of its account and its binding: without them, it cannot delete other objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from generator.config.model.cluster import GitOps
from generator.config.model.policies import AUDIT_POLICY_FILE
from generator.config.model.queues import CONFIGURATION_FILE
from generator.config.model.tenants import RESERVED_NAMESPACES
from generator.config.platform import Platform
from generator.facts.kinds import KINDS, emitted_kinds
from generator.facts.names import (
    ARGOCD_FOLDER,
    CATALOGUE_LABEL,
    FLUX_PRUNE,
    GITOPS_ROLE,
    KEPT,
    SELECTS_REVISION,
    SYNC_OPTIONS,
    SYNC_WAVE,
)
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, string
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

TENANT_KINDS = tuple((row.group, row.kind) for row in KINDS if row.of_tenants)
"""(group, kind) of every cluster-scoped object that the folder of a tenant can have."""

NOT_APPLIED = ("release.json", CONFIGURATION_FILE, AUDIT_POLICY_FILE, f"{ARGOCD_FOLDER}/*")
"""Files of a release that Argo CD ignores: release.json, which is no manifest, and files that an admin applies."""

POLICIES = ("cluster/access/*", "cluster/admission/*", "cluster/isolation/*")
"""Files with the permissions and the policies of a platform. `*` also matches `/`."""

RETRY: Body = {"limit": -1, "refresh": True, "backoff": {"duration": "10s", "factor": 2, "maxDuration": "3m"}}
"""The retries of a sync. `-1`: without a limit. `refresh`: a retry applies the newest commit."""

_TENANTS = "tenants"
_TENANT_FILES = f"{_TENANTS}/*/*"
_CONFIRMED = "argocd.argoproj.io/deletion-approved"
_FINALIZER = "resources-finalizer.argocd.argoproj.io"


def is_applied(file: str) -> bool:
    """Return True if the GitOps engine applies the objects of a file of the release."""
    return file not in NOT_APPLIED and not file.startswith(SELECTS_REVISION)


def find_tenant(file: str) -> str:
    """Return the tenant folder of a file of the release; empty for files of the cluster."""
    folder, _, rest = file.partition("/")
    tenant, _, name = rest.partition("/")
    return tenant if folder == _TENANTS and name else ""


def app_projects(platform: Platform, gitops: GitOps, manifests: Iterable[Manifest]) -> list[Body]:
    """Return the AppProject of the cluster's Applications, and the AppProject of the tenants' Applications.

    Both allow this repository, this cluster, and the cluster-scoped kinds that the Applications can apply. These are
    kinds that mpigen can generate and kinds that an admin added to this release: Argo CD must also prune kinds that
    this release no longer has (argo-cd v3.2.1 controller/sync.go
    appStateManager.SyncAppState: it checks every task, also pruning). For the same reason,
    no AppProject lists the namespaces of this release. Instead, the AppProject of tenants excludes namespaces that no
    tenant can have. Argo CD heeds an excluded namespace only if the entry names the cluster by its server (argo-cd
    v3.2.1 pkg/apis/application/v1alpha1/app_project_types.go AppProject.isDestinationMatched).

    The root Application applies both in a wave before the ApplicationSet, which fails without its AppProject, and is
    tried again after three minutes (argo-cd v3.2.1 applicationset/controllers/applicationset_controller.go).
    """
    applied = [item for item in manifests if is_applied(item.file) and not item.namespace]
    cluster = {(item.group, item.kind) for item in applied if not find_tenant(item.file)}
    tenants = {(item.group, item.kind) for item in applied if find_tenant(item.file)}
    denied = sorted({*RESERVED_NAMESPACES, gitops.reserved_namespace_on(platform.cluster)})
    return [
        _app_project(platform, gitops, "cluster", {*CLUSTER_KINDS, *cluster}, ["*"]),
        _app_project(platform, gitops, _TENANTS, {*TENANT_KINDS, *tenants}, ["*", *(f"!{name}" for name in denied)]),
    ]


def _app_project(
    platform: Platform, gitops: GitOps, part: str, kinds: Iterable[tuple[str, str]], namespaces: Iterable[str]
) -> Body:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {**argocd_metadata(platform, gitops, part), "annotations": {SYNC_WAVE: "-1"}},
        "spec": {
            "description": f"MPI training platform {platform.platform}: {part}",
            "sourceRepos": [gitops.repository],
            "destinations": [{"server": gitops.destination, "namespace": name} for name in namespaces],
            "clusterResourceWhitelist": [{"group": group, "kind": kind} for group, kind in sorted(kinds)],
        },
    }


def argocd_metadata(platform: Platform, gitops: GitOps, part: str) -> Body:
    """Return the name and the namespace of an object of Argo CD."""
    return {"name": f"{platform.platform}-{part}", "namespace": gitops.namespace_on(platform.cluster)}


def subscriptions(gitops: GitOps) -> Body:
    """Return metadata with the annotations that subscribe an Application to notifications; empty without any.

    Source: notifications-engine v0.4.1-0.20250908182349-da04400446ff pkg/subscriptions/annotations.go
    """
    if not gitops.notifications:
        return {}
    return {
        "annotations": {
            f"notifications.argoproj.io/subscribe.{entry.trigger}.{entry.service}": ";".join(entry.recipients)
            for entry in gitops.notifications
        }
    }


def applications(platform: Platform, gitops: GitOps) -> list[Body]:
    """Return the Application of permissions and policies, and the Application of the cluster's other objects.

    Argo CD starts no sync of an Application while another sync of the Application waits for the confirmation of a
    deletion (argo-cd v3.2.1 controller/appcontroller.go ApplicationController.autoSync). So permissions and policies
    have their own
    Application, which has no object to confirm.

    Neither Application applies its own manifest, because the manifest at a tag names the tag of an earlier release. The
    root Application applies both (bootstrap.py).
    """
    rest = {"exclude": f"{{{','.join((*NOT_APPLIED, *POLICIES, _TENANT_FILES))}}}"}
    return [
        _application(platform, gitops, "policies", {"include": f"{{{','.join(POLICIES)}}}"}),
        _application(platform, gitops, "cluster", rest),
    ]


def _application(platform: Platform, gitops: GitOps, part: str, files: Body) -> Body:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {**argocd_metadata(platform, gitops, part), **subscriptions(gitops)},
        "spec": _spec(gitops, f"{platform.platform}-cluster", f"{gitops.path}/{platform.platform}", files),
    }


def _spec(gitops: GitOps, project: str, path: str, files: Body) -> Body:
    """Return the `spec` of an Application. Its `targetRevision` is a branch to follow, or the tag of a release.

    - `files`: one pattern for a file's path below `path`, in which `*` matches `/` too (argo-cd v3.2.1
      reposerver/repository/repository.go getPotentiallyValidManifestFile, gobwas/glob without separators).
    - `SkipDryRunOnMissingResource`: without it, one absent kind prevents the whole sync (gitops-engine 13d5172
      pkg/sync/sync_context.go getSyncTasks).
    - `retry`: by default, Argo CD tries a commit 5 times, and then no more (argo-cd v3.2.1 controller/appcontroller.go
    ApplicationController.autoSync). `refresh` replaces the commit by the newest one.
    """
    return {
        "project": project,
        "source": {
            "repoURL": gitops.repository,
            "targetRevision": gitops.revision,
            "path": path,
            "directory": {"recurse": True, **files},
        },
        "destination": {"server": gitops.destination},
        "syncPolicy": {
            "automated": {"prune": True, "selfHeal": True},
            "syncOptions": ["ServerSideApply=true", "SkipDryRunOnMissingResource=true"],
            "retry": RETRY,
        },
    }


def application_set(platform: Platform, gitops: GitOps) -> Body:
    """Return the ApplicationSet, which creates an Application for each folder of a tenant.

    If the folder of a tenant is removed, Argo CD deletes its Application and, because of the finalizer, all objects of
    the tenant. `preservedFields` keeps the annotation with which a user confirms deletions (argo-cd v3.2.1
    applicationset/controllers/applicationset_controller.go ApplicationSetReconciler.createOrUpdateInCluster).
    """
    folder = f"{gitops.path}/{platform.platform}/{_TENANTS}"
    name = f"{platform.platform}.{{{{.path.basenameNormalized}}}}"
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": argocd_metadata(platform, gitops, _TENANTS),
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [
                {
                    "git": {
                        "repoURL": gitops.repository,
                        "revision": gitops.revision,
                        "directories": [{"path": f"{folder}/*"}],
                    }
                }
            ],
            "preservedFields": {"annotations": [_CONFIRMED]},
            "template": {
                "metadata": {"name": name, **subscriptions(gitops), "finalizers": [_FINALIZER]},
                "spec": _spec(gitops, f"{platform.platform}-{_TENANTS}", "{{.path.path}}", {}),
            },
        },
    }


def application_manifests(platform: Platform, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the objects of Argo CD for a release; empty if Argo CD is not the GitOps engine."""
    gitops = platform.gitops
    if gitops is None or gitops.is_flux:
        return []
    return [
        *(Manifest(body, f"{ARGOCD_FOLDER}/project.yaml") for body in app_projects(platform, gitops, manifests)),
        *(Manifest(body, f"{ARGOCD_FOLDER}/application.yaml") for body in applications(platform, gitops)),
        Manifest(application_set(platform, gitops), f"{ARGOCD_FOLDER}/tenants.yaml"),
    ]


_ACCOUNT_FILE = "cluster/access/gitops.yaml"
_ROLES = {"ClusterRole": "clusterroles", "Role": "roles"}


def account_role(platform: Platform, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the ClusterRole of the engine's account and its binding; empty without `gitops`, or if `grant` is false.

    For Flux, the ServiceAccount is the first object, and the ClusterRole also lets the account write Kustomizations if
    Flux runs in the cluster of the platform.

    Raises:
        EngineError: the bundled schemas are missing.
    """
    if platform.gitops is None or not platform.gitops.grant:
        return []
    catalog = Catalog.bundled(platform.cluster.versions.model_dump())
    account, is_flux = platform.gitops.account_on(platform.cluster), platform.gitops.is_flux
    binding = _kept(cluster_role_binding(GITOPS_ROLE, GITOPS_ROLE, [account]), is_flux=is_flux)
    unwritten = Manifest(cluster_role(GITOPS_ROLE, []), _ACCOUNT_FILE)
    applied = [manifest for manifest in manifests if is_applied(manifest.file)]
    rules = account_rules([*applied, unwritten, binding], catalog, platform.features)
    if not is_flux:
        return [_kept(cluster_role(GITOPS_ROLE, rules)), binding]
    if not platform.gitops.is_remote:
        rules.append(policy_rule("kustomize.toolkit.fluxcd.io", ["kustomizations"], [*READ, *WRITE]))
    namespace, _, name = account.partition(":")[2].partition("/")
    user: Body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    return [_kept(user, is_flux=True), _kept(cluster_role(GITOPS_ROLE, rules), is_flux=True), binding]


def _kept(body: Body, *, is_flux: bool = False) -> Manifest:
    """Return an object of the engine's account, which the engine never deletes."""
    annotations = {FLUX_PRUNE: "disabled"} if is_flux else {SYNC_OPTIONS: KEPT}
    return Manifest({**body, "metadata": {**body["metadata"], "annotations": annotations}}, _ACCOUNT_FILE)


def account_rules(manifests: Iterable[Manifest], catalog: Catalog, features: Collection[str] = ()) -> list[Body]:
    """Return the RBAC rules that an account needs to apply these manifests and to delete all kinds of a platform.

    Args:
        manifests: the manifests.
        catalog: the schemas of their kinds.
        features: the optional features of the platform. Earlier releases can have the kinds of these features.
    """
    manifests = list(manifests)
    defined = {manifest.kind for manifest in manifests}
    bound = {kind: {name for manifest in manifests for name in _bound_role(manifest, kind)} for kind in _ROLES}
    return [
        *rules_for_kinds([*READ, *WRITE], features),
        *_rules_for_added_kinds([item for item in manifests if not _is_catalogue(item)], catalog, features),
        *_rules_for_catalogues(filter(_is_catalogue, manifests)),
        *(policy_rule(RBAC, [resource], ["escalate"]) for kind, resource in _ROLES.items() if kind in defined),
        *(policy_rule(RBAC, [_ROLES[kind]], ["bind"], sorted(names)) for kind, names in bound.items() if names),
    ]


def _rules_for_added_kinds(manifests: Sequence[Manifest], catalog: Catalog, features: Collection[str]) -> list[Body]:
    """Return RBAC rules for the kinds that admins add, if the catalogue or a manifest defines the kind."""
    known = {(row.group, row.kind) for row in emitted_kinds(features)}
    defined = {names: plural for manifest in manifests for names, plural in _defined_kind(manifest)}
    others: dict[str, set[str]] = {}
    for manifest in manifests:
        entry, names = catalog.entries.get((manifest.api_version, manifest.kind)), (manifest.group, manifest.kind)
        plural = entry.plural if entry else defined.get(names, "")
        if plural and names not in known:
            others.setdefault(manifest.group, set()).add(plural)
    return [policy_rule(group, sorted(resources), [*READ, *WRITE]) for group, resources in sorted(others.items())]


def _is_catalogue(manifest: Manifest) -> bool:
    return manifest.kind == "ConfigMap" and CATALOGUE_LABEL in manifest.labels


def _rules_for_catalogues(manifests: Iterable[Manifest]) -> Iterator[Body]:
    """Yield RBAC rules for the ConfigMaps of the catalogue, without the right to change other ConfigMaps.

    RBAC cannot limit `create` by name, and Argo CD lists and watches all objects of a kind.
    """
    if names := sorted({manifest.name for manifest in manifests}):
        yield policy_rule("", ["configmaps"], ["create", "list", "watch"])
        yield policy_rule("", ["configmaps"], ["get", "update", "patch", "delete"], names)


def _defined_kind(manifest: Manifest) -> Iterable[tuple[tuple[str, str], str]]:
    """Yield (group, kind) and plural name of the kind that a CustomResourceDefinition defines."""
    if manifest.kind == "CustomResourceDefinition":
        spec = mapping(manifest.body, "spec")
        names = mapping(spec, "names")
        yield (string(spec.get("group")), string(names.get("kind"))), string(names.get("plural"))


def _bound_role(manifest: Manifest, kind: str) -> Iterable[str]:
    reference = manifest.body.get("roleRef")
    if isinstance(reference, dict) and reference.get("kind") == kind:
        yield str(reference.get("name"))
