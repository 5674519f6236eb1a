"""Test that the API server, Trainer and Kueue treat a changed tree as the change checks report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from generator.manifests import Manifest, read
from tests.checks import CHANGES, TREE, Case, find_changes
from tests.cluster.changing import Changing, changing
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.trees import is_gone

pytestmark = pytest.mark.cluster

_SSHD = "- name: node  # runs sshd"
_MORE = "- {name: more, image: a}\n                - name: node"
_QUIET = 5  # seconds in which nothing happens that should not


@pytest.fixture(scope="module")
def applied(admin: Client) -> Iterator[None]:
    """The tree before the change, applied as Argo CD does it."""
    bodies = [manifest.body for manifest in objects(TREE)]
    for body in bodies:
        admin.apply(body)
    yield
    for body in reversed(bodies):
        admin.delete(body)
    for body in bodies:
        wait_until(f"{body['kind']} is gone", lambda body=body: is_gone(admin, body))  # type: ignore[misc]


def objects(text: str) -> list[Manifest]:
    """Return the objects of a tree that clusters have: all but the lock of a release."""
    return [manifest for manifest in read(text, "tree.yaml") if manifest.group != "mpigen.dev"]


def found(case: Case, cluster: Cluster, text: str) -> set[str]:
    """Return the objects whose update mpigen reports for the versions of the cluster."""
    targets = {name: program.minor for name, program in cluster.versions.programs.items()}
    findings = find_changes(text, case.base if lacking(case) else TREE, targets)
    return {finding.resource for finding in findings if finding.check == "change/immutable"}


def lacking(case: Case) -> list[Body]:
    """Return the old objects that the tree lacks, for a case about updates of objects."""
    if case.check != "change/immutable":
        return []
    known = {item.identity for item in objects(TREE)}
    return [item.body for item in objects(case.base) if item.identity not in known]


@contextmanager
def stored(case: Case, admin: Client) -> Iterator[None]:
    """Store the objects of a case that the tree lacks, and delete them afterwards."""
    bodies = lacking(case)
    for body in bodies:
        admin.apply(body)
    yield
    for body in bodies:
        admin.delete(body)
        wait_until(f"{body['kind']} is gone", lambda body=body: is_gone(admin, body))  # type: ignore[misc]


def refused(admin: Client, text: str) -> dict[str, str]:
    """Return the objects of a tree that the API server rejects as an update, with the messages."""
    said = {}
    for manifest in objects(text):
        try:
            admin.apply(manifest.body, dry_run=True)
        except RefusedError as error:
            said[manifest.resource] = error.message
    return said


@pytest.mark.usefixtures("applied")
@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_change_findings_equal_the_rejected_updates(case: Case, cluster: Cluster) -> None:
    with stored(case, cluster.admin):
        for text in (case.bad, case.good):  # an older API server refuses some good changes
            assert refused(cluster.admin, text).keys() == found(case, cluster, text)


@pytest.mark.usefixtures("applied")
def test_rejected_updates_are_accepted_under_another_name(cluster: Cluster) -> None:
    """So the update is rejected, and a new name fixes it."""
    refusals = 0
    for case in CHANGES.values():
        rejected = found(case, cluster, case.bad)
        for manifest in read(case.bad, "tree.yaml"):
            if manifest.resource in rejected:
                cluster.admin.create(renamed(manifest), dry_run=True)
                refusals += 1
    assert refusals > 10


def renamed(manifest: Manifest) -> Body:
    return {**manifest.body, "metadata": {**manifest.body["metadata"], "name": "another"}}


@pytest.fixture
def place(admin: Client, namespace: str) -> Iterator[Changing]:
    """A runtime, and a queue for its jobs."""
    yield from changing(admin, namespace)


@pytest.fixture
def remembers(cluster: Cluster) -> bool:
    """Return True if a TrainJob keeps its first runtime, since Trainer 2.3."""
    return not cluster.versions["trainer"].version.startswith("v2.2.")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("image: registry.example.com/mpi:2", "image: registry.example.com/mpi:3", id="image"),
        pytest.param("runLauncherAsNode: true", "runLauncherAsNode: false", id="hosts"),
        pytest.param("value: /etc/mpi/hostfile", "value: /etc/hosts", id="variable", marks=pytest.mark.slow),
        pytest.param("numNodes: 1", "numNodes: 2", id="launchers", marks=pytest.mark.slow),
        pytest.param("replicas: 1  # of node", "replicas: 2", id="replicas", marks=pytest.mark.slow),
        pytest.param(_SSHD, _MORE, id="containers", marks=pytest.mark.slow),
    ],
)
def test_a_change_of_counted_fields_restarts_a_running_job(
    before: str, after: str, place: Changing, remembers: bool
) -> None:
    place.submit()
    pods, containers, workload = place.running(), place.containers(), place.workload()
    place.change(before, after)
    place.touch()
    if not remembers:
        wait_until("JobSet refuses the new pods", lambda: place.fails_over("spec.replicatedJobs"))
        assert place.running() == pods
        return
    wait_until("other pods run", lambda: place.has_pods() and not place.running() & pods)
    assert place.containers() == containers
    assert place.workload()["metadata"]["uid"] != workload["metadata"]["uid"]
    assert place.workload()["spec"]["podSets"] != workload["spec"]["podSets"]


def test_a_change_of_other_fields_keeps_a_running_job(place: Changing) -> None:
    place.submit()
    pods, workload = place.running(), place.workload()
    for before, after in {
        "securityContext: {runAsUser: 1000, fsGroup: 1000}": "securityContext: {runAsUser: 1001, fsGroup: 1000}",
        "numProcPerNode: 8": "numProcPerNode: 4",
        "backoffLimit: 0": "backoffLimit: 1",
        "cpu: 16, memory: 64Gi, nvidia.com/gpu: 8": "cpu: 16000m, memory: 65536Mi, nvidia.com/gpu: 8",
    }.items():
        place.change(before, after)
    place.touch()
    time.sleep(_QUIET)
    assert place.running() == pods
    assert place.workload()["metadata"]["uid"] == workload["metadata"]["uid"]


def test_a_pending_job_is_recounted_and_gets_pods_of_the_old_runtime(place: Changing, remembers: bool) -> None:
    place.hold("Hold")
    place.submit()
    wait_until("Kueue counts it", lambda: place.counted("node")["resources"]["limits"]["cpu"] == "16")
    wait_until("Trainer makes its JobSet", place.has_job_set)
    place.change("cpu: 16, memory: 64Gi, nvidia.com/gpu: 8", "cpu: 12, memory: 64Gi, nvidia.com/gpu: 8")
    place.touch()
    wait_until("Kueue counts it anew", lambda: place.counted("node")["resources"]["limits"]["cpu"] == "12")
    place.hold("None")
    if not remembers:
        wait_until("JobSet refuses the new pods", lambda: place.fails_over("spec.replicatedJobs"))
        assert not place.pods()
        return
    place.running()
    assert place.counted("node")["resources"]["limits"]["cpu"] == "12"
    assert place.containers()["node"]["resources"]["limits"]["cpu"] == "16"


@pytest.mark.parametrize("way_out", [pytest.param("the runtime is back", marks=pytest.mark.slow), "the job is deleted"])
def test_a_finished_job_without_its_runtime_keeps_its_quota(way_out: str, place: Changing, remembers: bool) -> None:
    place.submit()
    place.running()
    if not remembers:
        stays_until_its_last_job_goes(place)
        return
    place.admin.delete(place.runtime)
    with pytest.raises(RefusedError, match="not found"):
        place.touch()  # as Kueue would, to stop it
    place.finish()
    wait_until("the TrainJob is complete", place.is_complete)
    time.sleep(_QUIET)
    assert not place.is_finished()
    assert place.charged() == "32"
    if way_out == "the job is deleted":
        place.admin.delete(place.job)
    else:
        place.admin.create(place.runtime)
        wait_until("Kueue knows that it has ended", place.is_finished, 120)
    wait_until("nothing is charged", lambda: place.charged() == "0")


def stays_until_its_last_job_goes(place: Changing) -> None:
    """Test that Trainer 2.2 keeps a deleted runtime until its last job is deleted."""
    wait_until("Trainer keeps it", place.is_kept)
    place.admin.delete(place.runtime)
    assert place.takes_another()
    place.hold("None")
    place.running()
    assert place.is_kept()
    place.admin.delete(place.job)
    wait_until("it is gone", lambda: is_gone(place.admin, place.runtime))


def test_a_pending_job_without_its_runtime_never_starts(place: Changing, remembers: bool) -> None:
    place.hold("Hold")
    place.submit()
    wait_until("Kueue counts it", lambda: bool(place.counted("node")))
    if not remembers:
        stays_until_its_last_job_goes(place)
        return
    place.admin.delete(place.runtime)
    place.hold("None")
    wait_until("Trainer takes no more", lambda: not place.takes_another())
    time.sleep(_QUIET)
    assert not place.pods()
    place.admin.create(place.runtime)
    wait_until("the job runs", place.has_pods, 120)


def test_a_deleted_namespace_deletes_its_jobs_and_claims(admin: Client, place: Changing) -> None:
    place.submit()
    place.running()
    claim = yaml.safe_load(
        f"""
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {{name: data, namespace: {place.namespace}}}
        spec: {{accessModes: [ReadWriteMany], resources: {{requests: {{storage: 1Gi}}}}}}
        """
    )
    admin.create(claim)
    admin.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place.namespace}})
    for body in (claim, place.runtime, place.job):
        wait_until(f"{body['kind']} is gone", lambda body=body: is_gone(admin, body))  # type: ignore[misc]
    wait_until("its pods are gone", lambda: not place.pods())
