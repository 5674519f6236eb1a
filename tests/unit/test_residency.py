"""Test that jobs of a team with `residency` run only in the places of the team."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest

from generator import App, Platform
from generator.checks.objects import Change
from generator.checks.submission import Destination
from generator.documents.emit import Emitter
from generator.effects.topics import find_effects
from generator.facts.names import PARAMETER
from generator.jobs.catalogue import Catalogue
from generator.jobs.job import new_job
from generator.jobs.reach import JobError
from generator.jobs.request import JobRequest
from generator.manifests import Body, Manifest
from generator.pipeline import check_jobs, render
from generator.upstream.kubernetes.access import parse_requester
from tests.plan import describe

REGION = "topology.kubernetes.io/region"
NODES = {"nodes": 4, "allocatable": {"cpu": 16, "memory": "64Gi"}}
PLATFORM: dict[str, Any] = {
    "platform": "places",
    "release": "1.0.0",
    "pools": [{"name": name, "labels": {REGION: place}, **NODES} for name, place in (("eu", "fra"), ("us", "iad"))],
    "runtimes": [
        {"name": "here", "use": "openmpi", "pool": "eu"},
        {"name": "there", "use": "openmpi", "pool": "us", "image": "quay.io/acme/mpi:1", "images": ["quay.io/acme/*"]},
    ],
    "tenants": [
        {"name": "bank", "quota": {"eu": 2}, "residency": ["fra"], "access": {"edit": ["user:ada"]}},
        {"name": "lab", "quota": {"eu": 1, "us": 2}, "access": {"edit": ["user:ada"]}},
    ],
    "policies": {"residency": {"label": REGION, "values": ["fra", "iad"]}},
}


def tree(**changes: Any) -> list[Manifest]:
    platform = Platform.model_validate({**PLATFORM, **changes})
    return render(platform, App(platform))


@cache
def release() -> tuple[Manifest, ...]:
    return tuple(tree())


def parameters(namespace: str) -> dict[str, str]:
    (body,) = (item.body for item in release() if (item.kind, item.name) == ("Namespace", namespace))
    annotations = body["metadata"]["annotations"]
    return {key.removeprefix(PARAMETER): value for key, value in annotations.items() if key.startswith(PARAMETER)}


def denials(job: Body) -> list[str]:
    destination = Destination(release(), requester=parse_requester("user:ada"), is_complete=True)
    done = check_jobs({"job.yaml": Emitter().emit([job]).encode()}, destination)
    return [finding.message for finding in done.findings if finding.check == "trainjob/denied"]


def job(namespace: str, runtime: str) -> Body:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": namespace, "annotations": {"mpigen.dev/owner": "ada"}},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": {"numNodes": 2, "command": ["mpirun", "a"]}},
    }


def test_a_namespace_lists_the_places_and_the_runtimes_of_the_team() -> None:
    assert parameters("bank")["residency"] == f"{REGION}=fra"
    assert parameters("bank")["runtimes"] == "ClusterTrainingRuntime/here"
    assert not [value for value in parameters("bank").values() if "/there" in value]
    assert parameters("lab")["residency"] == f"{REGION}=fra,{REGION}=iad"
    assert parameters("lab")["runtimes"] == "ClusterTrainingRuntime/here,ClusterTrainingRuntime/there"


def test_the_team_cannot_use_a_runtime_in_another_place() -> None:
    assert any("runtime" in message for message in denials(job("bank", "there")))
    assert not denials(job("bank", "here"))
    assert not denials(job("lab", "there"))
    with pytest.raises(JobError, match="runtime `there` is not available to `bank`"):
        new_job(Catalogue(release()), JobRequest("there", "bank", command=("mpirun", "a")))


def test_a_patch_selects_no_node_in_another_place() -> None:
    def patched(place: str) -> Body:
        pods = {"spec": {"template": {"spec": {"nodeSelector": {REGION: place}}}}}
        patch = {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": pods}]}}}
        body = copy.deepcopy(job("bank", "here"))
        body["spec"]["runtimePatches"] = [{"manager": "example.com/a", "trainingRuntimeSpec": patch}]
        return body

    assert any("outside the locations" in message for message in denials(patched("iad")))
    assert not denials(patched("fra"))


def test_the_queue_of_the_team_has_no_flavor_of_another_place() -> None:
    (queue,) = (item.body for item in release() if (item.kind, item.name) == ("ClusterQueue", "bank"))
    assert [flavor["name"] for group in queue["spec"]["resourceGroups"] for flavor in group["flavors"]] == ["eu"]


def test_a_plan_reports_the_places_that_a_team_loses() -> None:
    old = tree(tenants=[{key: value for key, value in PLATFORM["tenants"][0].items() if key != "residency"}])
    new = tree(tenants=PLATFORM["tenants"][:1])
    text = describe(find_effects(Change.of_trees(old, new, {})))
    assert f"team `bank` can no longer run TrainJobs on nodes with `{REGION}=iad`" in text
