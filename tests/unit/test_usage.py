"""Test the answers of `check-job --usage` about a cluster with running and waiting jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from generator import App, Platform
from generator.jobs.request import JobRequest
from generator.manifests import Body
from generator.pipeline import render
from tests.conftest import Run, small_platform
from tests.offers import job_of

CORES = 57
"""The cores of each pod of `openmpi-cpu`; team-a owns 4 nodes of 63500m."""


@pytest.fixture
def platform() -> Platform:
    return Platform.model_validate(small_platform())


def write(platform: Platform, folder: Any, pods: dict[str, int]) -> None:
    """Write a release, a job with 3 nodes, and an export: job of team-a → number of its pods; 0 if the job waits."""
    objects = render(platform, App(platform))
    (folder / "release").mkdir()
    (folder / "release/objects.yaml").write_text(yaml.safe_dump_all([item.body for item in objects]))
    (folder / "job.yaml").write_text(job_of(platform, JobRequest("openmpi-cpu", "team-a", nodes=3)).text)
    queues = [item.body for item in objects if item.kind == "ClusterQueue"]
    items = [
        *({**queue, "status": reservation(queue, pods)} for queue in queues),
        *(workload(name, number, count) for number, (name, count) in enumerate(pods.items())),
    ]
    (folder / "live.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))


def amounts(count: int) -> dict[str, str]:
    return {"cpu": str(CORES * count), "memory": f"{count}Gi"}


def reservation(queue: Body, pods: dict[str, int]) -> Body:
    held = amounts(sum(pods.values()) if queue["metadata"]["name"] == "team-a" else 0)
    resources = [{"name": name, "total": amount} for name, amount in held.items()]
    return {"flavorsReservation": [{"name": "cpu", "resources": resources}]}


def workload(name: str, number: int, count: int) -> Body:
    container = {"name": "node", "image": "a", "resources": {"requests": amounts(1)}}
    status: Body = {"conditions": []}
    if count:
        status["conditions"] = [
            {"type": "QuotaReserved", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{number:02}Z"}
        ]
        assigned = {
            "name": "node",
            "count": count,
            "flavors": {"cpu": "cpu", "memory": "cpu"},
            "resourceUsage": amounts(count),
        }
        status["admission"] = {"clusterQueue": "team-a", "podSetAssignments": [assigned]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"trainjob-{name}",
            "namespace": "team-a",
            "creationTimestamp": f"2026-01-01T00:00:{number:02}Z",
            "ownerReferences": [{"kind": "TrainJob", "name": name}],
        },
        "spec": {
            "queueName": "default",
            "podSets": [{"name": "node", "count": count or 4, "template": {"spec": {"containers": [container]}}}],
        },
        "status": status,
    }


def check(mpigen: Run, *options: str) -> Any:
    done = mpigen("check-job", "job.yaml", "--release", "release", "--usage", "live.yaml", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def answer(mpigen: Run) -> Any:
    (job,) = json.loads(check(mpigen, "--format", "json"))["summary"]["jobs"]
    return job


def test_a_job_waits_for_the_quota_that_others_use(platform: Platform, mpigen: Run, tmp_path: Any) -> None:
    write(platform, tmp_path, {"running": 2, "first": 0})
    job = answer(mpigen)
    assert job["verdict"] == "waits"
    usage = job["usage"]
    (cores,) = [need for need in usage["needs"] if need["resource"] == "cpu"]
    assert (cores["requested"], cores["used"]) == (str(3 * CORES), str(2 * CORES))
    assert (usage["position"], usage["before"], usage["preempts"], usage["fits"]) == (2, ["team-a/first"], [], 2)
    lines = check(mpigen).splitlines()
    assert "position in `team-a`: 2, after `team-a/first`" in lines
    assert "nodes that would fit now: 2" in lines
    assert any("needs 171 cpu of flavor `cpu`, and 140 is free" in line for line in lines)


def test_a_job_runs_while_others_run(platform: Platform, mpigen: Run, tmp_path: Any) -> None:
    write(platform, tmp_path, {"running": 1})
    job = answer(mpigen)
    assert (job["verdict"], job["usage"]["fits"]) == ("admitted", None)


def test_the_jobs_of_one_command_count_in_their_order(platform: Platform, mpigen: Run, tmp_path: Any) -> None:
    write(platform, tmp_path, {"running": 2})
    for number in (1, 2, 3):
        job = job_of(platform, JobRequest("openmpi-cpu", "team-a", f"job-{number}", nodes=2))
        (tmp_path / f"job-{number}.yaml").write_text(job.text)
    names = [f"job-{number}.yaml" for number in (1, 2, 3)]
    done = mpigen("check-job", *names, "--release", "release", "--usage", "live.yaml", "--format", "json")
    jobs = json.loads(done.stdout)["summary"]["jobs"]
    assert [(job["verdict"], job["usage"]["position"], job["usage"]["fits"]) for job in jobs] == [
        ("admitted", 1, None),
        ("waits", 1, 0),
        ("waits", 2, None),
    ]
    assert [need["available"] for need in jobs[1]["usage"]["needs"] if need["resource"] == "cpu"] == ["26"]


def test_a_job_that_the_cluster_has_has_no_answer(platform: Platform, mpigen: Run, tmp_path: Any) -> None:
    write(platform, tmp_path, {"openmpi-cpu": 3, "running": 1})
    assert answer(mpigen)["verdict"] == "unknown"


def test_an_export_without_all_queues_has_no_answer(platform: Platform, mpigen: Run, tmp_path: Any) -> None:
    write(platform, tmp_path, {"running": 1})
    (tmp_path / "live.yaml").write_text(yaml.safe_dump(workload("running", 0, 1)))
    job = answer(mpigen)
    assert (job["verdict"], "usage" in job) == ("unknown", False)
