"""Test the Applications of a release: each object has one, and its AppProject permits the object."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from generator import App, Platform, pipeline
from generator.config.model.cluster import IN_CLUSTER
from generator.config.model.tenants import RESERVED_NAMESPACES
from generator.errors import ConfigError
from generator.facts.kinds import KINDS
from generator.facts.names import CATALOGUE_LABEL, CONFIRMED_DELETION, GITOPS_ROLE, LAST_DELETION, SYNC_OPTIONS
from generator.gitops.argocd import application_set, applications, find_tenant, is_applied
from generator.manifests import Body, Manifest
from tests.conftest import EXAMPLES, WITH_ARGOCD, small_platform

UNIVERSITY = "university"


@pytest.fixture(params=WITH_ARGOCD)
def example(request: pytest.FixtureRequest) -> Path:
    """Return the platform file of each example that Argo CD applies."""
    return EXAMPLES[request.param]


def rendered(example: Path) -> list[Manifest]:
    platform, app = pipeline.load(example)
    return pipeline.render(platform, app)


def permits(project: Body, manifest: Manifest) -> bool:
    """Return True if a project permits an object (argo-cd v3.2.1 controller/sync.go appStateManager.SyncAppState)."""
    spec = project["spec"]
    if not manifest.namespace:
        return {"group": manifest.group, "kind": manifest.kind} in spec["clusterResourceWhitelist"]
    names = [entry["namespace"] for entry in spec["destinations"]]
    denied = [name[1:] for name in names if name.startswith("!")]
    return "*" in names and not any(fnmatchcase(manifest.namespace, name) for name in denied)


def test_the_project_of_its_application_permits_every_object(example: Path) -> None:
    tree = rendered(example)
    cluster, tenants = (item.body for item in tree if item.file == "argocd/project.yaml")
    for item in tree:
        if is_applied(item.file):
            assert permits(tenants if find_tenant(item.file) else cluster, item), (item.kind, item.name)


def test_the_project_of_tenants_permits_no_policy_and_no_namespace_of_the_cluster() -> None:
    _, tenants = (item.body for item in rendered(EXAMPLES[UNIVERSITY]) if item.file == "argocd/project.yaml")
    kinds = {entry["kind"] for entry in tenants["spec"]["clusterResourceWhitelist"]}
    assert kinds == {"AdminNetworkPolicy", "ClusterQueue", "ClusterRoleBinding", "Namespace"}
    denied = {entry["namespace"] for entry in tenants["spec"]["destinations"]} - {"*"}
    assert denied == {f"!{name}" for name in RESERVED_NAMESPACES}


def test_policies_have_no_object_that_waits_for_a_confirmation(example: Path) -> None:
    for item in rendered(example):
        if item.file.startswith(("cluster/access/", "cluster/admission/", "cluster/isolation/")):
            options = item.body["metadata"].get("annotations", {}).get(SYNC_OPTIONS, "")
            assert "confirm" not in options, item.name


def test_an_object_that_protects_a_namespace_is_deleted_with_the_namespace(example: Path) -> None:
    """Argo CD prunes objects without `PruneLast` while the namespace still waits for its confirmation."""
    kinds = {"LimitRange", "Namespace", "NetworkPolicy", "ResourceQuota", "RoleBinding"}
    found = [item for item in rendered(example) if item.kind in kinds and CATALOGUE_LABEL not in item.labels]
    options = {item.kind: item.body["metadata"]["annotations"].get(SYNC_OPTIONS) for item in found}
    last = dict.fromkeys(("LimitRange", "NetworkPolicy", "ResourceQuota"), LAST_DELETION)
    assert options == {**last, "Namespace": CONFIRMED_DELETION, "RoleBinding": None}


@pytest.mark.parametrize("row", [row for row in KINDS if row.of_tenants], ids=lambda row: row.kind)
def test_kinds_of_tenants_are_cluster_scoped(row: object) -> None:
    assert not row.namespaced  # type: ignore[attr-defined]


def test_all_applications_follow_the_same_revision(platform: Platform) -> None:
    assert platform.gitops
    gitops = platform.gitops.model_copy(update={"revision": "small/1.0.0"})
    specs = [body["spec"] for body in applications(platform, gitops)]
    tenants = application_set(platform, gitops)["spec"]
    specs.append(tenants["template"]["spec"])
    assert [spec["source"]["targetRevision"] for spec in specs] == ["small/1.0.0"] * 3
    assert [each["git"]["revision"] for each in tenants["generators"]] == ["small/1.0.0"]


REMOTE = "https://prod-eu.example.com:6443"


@pytest.mark.parametrize("account", ["", "serviceaccount:deploy/argo"], ids=["default", "declared"])
def test_a_release_for_another_cluster_names_its_server_and_its_account(platform: Platform, account: str) -> None:
    assert platform.gitops
    update = {"destination": REMOTE, "grant": True, "service_account": account or None}
    remote = platform.model_copy(update={"gitops": platform.gitops.model_copy(update=update)})
    tree = pipeline.render(remote, App(remote))
    cluster, tenants = (item.body["spec"]["destinations"] for item in tree if item.file == "argocd/project.yaml")
    assert {entry["server"] for entry in (*cluster, *tenants)} == {REMOTE}
    assert {"server": REMOTE, "namespace": f"!{'deploy' if account else 'kube-system'}"} in tenants
    specs = [item.body["spec"] for item in tree if item.file == "argocd/application.yaml"]
    specs += [item.body["spec"]["template"]["spec"] for item in tree if item.kind == "ApplicationSet"]
    assert [spec["destination"] for spec in specs] == [{"server": REMOTE}] * 3
    (binding,) = [item for item in tree if item.name == GITOPS_ROLE and item.kind == "ClusterRoleBinding"]
    namespace, name = ("deploy", "argo") if account else ("kube-system", "argocd-manager")
    assert binding.body["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    assert {item.namespace for item in tree if item.file.startswith("argocd/")} == {"argocd"}


def test_the_account_for_another_cluster_with_openshift_is_known() -> None:
    """The name of the Argo CD instance is unknown, but the instance runs in another cluster."""
    data = {**small_platform(), "cluster": {"distribution": "openshift"}}
    data["gitops"] = {"repository": "https://git.example.com/platform.git", "namespace": "hub", "destination": REMOTE}
    remote = Platform.model_validate(data)
    assert remote.gitops
    assert remote.gitops.account_on(remote.cluster) == "serviceaccount:kube-system/argocd-manager"
    with pytest.raises(ConfigError, match="which mpigen does not know"):
        Platform.model_validate({**data, "gitops": {**data["gitops"], "destination": IN_CLUSTER}})


def test_every_application_subscribes_to_notifications() -> None:
    failed = {"trigger": "on-sync-failed", "service": "slack", "recipients": ["sre", "mpi"]}
    webhook = {"trigger": "on-deployed", "service": "audit"}
    gitops = {"repository": "https://git.example.com/platform.git", "notifications": [failed, webhook]}
    platform = Platform.model_validate({**small_platform(), "gitops": gitops})
    tree = pipeline.render(platform, App(platform))
    found = [item.body["metadata"] for item in tree if item.kind == "Application"]
    found += [item.body["spec"]["template"]["metadata"] for item in tree if item.kind == "ApplicationSet"]
    assert len(found) == 4
    for metadata in found:
        annotations = {key: value for key, value in metadata["annotations"].items() if key.startswith("notifications")}
        assert annotations == {
            "notifications.argoproj.io/subscribe.on-deployed.audit": "",
            "notifications.argoproj.io/subscribe.on-sync-failed.slack": "mpi;sre",
        }
