"""Test that a running Flux applies releases as the documentation describes, with the rights of its account.

The tests run in the order of this file, on one cluster: each test continues where the test before ended. They play
source-controller (tests/cluster/flux.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from generator import Platform, pipeline
from generator.facts.names import FLUX_PLATFORM, FLUX_PRUNE, FLUX_SOURCE, GITOPS_ROLE
from generator.gitops.argocd import find_tenant, is_applied
from generator.manifests import Manifest
from tests.cluster import flux, trees
from tests.cluster.argocd import Repository
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.controllers import kubeconfig
from tests.cluster.flux import Flux, flux_object
from tests.cluster.nodes import add_nodes
from tests.cluster.training import Training, pods_of, start
from tests.cluster.trees import Deployed
from tests.conftest import EXAMPLES

pytestmark = pytest.mark.cluster

NAME = "flux-kubernetes"
PLATFORM = EXAMPLES[NAME].read_text("utf-8")


@dataclass(slots=True)
class Site:
    """A cluster whose Flux follows a repository with one platform.

    Attributes:
        flux: Flux.
        platform: the platform of the newest release.
        tree: the manifests of the newest release.
        revision: the newest revision.
    """

    flux: Flux
    platform: Platform
    tree: list[Manifest]
    revision: str = ""

    @property
    def admin(self) -> Client:
        """Return a client that may do everything."""
        return self.flux.admin

    @property
    def file(self) -> Path:
        """Return the platform file."""
        return self.flux.repository.folder / "platform.yaml"

    @property
    def names(self) -> set[str]:
        """Return the names of the Kustomizations that the newest release has."""
        return {item.name for item in self.tree if item.kind == "Kustomization"}

    @property
    def applied(self) -> list[Manifest]:
        """Return the objects that Flux applies."""
        return [item for item in self.tree if is_applied(item.file)]

    def write(self, text: str) -> None:
        """Render a platform file, and commit the file and the release."""
        self.file.write_text(text)
        self.read()
        assert self.platform.gitops
        output = self.flux.repository.folder / self.platform.gitops.path
        done = pipeline.synth(self.file, output, pipeline.Choices())
        assert all(release.written for release in done.releases), done.outcome.findings
        self.flux.repository.commit(self.platform.release)

    def read(self) -> None:
        """Render the platform file in the repository."""
        self.platform, app = pipeline.load(self.file)
        self.tree = pipeline.render(self.platform, app)

    def publish(self, text: str) -> None:
        """Commit a platform file and its release, and let Flux apply the commit."""
        self.write(text)
        self.revision = self.flux.refresh()

    def of_tenant(self, tenant: str) -> list[Manifest]:
        """Return the objects of a tenant."""
        return [item for item in self.tree if find_tenant(item.file) == tenant]


@pytest.fixture(scope="module")
def site(
    admin: Client, cluster: Cluster, on_the_cluster: list[Deployed], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Return a cluster without a release, to which the first test applies the objects of an admin."""
    trees.remove_all(admin, on_the_cluster)
    repository = Repository(tmp_path_factory.mktemp("git"))
    repository.start()
    (repository.folder / "platform.yaml").write_text(PLATFORM)
    platform, app = pipeline.load(repository.folder / "platform.yaml")
    for body in trees.prerequisites(platform):
        admin.apply(body, "tests")
    nodes = add_nodes(admin, platform)
    with flux.running(cluster, repository) as started:
        followed = Site(started, platform, pipeline.render(platform, app))
        followed.write(PLATFORM)
        yield followed
        started.end()
        for name in started.kustomizations():
            delete_without_finalizer(admin, name)
        for kind in ("GitRepository", "OCIRepository"):
            admin.delete(flux_object(kind, NAME))
    trees.remove_all(admin, on_the_cluster)
    for node in nodes:
        admin.delete(node)


def delete_without_finalizer(admin: Client, name: str) -> None:
    """Delete a Kustomization and keep its objects."""
    body = flux_object("Kustomization", name)
    admin.delete(body)
    if admin.exists(body):
        patch = {"metadata": {"finalizers": None}}
        admin.request("PATCH", admin.path_of(body), patch, "application/merge-patch+json")


@pytest.fixture(scope="module")
def jobs(site: Site, admin: Client) -> dict[str, Training]:
    """Return tenant → a TrainJob whose pods run, of two tenants that no test removes."""
    return start(admin, site.platform, ("aero", "chem"), "openmpi")


def versions_of(admin: Client, items: list[Manifest]) -> dict[str, str]:
    """Return the resource version of each stored object that no controller writes to."""
    stored = {item.resource: admin.read(item.body) for item in items if item.kind != "Kustomization"}
    return {name: body["metadata"]["resourceVersion"] for name, body in stored.items() if "status" not in body}


def created(body: Body) -> str:
    """Return the time at which an object was created."""
    return str(body["metadata"]["creationTimestamp"])


def has_view(admin: Client, namespace: str, group: str) -> bool:
    """Return True if a group may view the TrainJobs of a namespace."""
    items = admin.items("rbac.authorization.k8s.io/v1", "RoleBinding", namespace)
    return any(subject["name"] == group for item in items for subject in item.get("subjects", []))


def test_an_empty_cluster_gets_all_objects(site: Site) -> None:
    """An admin applies the account, the GitRepository and the Kustomization of the platform of an example."""
    for item in site.tree:
        if item.file in ("cluster/access/gitops.yaml", FLUX_SOURCE, FLUX_PLATFORM):
            site.admin.apply(item.body, "tests")
    site.revision = site.flux.refresh()
    site.flux.wait_until_ready(site.revision, site.names)
    assert [item.resource for item in site.applied if not site.admin.exists(item.body)] == []


def test_users_get_rights_only_after_the_policies_exist(site: Site) -> None:
    def newest(*kinds: str) -> list[str]:
        items = [item for item in site.tree if item.kind in kinds and item.name != GITOPS_ROLE]
        return sorted(created(site.admin.read(item.body)) for item in items)

    policies = newest("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert policies[-1] <= newest("ClusterRole")[0]
    assert newest("ClusterRole")[-1] <= newest("RoleBinding")[0]


def test_flux_writes_nothing_without_a_change(site: Site) -> None:
    before = versions_of(site.admin, site.applied)
    for name in (f"{NAME}-admission", f"{NAME}-access", f"{NAME}-queues", f"{NAME}.chem"):
        handled = site.flux.kustomizations()[name].status.get("lastHandledReconcileAt")
        site.flux.reconcile(name)
        site.flux.wait_for(
            lambda found, name=name, handled=handled: (  # type: ignore[misc]
                found[name].status.get("lastHandledReconcileAt") != handled and found[name].has_applied(site.revision)
            )
        )
    assert versions_of(site.admin, site.applied) == before


def test_flux_restores_a_changed_field(site: Site) -> None:
    admin = site.admin
    quota = next(item for item in site.tree if item.kind == "ResourceQuota" and item.namespace == "chem")
    before = admin.read(quota.body)["spec"]
    changed = {"spec": {"hard": dict.fromkeys(before["hard"], "9999")}}
    admin.request("PATCH", admin.path_of(quota.body), changed, "application/merge-patch+json")
    site.flux.reconcile(f"{NAME}.chem")
    wait_until("Flux restores the quota", lambda: admin.read(quota.body)["spec"] == before)


def test_a_team_leaves_while_a_change_of_another_team_goes_through(site: Site, jobs: dict[str, Training]) -> None:
    admin, running = site.admin, pods_of(site.admin, jobs)
    leaving = site.of_tenant("astro")
    text = site.file.read_text().replace("release: 1.0.0", "release: 1.1.0")
    text = re.sub(r"  - name: astro\n(?:    .*\n)+", "", text)
    text += "removed: {astro: {reason: the project ended, until: 2099-12-31, unretired: true}}\n"
    site.publish(text.replace("edit: [group:aero-researchers]", "edit: [group:aero-researchers], view: [group:press]"))
    site.flux.wait_until_ready(site.revision, site.names)
    assert f"{NAME}.astro" not in site.names
    assert has_view(admin, "aero", "press")
    assert [item.resource for item in leaving if not admin.exists(item.body)] == []
    assert pods_of(admin, jobs) == running


def test_a_removed_runtime_stays_and_other_objects_are_pruned(site: Site, jobs: dict[str, Training]) -> None:
    admin, running = site.admin, pods_of(site.admin, jobs)
    (runtime,) = [item for item in site.tree if item.name == "horovod"]
    assert runtime.body["metadata"]["annotations"][FLUX_PRUNE] == "disabled"
    (labels,) = [item for item in with_labels(site) if item.kind == "ValidatingAdmissionPolicy"]
    assert admin.exists(labels.body)
    text = site.file.read_text().replace("release: 1.2.0", "release: 1.3.0").replace(LABELS, "")
    text = text.replace(
        "  - {name: horovod, use: horovod-pytorch, pool: cpu, image: registry.example.com/mpi/horovod-pytorch:cpu}\n",
        "",
    )
    site.publish(text.replace(", view: [group:press]", ""))
    site.flux.wait_until_ready(site.revision, site.names)
    assert admin.exists(runtime.body)
    assert not admin.exists(labels.body)
    assert not has_view(admin, "aero", "press")
    assert pods_of(admin, jobs) == running


LABELS = "policies: {labels: [project]}\n"


def with_labels(site: Site) -> list[Manifest]:
    """Publish a release with the admission rule `labels`, and return its objects."""
    site.publish(site.file.read_text().replace("release: 1.1.0", "release: 1.2.0") + LABELS)
    site.flux.wait_until_ready(site.revision, site.names)
    return [item for item in site.tree if item.file == "cluster/admission/labels.yaml"]


def test_a_rejected_object_holds_up_only_its_team(site: Site) -> None:
    repository = site.flux.repository
    assert site.platform.gitops
    folder = repository.folder / site.platform.gitops.path / NAME / "tenants"
    (folder / "chem" / "wrong.yaml").write_text(
        "apiVersion: v1\nkind: LimitRange\nmetadata: {name: wrong, namespace: chem}\nspec: {limits: 3}\n"
    )
    binding = next(item for item in site.of_tenant("aero") if item.kind == "RoleBinding")
    (folder / "aero" / "more.yaml").write_text(
        yaml.safe_dump({**binding.body, "metadata": {"name": "more", "namespace": "aero"}})
    )
    repository.commit("by hand")
    revision = site.flux.refresh()
    others = site.names - {f"{NAME}.chem"}
    site.flux.wait_for(
        lambda found: (
            all(found[name].has_applied(revision) for name in others)
            and found[f"{NAME}.chem"].ready.get("reason") == "ReconciliationFailed"
        )
    )
    repository.git("revert", "--no-edit", "HEAD")
    site.revision = site.flux.refresh()
    site.flux.wait_until_ready(site.revision, site.names)
    with pytest.raises(RefusedError):
        site.admin.read({**binding.body, "metadata": {"name": "more", "namespace": "aero"}})


def test_a_revert_restores_the_old_release(site: Site, jobs: dict[str, Training]) -> None:
    admin, running = site.admin, pods_of(site.admin, jobs)
    astro = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "astro"}}
    before = admin.read(astro)["metadata"]["uid"]
    repository = site.flux.repository
    repository.git("revert", "--no-edit", "HEAD~5..HEAD")
    site.read()
    assert site.platform.release == "1.0.0"
    site.revision = site.flux.refresh()
    site.flux.wait_until_ready(site.revision, site.names)
    assert [item.resource for item in site.applied if not admin.exists(item.body)] == []
    assert admin.read(astro)["metadata"]["uid"] == before
    assert pods_of(admin, jobs) == running


def test_a_platform_moves_to_a_registry(site: Site, jobs: dict[str, Training]) -> None:
    """An admin applies the OCIRepository and the Kustomization of the platform, and deletes the GitRepository."""
    admin, running = site.admin, pods_of(site.admin, jobs)
    before = versions_of(admin, site.of_tenant("chem"))
    registry = "oci://registry.example.com/clusters, revision: 1.4.0"
    text = site.file.read_text().replace("release: 1.0.0", "release: 1.4.0")
    site.write(text.replace("https://git.example.com/platform.git", registry))
    for item in site.tree:
        if item.file in (FLUX_SOURCE, FLUX_PLATFORM):
            admin.apply(item.body, "tests")
    site.revision = site.flux.refresh()
    assert site.revision.startswith("1.4.0@sha256:")
    site.flux.wait_until_ready(site.revision, site.names)
    admin.delete(flux_object("GitRepository", NAME))
    site.flux.reconcile(f"{NAME}.chem")
    site.flux.wait_until_ready(site.revision, site.names)
    assert [item.resource for item in site.applied if not admin.exists(item.body)] == []
    assert versions_of(admin, site.of_tenant("chem")) == before
    assert pods_of(admin, jobs) == running


HUB = "flux-hub"
"""The account in the cluster of the platform with which Flux of another cluster connects."""


@pytest.fixture
def kubeconfig_secret(site: Site) -> Iterator[Body]:
    """Return the Secret of the page deliver-with-flux.md, after the steps of an admin in both clusters.

    Both clusters are the control plane of the tests.
    """
    admin, metadata = site.admin, {"name": HUB, "namespace": flux.NAMESPACE}
    impersonation = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}
    user: Body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    objects = [
        user,
        *role(HUB, HUB, {**impersonation, "resourceNames": [GITOPS_ROLE]}),
        *role("writes-kustomizations", GITOPS_ROLE, WRITES_KUSTOMIZATIONS),
    ]
    for body in objects:
        admin.apply(body, "tests")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = admin.request("POST", f"{admin.path_of(user)}/token", request)
    text = kubeconfig(admin.port, site.flux.cluster.certificates, answer.body["status"]["token"])
    secret: Body = {"apiVersion": "v1", "kind": "Secret", "metadata": {**metadata, "name": "eu"}}
    yield {**secret, "stringData": {"value": text}}
    for body in (secret, *objects):
        admin.delete(body)


WRITES_KUSTOMIZATIONS = {
    "apiGroups": ["kustomize.toolkit.fluxcd.io"],
    "resources": ["kustomizations"],
    "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
}


def role(name: str, account: str, rule: Body) -> tuple[Body, Body]:
    """Return a Role in the namespace of Flux, and its binding to an account."""
    metadata, group = {"name": name, "namespace": flux.NAMESPACE}, "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": flux.NAMESPACE}
    reference = {"apiGroup": group, "kind": "Role", "name": name}
    return (
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [subject],
        },
    )


def test_a_platform_moves_to_the_cluster_of_a_kubeconfig(
    site: Site, jobs: dict[str, Training], kubeconfig_secret: Body
) -> None:
    """Flux applies nothing without the Secret, and with its kubeconfig afterwards."""
    admin, running = site.admin, pods_of(site.admin, jobs)
    text = site.file.read_text().replace("1.4.0", "1.5.0").replace("grant: true", "grant: true, kubeConfig: eu")
    site.write(text.replace("edit: [group:aero-researchers]", "edit: [group:aero-researchers], view: [group:press]"))
    admin.apply(next(item.body for item in site.tree if item.file == FLUX_SOURCE), "tests")
    site.revision = site.flux.refresh()
    without = f"unable to read KubeConfig secret '{flux.NAMESPACE}/eu'"
    first = f"{NAME}-admission"
    site.flux.wait_for(lambda found: without in found[first].ready.get("message", ""))
    assert not has_view(admin, "aero", "press")
    admin.apply(kubeconfig_secret, "tests")
    for name in sorted(site.names - {NAME}):
        site.flux.reconcile(name)
    site.flux.wait_until_ready(site.revision, site.names)
    assert has_view(admin, "aero", "press")
    (granted,) = [item for item in site.tree if (item.kind, item.name) == ("ClusterRole", GITOPS_ROLE)]
    assert "kustomizations" not in str(admin.read(granted.body)["rules"])
    assert pods_of(admin, jobs) == running


def test_the_deletion_of_the_platform_keeps_its_objects(site: Site, jobs: dict[str, Training]) -> None:
    admin = site.admin
    for training in jobs.values():
        admin.delete(training.body)
        wait_until("the job is gone", partial(trees.is_gone, admin, training.body))
    body = flux_object("Kustomization", NAME)
    admin.delete(body)
    wait_until("the Kustomization of the platform is gone", partial(trees.is_gone, admin, body))
    assert set(site.flux.kustomizations()) == site.names - {NAME}
    tenants = {item.name for item in site.tree if item.file.endswith("kustomizations/tenants.yaml")}
    for name in tenants:
        admin.delete(flux_object("Kustomization", name))
    site.flux.wait_for(lambda found: not tenants & set(found))
    objects = [item for item in site.applied if find_tenant(item.file)]
    assert [item.resource for item in objects if not admin.exists(item.body)] == []
