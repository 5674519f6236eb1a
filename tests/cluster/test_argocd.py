"""Test that a running Argo CD applies releases as pages of the documentation describe, with the rights of its account.

The tests of one example run in the order of this file, on one cluster: each test continues where the test before ended.
`MPIGEN_QUIET=120` lets Argo CD run for 120 seconds without a change, in place of 30.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from functools import partial

import pytest

from generator.facts.names import GITOPS_ROLE, PART_OF
from tests.cluster import argocd, trees
from tests.cluster.argocd import Application
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.site import Site, following, write_example
from tests.cluster.training import Training, pods_of, start
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
RENAMED = {"Cohort", "ConfigMap", "Namespace", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
"""The kinds with objects whose names, or namespaces, contain the name of the platform."""
QUIET = float(os.environ.get("MPIGEN_QUIET", "30"))
"""Seconds without a change in which Argo CD must start no operation."""


@pytest.fixture(scope="module")
def university(
    admin: Client, cluster: Cluster, on_the_cluster: list[Deployed], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Return a cluster of the example `university`, to which the first test applies the Applications."""
    trees.remove_all(admin, on_the_cluster)
    folder = tmp_path_factory.mktemp("git")
    source = write_example("university", folder / "repository")
    with argocd.running(cluster, folder / "empty") as argo, following(argo, source) as site:
        yield site


@pytest.fixture(scope="module")
def jobs(university: Site, admin: Client) -> dict[str, Training]:
    """Return tenant → a TrainJob whose pods run, of two tenants that no test removes."""
    return start(admin, university.platform, ("aero", "maths"), "openmpi-cpu")


def created(body: Body) -> str:
    """Return the time at which an object was created."""
    return str(body["metadata"]["creationTimestamp"])


def test_an_empty_cluster_becomes_synced_and_healthy(university: Site) -> None:
    university.apply_applications()
    university.wait_until_synced()


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
    university.wait_until_synced()


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
    university.wait_until_synced()
    assert missing(university) == []
    assert pods_of(admin, jobs) == running


def missing(site: Site) -> list[str]:
    """Return the objects that Argo CD applies and that the cluster lacks."""
    return [item.resource for item in site.applied if not site.argo.admin.exists(item.body)]


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
        synced = all(found[name].is_synced and found[name].is_healthy for name in others)
        return synced and found[cluster].waits_for_pruning

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
    university.wait_until_synced()
    assert not admin.exists(runtime.body)
    assert pods_of(admin, jobs) == running


def test_a_revert_restores_the_old_release(university: Site, jobs: dict[str, Training]) -> None:
    admin, running = university.argo.admin, pods_of(university.argo.admin, jobs)
    university.revert(4)
    assert university.platform.release == "1.0.0"
    university.wait_until_synced()
    assert missing(university) == []
    assert not has_view(admin, "aero", "press")
    assert pods_of(admin, jobs) == running


def test_a_renamed_platform_keeps_its_objects_and_jobs(university: Site, jobs: dict[str, Training]) -> None:
    """The steps of docs/tasks/rename-a-platform.md, without the root Application."""
    admin, running, old = university.argo.admin, pods_of(university.argo.admin, jobs), university.applied
    uids = {item.identity: admin.read(item.body)["metadata"]["uid"] for item in old}
    text = university.file.read_text()
    university.delete_applications()
    assert not university.argo.applications()
    assert all(admin.exists(item.body) for item in old)

    university.publish(text.replace("platform: university", "platform: campus\nrenamedFrom: university"))
    university.apply_applications("project.yaml")
    university.apply_applications("application.yaml")
    names = {"campus-policies", "campus-cluster"}

    def synced(found: dict[str, Application]) -> bool:
        return all(found[name].is_synced and found[name].is_healthy for name in names)

    university.argo.wait_for(university.commit, synced, names=names)
    university.apply_applications("tenants.yaml")
    university.wait_until_synced()

    kept = {item.identity for item in university.applied}
    renamed = [item for item in old if item.identity not in kept]
    assert {item.kind for item in renamed} == RENAMED
    assert all(PART_OF in item.labels for item in renamed)
    for item in old:
        stored = admin.read(item.body)["metadata"]
        assert stored["uid"] == uids[item.identity]
        assert (stored["labels"].get(PART_OF) == "university") == (item in renamed), item.resource
    for item in reversed(renamed):  # the shared catalogue before its namespace
        admin.delete(item.body)
    shutil.rmtree(university.output / "university")
    university.publish(university.file.read_text().replace("renamedFrom: university\n", ""))
    university.wait_until_synced()
    assert university.remaining() == university.applied
    assert pods_of(admin, jobs) == running


def test_the_platform_is_deleted_without_a_stuck_finalizer(university: Site, jobs: dict[str, Training]) -> None:
    admin = university.argo.admin
    for training in jobs.values():
        admin.delete(training.body)
        wait_until("the job is gone", partial(trees.is_gone, admin, training.body))
    university.delete_platform()
    assert {item.file for item in university.remaining()} == {"cluster/access/gitops.yaml"}
