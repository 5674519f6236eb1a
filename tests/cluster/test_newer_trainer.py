"""Test that the admission policies reject fields and API versions of a Trainer that is newer than the policies."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.attacks.corpus import fill, train_job
from tests.attacks.platforms import PERSONAS
from tests.cluster import attacking
from tests.cluster.attacking import Stage
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
_DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/trainjobs.trainer.kubeflow.org"
_NEXT = "v1beta1"
_FIELD = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_POD = "runtimePatches trainingRuntimeSpec template spec replicatedJobs template spec template spec"
_PLACES = (
    "",
    "initializer",
    "initializer dataset",
    "runtimeRef",
    "trainer",
    "trainer env valueFrom",
    "trainer resourcesPerNode",
    "runtimePatches",
    _POD,
    f"{_POD} containers",
    f"{_POD} initContainers env valueFrom",
)
"""Paths of objects below `spec` of a TrainJob that get a new field."""


@pytest.fixture(scope="module")
def stage(admin: Client, on_the_cluster: list[Deployed]) -> Iterator[Stage]:
    """Deploy the Kubernetes platform of the attacks, and let the API server serve TrainJobs of a newer Trainer."""
    with attacking.staged(admin, "kubernetes", on_the_cluster) as stage:
        old = admin.request("GET", _DEFINITION).body["spec"]
        (version,) = json.loads(json.dumps(old["versions"]))
        for place in _PLACES:
            _schema(version["schema"]["openAPIV3Schema"], place)["properties"]["newField"] = _FIELD
        _define(admin, {**old, "versions": [version, {**version, "name": _NEXT, "storage": False}]})
        try:
            wait_until("the API server serves the new fields", partial(_is_served, stage))
            yield stage
        finally:
            _define(admin, old)
            wait_until("the API server serves the old fields", partial(_is_restored, stage))


def _schema(schema: Body, place: str) -> Body:
    """Return the schema of the object at a path; a list has the schema of its items."""
    for name in ["spec", *place.split()]:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return schema


def _define(admin: Client, spec: Body) -> None:
    admin.request("PUT", _DEFINITION, {**admin.request("GET", _DEFINITION).body, "spec": spec})


def _is_served(stage: Stage) -> bool:
    answers = [_answer(stage, place, version) for place in _PLACES for version in ("v1alpha1", _NEXT)]
    return all("unknown field" not in answer and answer != "404" for answer in answers)


def _is_restored(stage: Stage) -> bool:
    """Return True if the API server serves TrainJobs without the new fields. It restarts its storage in between."""
    try:
        stage.admin.items("trainer.kubeflow.org/v1alpha1", "TrainJob", stage.team)
    except RefusedError as refused:
        if refused.status != http.client.TOO_MANY_REQUESTS:
            raise
        return False
    return _answer(stage, None, _NEXT) == "404" and "unknown field" in _answer(stage, "trainer", "v1alpha1")


@pytest.mark.parametrize("place", _PLACES)
def test_a_new_field_is_rejected(stage: Stage, place: str) -> None:
    assert "'cpu-kubernetes-patches'" in _answer(stage, place, "v1alpha1")
    assert "newField" in _answer(stage, place, "v1alpha1")


def test_a_new_version_is_rejected(stage: Stage) -> None:
    assert "trainjobs.trainer.kubeflow.org of the version v1beta1, which the policies do not read" in _answer(
        stage, None, _NEXT
    )


def test_the_version_of_the_policies_is_accepted(stage: Stage) -> None:
    assert _answer(stage, None, "v1alpha1") == ""


def _answer(stage: Stage, place: str | None, version: str) -> str:
    """Return why the API server rejects a TrainJob of a submitter with a new field at a path; empty if it does not."""
    job = fill(train_job({"name": "newer"}, PERSONAS["submitter"]), stage.scene.names)
    job["apiVersion"] = f"trainer.kubeflow.org/{version}"
    if place is not None:
        here = job["spec"]
        for name in place.split():
            here = _below(here, name)
        here["newField"] = {}
    path = f"/apis/trainer.kubeflow.org/{version}/namespaces/{stage.team}/trainjobs"
    try:
        stage.clients["submitter"].request("POST", f"{path}?dryRun=All&fieldValidation=Strict", job)
    except RefusedError as refused:
        return "404" if refused.status == http.client.NOT_FOUND else refused.message
    return ""


_LISTS = {
    "env": {"name": "A"},
    "runtimePatches": {"manager": "example.com/me"},
    "replicatedJobs": {"name": "node"},
    "containers": {"name": "node"},
    "initContainers": {"name": "prepare"},
}
"""List in a TrainJob → its required fields."""


def _below(body: Body, name: str) -> Body:
    """Return the object in a field, or the first one of a list; create it if there is none."""
    if name not in _LISTS:
        found: Body = body.setdefault(name, {})
        return found
    items: list[Body] = body.setdefault(name, [dict(_LISTS[name])])
    return items[0]
