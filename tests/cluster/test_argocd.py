"""Test that a running Argo CD applies releases as pages of the documentation describe, with the rights of its account.

The tests of one example run in the order of this file, on one cluster: each test continues where the test before ended.
`MPIGEN_QUIET=120` lets Argo CD run for 120 seconds without a change, in place of 30.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from generator import Platform, pipeline
from generator.facts.names import GITOPS_ROLE
from generator.manifests import Manifest
from tests.cluster import argocd, trees
from tests.cluster.argocd import API_VERSION, NAMESPACE, Application, ArgoCD
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.nodes import add_nodes
from tests.cluster.training import Training, trainings
from tests.cluster.trees import Deployed
from tests.conftest import EXAMPLES

pytestmark = pytest.mark.cluster
QUIET = float(os.environ.get("MPIGEN_QUIET", "30"))
"""Seconds without a change in which Argo CD must start no operation."""


@dataclass(slots=True)
class Site:
    """A cluster whose Argo CD follows a repository with one platform.

    Attributes:
        argo: Argo CD.
        platform: the platform of the newest release.
        tree: the manifests of the newest release.
        commit: the commit of the newest release.
    """

    argo: ArgoCD
    platform: Platform
    tree: list[Manifest]
    commit: str = ""

    @property
    def file(self) -> Path:
        """Return the platform file."""
        return self.argo.repository.folder / "platform.yaml"

    @property
    def folder(self) -> Path:
        """Return the folder of the release."""
        assert self.platform.gitops
        return self.argo.repository.folder / self.platform.gitops.path / self.platform.platform

    @property
    def names(self) -> set[str]:
        """Return the names of the Applications that the newest release has."""
        name = self.platform.platform
        tenants = {f"{name}.{tenant.name}" for tenant in self.platform.tenants}
        return {f"{name}-policies", f"{name}-cluster", *tenants}

    def publish(self, text: str) -> None:
        """Render a platform file, and commit the file and the release."""
        self.file.write_text(text)
        self.platform, app = pipeline.load(self.file)
        assert self.platform.gitops
        self.tree = pipeline.render(self.platform, app)
        output = self.argo.repository.folder / self.platform.gitops.path
        done = pipeline.synth(self.file, output, pipeline.Choices())
        assert all(release.written for release in done.releases), done.outcome.findings
        self.commit = self.argo.repository.commit(self.platform.release)

    def apply_applications(self) -> None:
        """Apply the folder `argocd/`, as an admin does once."""
        for file in sorted((self.folder / "argocd").glob("*.yaml")):
            for body in yaml.safe_load_all(file.read_text()):
                self.argo.admin.apply(body, "tests")

    def stored(self, kind: str) -> list[Body]:
        """Return the stored objects of a kind that the newest release has."""
        return [self.argo.admin.read(item.body) for item in self.tree if item.kind == kind]


def site(admin: Client, cluster: Cluster, name: str, folder: Path) -> Iterator[Site]:
    """Start Argo CD for an example without a release, and delete the nodes and namespaces of the example afterwards."""
    gitops = f"repository: file://{folder}\n  grant: true"
    text = re.sub(r"repository: [^,}\n]*", gitops, EXAMPLES[name].read_text())
    folder.mkdir()
    (folder / "platform.yaml").write_text(text)
    platform, app = pipeline.load(folder / "platform.yaml")
    tree = pipeline.render(platform, app)
    for body in trees.prerequisites(platform):
        admin.apply(body, "tests")
    nodes = add_nodes(admin, platform)
    for item in tree:
        if item.file == "cluster/access/gitops.yaml":
            admin.apply(item.body, "tests")
    with argocd.running(cluster, folder) as argo:
        started = Site(argo, platform, tree)
        started.publish(text)
        yield started
    for node in nodes:
        admin.delete(node)


@pytest.fixture(scope="module")
def university(
    admin: Client, cluster: Cluster, on_the_cluster: list[Deployed], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Return a cluster of the example `university`, to which the first test applies the Applications."""
    trees.remove_all(admin, on_the_cluster)
    yield from site(admin, cluster, "university", tmp_path_factory.mktemp("git") / "repository")


@pytest.fixture(scope="module")
def jobs(university: Site, admin: Client) -> dict[str, Training]:
    """Return tenant → a TrainJob whose pods run, of two tenants that no test removes."""
    submitted = {}
    for training in trainings(university.platform):
        if training.tenant.name in ("aero", "maths") and training.runtime.name == "openmpi-cpu":
            training.submit(admin)
            submitted[training.tenant.name] = training
    for training in submitted.values():
        wait_until(f"{training.key} runs", partial(runs, admin, training))
    return submitted


def runs(admin: Client, training: Training) -> bool:
    """Return True if all pods of a TrainJob run."""
    pods = training.pods(admin)
    return len(pods) == training.pod_count and all(pod["status"].get("phase") == "Running" for pod in pods)


def pods_of(admin: Client, jobs: dict[str, Training]) -> set[tuple[str, str]]:
    """Return the UID and the phase of each pod of some TrainJobs."""
    return {(pod["metadata"]["uid"], pod["status"]["phase"]) for job in jobs.values() for pod in job.pods(admin)}


def created(body: Body) -> str:
    """Return the time at which an object was created."""
    return str(body["metadata"]["creationTimestamp"])


def test_an_empty_cluster_becomes_synced_and_healthy(university: Site) -> None:
    university.apply_applications()
    university.argo.wait_until_synced(university.commit, university.names, 240)


def test_users_get_rights_only_after_the_policies_exist(university: Site) -> None:
    """RoleBindings of tenants refer to ClusterRoles: a namespace without these roles has no users."""
    policies = [*university.stored("ValidatingAdmissionPolicy"), *university.stored("ValidatingAdmissionPolicyBinding")]
    roles = university.stored("ClusterRole")
    bound = {item["roleRef"]["name"] for item in university.stored("RoleBinding")}
    users = [role for role in roles if role["metadata"]["name"] != GITOPS_ROLE]
    assert bound <= {role["metadata"]["name"] for role in users}
    assert max(map(created, policies)) < min(map(created, users))


@pytest.mark.usefixtures("jobs")
def test_argo_cd_starts_no_operation_without_a_change(university: Site) -> None:
    def operations() -> dict[str, str]:
        return {name: each.operation["startedAt"] for name, each in university.argo.applications().items()}

    university.argo.refresh()
    before = operations()
    time.sleep(QUIET)
    assert operations() == before
    university.argo.wait_until_synced(university.commit, university.names)


def test_argo_cd_restores_a_changed_field(university: Site) -> None:
    admin = university.argo.admin
    quota = next(item for item in university.tree if item.kind == "ResourceQuota" and item.namespace == "chem")
    before = admin.read(quota.body)["spec"]
    changed = {"spec": {"hard": dict.fromkeys(before["hard"], "9999")}}
    admin.request("PATCH", admin.path_of(quota.body), changed, "application/merge-patch+json")
    wait_until("Argo CD restores the quota", lambda: admin.read(quota.body)["spec"] == before)


def test_a_team_leaves_while_changes_of_others_go_through(university: Site, jobs: dict[str, Training]) -> None:
    admin, running, old = university.argo.admin, pods_of(university.argo.admin, jobs), university.tree
    leaving = [item for item in old if item.file.startswith("tenants/astro/")]
    text = university.file.read_text().replace("release: 1.0.0", "release: 1.1.0")
    text = re.sub(r"  - name: astro\n(?:    .*\n)+", "", text)
    text += "removed: {astro: {reason: the project ended, until: 2099-12-31, unretired: true}}\n"
    university.publish(
        text.replace("edit: [group:aero-researchers]", "edit: [group:aero-researchers], view: [group:press]")
    )
    others = university.names

    def waits(found: dict[str, Application]) -> bool:
        astro = found.get("university.astro")
        return astro is not None and "deletionTimestamp" in astro.body["metadata"] and others_are_synced(found)

    def others_are_synced(found: dict[str, Application]) -> bool:
        return all(found[name].is_synced and found[name].is_healthy for name in others)

    university.argo.wait_for(university.commit, waits, names=others)
    assert has_view(admin, "aero", "press")
    assert all(admin.exists(item.body) for item in leaving)

    university.publish(
        university.file.read_text()
        .replace("release: 1.1.0", "release: 1.2.0")
        .replace("edit: [group:maths-researchers]", "edit: [group:maths-researchers], view: [group:press]")
    )
    university.argo.wait_for(university.commit, waits, names=others)
    assert has_view(admin, "maths", "press")
    assert all(admin.exists(item.body) for item in leaving)

    university.argo.confirm("university.astro")
    wait_until("the team is gone", lambda: not any(admin.exists(item.body) for item in leaving), 120)
    university.argo.wait_until_synced(university.commit, others)
    assert all(admin.exists(item.body) for item in university.tree if not item.file.startswith("kueue/"))
    assert pods_of(admin, jobs) == running


def has_view(admin: Client, namespace: str, group: str) -> bool:
    """Return True if a group may view the TrainJobs of a namespace."""
    items = admin.items("rbac.authorization.k8s.io/v1", "RoleBinding", namespace)
    return any(subject["name"] == group for item in items for subject in item.get("subjects", []))


def test_a_removed_runtime_waits_for_a_confirmation_while_policies_change(
    university: Site, jobs: dict[str, Training]
) -> None:
    admin, running, old = university.argo.admin, pods_of(university.argo.admin, jobs), university.tree
    (runtime,) = [item for item in old if item.name == "openmpi-cpu-hybrid"]
    text = university.file.read_text().replace("release: 1.2.0", "release: 1.3.0")
    university.publish(re.sub(r"  - name: openmpi-cpu-hybrid.*\n(?:    .*\n)+", "", text))
    cluster = "university-cluster"
    others = university.names - {cluster}

    def waits(found: dict[str, Application]) -> bool:
        message = found[cluster].operation.get("message", "")
        synced = all(found[name].is_synced and found[name].is_healthy for name in others)
        return synced and "Waiting for pruning confirmation" in message

    university.argo.wait_for(university.commit, waits)
    university.publish(
        university.file.read_text().replace("release: 1.3.0", "release: 1.4.0") + "policies: {labels: [project]}\n"
    )
    university.argo.wait_for(university.commit, waits, names=others)
    (policy,) = [
        item for item in university.tree if item.kind == "ValidatingAdmissionPolicy" and item.name.endswith("-labels")
    ]
    assert admin.exists(policy.body)
    assert admin.exists(runtime.body)

    university.argo.confirm(cluster)
    university.argo.wait_until_synced(university.commit, university.names)
    assert not admin.exists(runtime.body)
    assert pods_of(admin, jobs) == running


def test_a_revert_restores_the_old_release(university: Site, jobs: dict[str, Training]) -> None:
    admin, running = university.argo.admin, pods_of(university.argo.admin, jobs)
    repository = university.argo.repository
    repository.git("revert", "--no-edit", "HEAD~4..HEAD")
    university.commit = repository.git("rev-parse", "HEAD").strip()
    university.platform, app = pipeline.load(university.file)
    university.tree = pipeline.render(university.platform, app)
    assert university.platform.release == "1.0.0"
    university.argo.wait_until_synced(university.commit, university.names, 180)
    assert all(admin.exists(item.body) for item in university.tree if not item.file.startswith("kueue/"))
    assert not has_view(admin, "aero", "press")
    assert pods_of(admin, jobs) == running


def test_the_platform_is_deleted_without_a_stuck_finalizer(university: Site, jobs: dict[str, Training]) -> None:
    admin = university.argo.admin
    for training in jobs.values():
        admin.delete(training.body)
        wait_until("the job is gone", partial(trees.is_gone, admin, training.body))
    applications = university.argo.applications()
    admin.delete(argo_object("ApplicationSet", "university-tenants"))
    for name in ("university-cluster", "university-policies"):
        body = argo_object("Application", name)
        finalizers = {"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}
        admin.request("PATCH", admin.path_of(body), finalizers, "application/merge-patch+json")
    tenants = set(applications) - {"university-cluster", "university-policies"}
    wait_for("all tenants are being deleted", lambda: all_deleted(university, tenants))
    for name in tenants:
        university.argo.confirm(name)
    wait_until("the tenants are gone", lambda: not tenants & set(university.argo.applications()), 120)
    admin.delete(argo_object("Application", "university-cluster"))
    wait_for("the cluster is being deleted", lambda: all_deleted(university, {"university-cluster"}))
    university.argo.confirm("university-cluster")
    wait_until("the cluster is gone", lambda: "university-cluster" not in university.argo.applications(), 120)
    admin.delete(argo_object("Application", "university-policies"))
    wait_until("all Applications are gone", lambda: not university.argo.applications(), 120)
    for name in ("university-cluster", "university-tenants"):
        admin.delete(argo_object("AppProject", name))
    left = [item for item in university.tree if not item.file.startswith("kueue/") and admin.exists(item.body)]
    assert {item.file for item in left} == {"cluster/access/gitops.yaml"}
    for item in left:
        admin.delete(item.body)


def all_deleted(university: Site, names: set[str]) -> bool | None:
    """Return True if Argo CD deletes these Applications; None before."""
    found = university.argo.applications()
    deleted = {name for name, each in found.items() if "deletionTimestamp" in each.body["metadata"]}
    return True if names <= deleted else None


def argo_object(kind: str, name: str) -> Body:
    """Return the identity of an object of Argo CD."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}}
