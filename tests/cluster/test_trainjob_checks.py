"""Test that the real Trainer and Kueue treat broken TrainJobs as the checks report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import pytest
import yaml

from generator.checks.trainjob import empty_value
from generator.objects.training import TrainJob
from tests.checks import CASES
from tests.cluster.client import Body, Client, wait_for
from tests.cluster.control_plane import Cluster
from tests.cluster.hand_written import Attempt, create
from tests.cluster.queued import EMPTY, NAMESPACE, of_trainer, outcome, queue, train_job, workload

pytestmark = pytest.mark.cluster

PLAIN = yaml.safe_load("""\
mlPolicy: {numNodes: 1}
template:
  spec:
    replicatedJobs:
    - name: dataset-initializer
      template:
        metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
        spec:
          template:
            spec:
              volumes: [{name: initializer, emptyDir: {}}]
              containers:
              - {name: dataset-initializer, image: a, volumeMounts: [{name: initializer, mountPath: /data}]}
    - name: node
      template:
        metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
        spec:
          template:
            spec:
              volumes: [{name: initializer, emptyDir: {}}]
              containers:
              - {name: node, image: a, volumeMounts: [{name: initializer, mountPath: /data}]}
              - {name: side, image: a}
""")
OF_RESOURCES = {
    case.name: case
    for case in CASES.values()
    if case.check == "trainjob/lost-devices" or (case.family == "trainjob" and case.check.endswith("-resources"))
}
DEVICE = "nvidia.com/gpu"
_NO_LIMIT = "Limit must be set for non overcommitable resources"
_GRACE = "terminationGracePeriodSeconds"
_GRACEFUL: Body = {"pod": {_GRACE: 60}}


@pytest.fixture(scope="module")
def jobs(admin: Client, *, is_old: bool) -> Iterator[Mapping[str, Body]]:
    """Create TrainJobs with empty values, and the jobs of rules that need a runtime, each with its own runtime."""
    bodies = {name: train_job(f"empty-{name}", "plain", spec) for each in EMPTY.values() for name, spec in each.items()}
    runtimes = [of_trainer("TrainingRuntime", "plain", PLAIN)]
    for name, case in OF_RESOURCES.items():
        job, runtime, *_ = yaml.safe_load_all(case.bad)
        runtimes.append(of_trainer("TrainingRuntime", name, runtime["spec"]))
        bodies[name] = train_job(name, name, {"trainer": job["spec"]["trainer"]})
    if not is_old:
        bodies["grace"] = train_job("grace", "plain", _GRACEFUL)
    with queue(admin):
        for body in runtimes:
            create(admin, body)
        assert {name: said for name, body in bodies.items() if (said := create(admin, body))} == {}
        yield bodies


@pytest.fixture(scope="module")
def is_old(cluster: Cluster) -> bool:
    """Return True for Trainer 2.2."""
    return cluster.versions["trainer"].version.startswith("v2.2.")


def resources(admin: Client, name: str) -> Body:
    """Return the resources of the training container in a pod."""
    attempt = Attempt(admin, name, NAMESPACE)
    (pod, *_) = wait_for(f"{name}: pods", lambda: attempt.pods("node") or None)
    found: Body = next(each for each in pod["spec"]["containers"] if each["name"] == "node")["resources"]
    return found


def counted(admin: Client, name: str) -> Body:
    """Return the usage that Kueue charges."""

    def assigned() -> Body | None:
        admission = workload(admin, name).get("status", {}).get("admission")
        return dict(admission["podSetAssignments"][0].get("resourceUsage", {})) if admission else None

    return wait_for(f"{name}: admission", assigned)


@pytest.mark.parametrize(
    ("expected", "name"), [(expected, name) for expected, names in EMPTY.items() for name in names]
)
def test_jobs_that_kueue_cannot_start_are_findings_of_the_check(
    jobs: Mapping[str, Body], cluster: Cluster, expected: str, name: str
) -> None:
    assert outcome(cluster, jobs[name]) == expected
    assert bool(list(empty_value(TrainJob(jobs[name])))) is (expected == "stuck")


@pytest.mark.usefixtures("jobs")
def test_job_resources_replace_runtime_resources_on_trainer_2_2_and_are_merged_since(
    admin: Client, *, is_old: bool
) -> None:
    found = resources(admin, "lost-devices")
    assert found["requests"].items() >= {"cpu": "8", "memory": "64Gi"}.items()
    assert found.get("limits", {}).get(DEVICE) == (None if is_old else "8")
    assert ("limits" in found) is not is_old
    assert resources(admin, "lost-resources")["requests"].get("memory") == (None if is_old else "64Gi")


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    ("name", "uncounted"),
    [
        ("lost-devices", {DEVICE, "example.com/fpga"}),
        ("uncounted-devices", {DEVICE}),
        ("uncounted-memory", {"memory"}),
    ],
)
def test_kueue_counts_only_resources_that_trainer_reads(
    admin: Client, name: str, uncounted: set[str], *, is_old: bool
) -> None:
    pod = resources(admin, name)["requests"]
    assert is_old or uncounted <= pod.keys()
    assert counted(admin, name).keys() & uncounted == set()


def test_claims_of_the_runtime_are_lost_if_the_job_sets_resources(admin: Client, namespace: str) -> None:
    """The test leaves out Kueue, which has no mapping for the driver."""
    job, runtime = yaml.safe_load_all(CASES["trainjob/lost-claims"].bad)
    without = {"trainer": {key: value for key, value in job["spec"]["trainer"].items() if key != "resourcesPerNode"}}
    for body in (
        of_trainer("TrainingRuntime", "claims", runtime["spec"]),
        train_job("lost", "claims", {"trainer": job["spec"]["trainer"]}),
        train_job("kept", "claims", without),
    ):
        body["metadata"] = {"name": body["metadata"]["name"], "namespace": namespace}
        assert create(admin, body) == ""
    lost, kept = (Attempt(admin, name, namespace).container("node")["resources"] for name in ("lost", "kept"))
    assert "claims" not in lost
    assert kept["claims"] == [{"name": "cards"}]


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    ("name", "merged", "alone"),
    [
        ("limit-below-request", f"must be equal to {DEVICE} limit of 4", ""),
        ("request-above-limit", "must be less than or equal to cpu limit of 16", ""),
        ("huge-pages-requested-below-limit", "must be equal to hugepages-2Mi limit of 2Gi", _NO_LIMIT),
    ],
)
def test_merged_resources_may_contradict(admin: Client, name: str, merged: str, alone: str, *, is_old: bool) -> None:
    """Trainer 2.2 takes the resources of the TrainJob alone."""
    if words := alone if is_old else merged:
        attempt = Attempt(admin, name, NAMESPACE)
        assert words in attempt.failure
        assert attempt.pods("node") == []
    else:
        assert resources(admin, name)


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("name", ["device-without-limit", "huge-pages-without-limit"])
def test_devices_and_huge_pages_need_a_limit(admin: Client, name: str) -> None:
    """Every version of Trainer creates such pods: 2.2 takes the amounts of the TrainJob, 2.3 merges them."""
    attempt = Attempt(admin, name, NAMESPACE)
    assert _NO_LIMIT in attempt.failure
    assert attempt.pods("node") == []


def test_a_patch_that_kueue_drops_leaves_the_job_set_suspended(
    jobs: Mapping[str, Body], cluster: Cluster, *, is_old: bool
) -> None:
    if is_old:
        assert "unknown field" in create(cluster.admin, train_job("grace", "plain", _GRACEFUL))
        return
    assert outcome(cluster, jobs["grace"]) == "runs"
    (patch, _) = cluster.admin.read(jobs["grace"])["spec"]["runtimePatches"]
    assert _GRACE not in json.dumps(patch)
    attempt = Attempt(cluster.admin, "grace", NAMESPACE)
    assert re.search(r"JobSet\S* \"grace\" is invalid: spec.replicatedJobs: Invalid value", attempt.failure)
    assert attempt.job_set["spec"]["suspend"] is True
    assert attempt.pods("node") == []
