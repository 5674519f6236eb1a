"""Test that `mpigen job status` reports the states of jobs that real controllers set, and that jobs run again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from generator.jobs.again import renew_job
from generator.jobs.status.export import read_jobs
from generator.jobs.status.state import JobStatus, describe_job
from generator.manifests import Manifest
from tests.cluster.changing import Changing, changing
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until

pytestmark = pytest.mark.cluster

_KUEUE = "kueue.x-k8s.io/v1beta2"
_KINDS = (
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"),
    (_KUEUE, "Workload"),
    (_KUEUE, "LocalQueue"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("v1", "Event"),
)


@pytest.fixture
def place(admin: Client, namespace: str) -> Iterator[Changing]:
    """A runtime, and a queue for its jobs."""
    yield from changing(admin, namespace)


def _export(place: Changing) -> bytes:
    items = [
        {"apiVersion": version, "kind": kind, **item}
        for version, kind in _KINDS
        for item in place.admin.items(version, kind, place.namespace)
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def _status(place: Changing, name: str = "job") -> JobStatus:
    return next(describe_job(objects) for objects in read_jobs({"export": _export(place)}) if objects.job.name == name)


def _reports(place: Changing, state: str, words: str = "", name: str = "job") -> JobStatus | None:
    """Return the status of a job as soon as it has a state, and words in its reason."""
    status = _status(place, name)
    return status if status.state == state and words in status.why else None


def _wait(place: Changing, state: str, words: str = "", name: str = "job") -> JobStatus:
    return wait_for(f"{name} is {state}", partial(_reports, place, state, words, name))


def _wait_for_reason(place: Changing, state: str, reason: str) -> JobStatus:
    """Wait until the TrainJob itself has the state: its JobSet and its Workload have it earlier."""

    def status() -> JobStatus | None:
        found = _reports(place, state)
        return found if found and any(each.startswith(reason) for each in found.reasons) else None

    return wait_for(f"the job is {state}: {reason}", status)


def test_a_job_is_pending_runs_and_completes(place: Changing) -> None:
    place.hold("Hold")
    place.submit()
    _wait(place, "pending", "stopped")
    place.hold("None")
    running = _wait(place, "running")
    assert running.pods is not None
    assert running.pods.ready == running.pods.expected == 2
    assert running.since
    place.finish()
    _wait_for_reason(place, "complete", "TrainJob Complete=True AllJobsCompleted")


def test_a_job_waits_for_the_quota_of_another_job(place: Changing) -> None:
    place.submit()
    _wait(place, "running")
    cpu = place.charged()
    (group,) = place.around[2]["spec"]["resourceGroups"]
    group["flavors"][0]["resources"][0]["nominalQuota"] = cpu
    place.patch(place.around[2], {"resourceGroups": [group]})
    other = {**place.job, "metadata": {**place.job["metadata"], "name": "other"}}
    wait_until("the other TrainJob is taken", partial(place.takes, other))
    waiting = _wait(place, "pending", "insufficient unused quota", "other")
    assert waiting.why.startswith("Other jobs use the quota that the job requests.")
    assert waiting.command.startswith("kubectl get --raw")
    place.admin.delete(other)


def test_a_job_above_the_quota_is_blocked(place: Changing) -> None:
    (group,) = place.around[2]["spec"]["resourceGroups"]
    group["flavors"][0]["resources"][0]["nominalQuota"] = "1"
    place.patch(place.around[2], {"resourceGroups": [group]})
    place.submit()
    _wait(place, "blocked", "> maximum capacity")


def test_a_job_in_a_missing_queue_is_blocked(place: Changing) -> None:
    body = place.job
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "absent"}
    wait_until("the TrainJob is taken", partial(place.takes, body))
    _wait(place, "blocked", "doesn't exist")


def test_a_drained_job_is_evicted_and_a_held_job_is_suspended(place: Changing) -> None:
    place.submit()
    _wait(place, "running")
    place.hold("HoldAndDrain")
    _wait(place, "evicted", "An admin stopped the ClusterQueue")
    place.hold("None")
    _wait(place, "running")
    place.patch({"apiVersion": _KUEUE, "kind": "Workload", **place.workload()}, {"active": False})
    held = _wait(place, "suspended", "`spec.active` of its Workload is false")
    assert '"active": true' in held.command
    place.patch({"apiVersion": _KUEUE, "kind": "Workload", **place.workload()}, {"active": True})
    _wait(place, "running")


def test_a_failed_job_names_the_reason(place: Changing) -> None:
    place.change("            backoffLimit: 0\n", "            backoffLimit: 0\n            activeDeadlineSeconds: 3\n")
    place.submit()
    failed = _wait_for_reason(place, "failed", "TrainJob Failed=True")
    assert failed.is_failed
    assert "first failed job" in failed.why


def test_a_job_of_an_export_can_be_submitted_again(place: Changing) -> None:
    place.submit()
    _wait(place, "running")
    body: Body = place.admin.read(place.job)
    copy = {**body, "metadata": {**place.job["metadata"], "name": "again"}}
    with pytest.raises(RefusedError, match="Duplicate value"):
        place.admin.create(copy, dry_run=True)
    unpatched = {**body, "metadata": {**body["metadata"], "name": "again"}, "spec": place.job["spec"]}
    with pytest.raises(RefusedError, match="resourceVersion should not be set"):
        place.admin.create(unpatched)
    renewed = renew_job(Manifest(body, ""), "again")
    place.admin.create(renewed)
    _wait(place, "running", name="again")
    place.admin.delete(renewed)
