"""Test that `mpigen job again` prints TrainJobs as their users submitted them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from generator import Platform
from generator.jobs.again import renew_job
from generator.jobs.job import LONGEST_NAME
from generator.jobs.request import JobRequest, Mount
from generator.manifests import Body, Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.conftest import ROOT, Run, small_platform
from tests.offers import job_of

EXPORTS = sorted((ROOT / "tests/fixtures/job-status").glob("*.yaml"))


def submitted(**changes: Any) -> Body:
    request = JobRequest("openmpi-cpu", "team-a", nodes=2, name="train", **changes)
    return job_of(Platform.model_validate(small_platform()), request).body


def admitted(body: Body) -> Body:
    """Return a TrainJob as a cluster has it after its admission: with the values of servers and controllers."""
    metadata = {
        **body["metadata"],
        "uid": "1",
        "resourceVersion": "2",
        "generation": 3,
        "creationTimestamp": "2026-11-28T10:00:00Z",
        "managedFields": [{"manager": "kubectl-create"}],
        "annotations": {
            **body["metadata"].get("annotations", {}),
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    }
    kueue = {"manager": "kueue.x-k8s.io/manager", "time": "2026-11-28T10:00:00Z", "trainingRuntimeSpec": {}}
    own = [{**patch, "time": "2026-11-28T10:00:00Z"} for patch in body["spec"].get("runtimePatches", [])]
    spec = {
        **body["spec"],
        "suspend": False,
        "managedBy": "trainer.kubeflow.org/trainjob-controller",
        "runtimePatches": [*own, kueue],
    }
    return {**body, "metadata": metadata, "spec": spec, "status": {"conditions": []}}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"owner": "ada", "labels": {"project": "x"}, "queue": "default"},
        {"environment": {"SEED": "7"}, "mounts": (Mount("claim", "data", "/data"),), "seconds": 60},
    ],
)
def test_a_renewed_job_equals_the_submitted_one(changes: dict[str, Any]) -> None:
    body = submitted(**changes)
    assert renew_job(Manifest(admitted(body), "")) == body
    renamed = renew_job(Manifest(admitted(body), ""), "other")
    assert renamed == {**body, "metadata": {**body["metadata"], "name": "other"}}


def test_another_manager_of_a_job_stays() -> None:
    body = admitted(submitted())
    for manager, is_kept in (
        ("kueue.x-k8s.io/multikueue", False),
        ("trainer.kubeflow.org/trainjob-controller", False),
        ("example.com/controller", True),
    ):
        body["spec"]["managedBy"] = manager
        assert ("managedBy" in renew_job(Manifest(body, ""))["spec"]) is is_kept


@pytest.mark.parametrize("file", EXPORTS, ids=lambda file: file.stem)
def test_renewed_jobs_of_exports_are_valid(file: Path) -> None:
    documents = [*yaml.safe_load_all(file.read_text("utf-8"))]
    bodies = [body for document in documents for body in document.get("items", [document])]
    job = next(body for body in bodies if body.get("kind") == "TrainJob")
    renewed = renew_job(Manifest(job, ""))
    assert Engine(Catalog.bundled()).violations(renewed) == []
    assert {*renewed} == {"apiVersion", "kind", "metadata", "spec"}
    assert renewed["metadata"].keys() <= {"name", "namespace", "labels", "annotations"}
    assert renewed["spec"] == {key: job["spec"][key] for key in ("runtimeRef", "trainer")}


def test_the_command_prints_jobs_for_kubectl(mpigen: Run) -> None:
    body = submitted()
    export = {"apiVersion": "v1", "kind": "List", "items": [admitted(body)]}
    ran = mpigen("job", "again", stdin=json.dumps(export))
    assert (ran.returncode, ran.stderr, yaml.safe_load(ran.stdout)) == (0, "", body)
    ran = mpigen("job", "again", "-", "--name", "train-2", stdin=json.dumps(export))
    assert yaml.safe_load(ran.stdout)["metadata"]["name"] == "train-2"
    assert "create a NetworkPolicy `np.train-2` like `np.train` first" in ran.stderr


def test_one_of_several_jobs_can_have_another_name(mpigen: Run) -> None:
    second = admitted(submitted())
    second["metadata"] = {**second["metadata"], "name": "second"}
    export = json.dumps({"apiVersion": "v1", "kind": "List", "items": [admitted(submitted()), second]})
    ran = mpigen("job", "again", stdin=export)
    assert [body["metadata"]["name"] for body in yaml.safe_load_all(ran.stdout)] == ["second", "train"]
    ran = mpigen("job", "again", "--name", "third", stdin=export)
    assert (ran.returncode, "select one with --job" in ran.stderr) == (2, True)
    ran = mpigen("job", "again", "--name", "third", "--job", "second", stdin=export)
    assert yaml.safe_load(ran.stdout)["metadata"]["name"] == "third"


@pytest.mark.parametrize("name", ["Train", "x" * (LONGEST_NAME + 1), "-"])
def test_a_name_must_be_valid(name: str, mpigen: Run) -> None:
    export = json.dumps(admitted(submitted()))
    ran = mpigen("job", "again", "-", f"--name={name}", stdin=export)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "--name: " in ran.stderr
