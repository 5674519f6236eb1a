"""Test that mpigen reports exactly the updates that the control plane rejects, field by field and kind by kind."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.updates.answers import (
    Answer,
    ControlPlane,
    disagreements,
    read_answers,
    record,
    unexplained,
)
from tests.cluster.updates.cases import ABSENT, NAMESPACE, QUOTAS, Case, read_seeds, served

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def cases(cluster: Cluster) -> dict[str, Case]:
    """Return the cases of kinds that this control plane serves."""
    return served(cluster.versions.name)


def stored(absent: Collection[str]) -> list[Body]:
    """Return the seeds and their requirements: namespaces, and the runtime of the TrainJobs."""
    seeds = read_seeds()
    runtime = copy.deepcopy(seeds["ClusterTrainingRuntime/updates-openmpi"])
    runtime["metadata"]["name"] = "updates-stored"
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (NAMESPACE, QUOTAS)]
    return [*namespaces, runtime, *(seed for seed in seeds.values() if seed["kind"] not in absent)]


@pytest.fixture(scope="module")
def refusals(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Store the seeds, and return rejected ones: `Kind/name` → message."""
    admin = cluster.admin
    bodies = stored(ABSENT[cluster.versions.name])
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}
    refused = {}
    for body in bodies:
        if body["kind"] == "Pod":
            wait_until("Pods can be created", lambda: admin.exists(account))
        try:
            admin.apply(body)
        except RefusedError as error:
            refused[f"{body['kind']}/{body['metadata']['name']}"] = error.message
    claim = read_seeds()["PersistentVolumeClaim/bound"]
    wait_until("the claim is bound", lambda: admin.read(claim)["status"]["phase"] == "Bound")
    wait_until("the Job has started", lambda: "startTime" in admin.read(read_seeds()["Job/running"])["status"])
    yield refused
    remove(admin, bodies)


@pytest.fixture(scope="module")
def answers(
    cluster: Cluster, cases: dict[str, Case], refusals: dict[str, str], pytestconfig: pytest.Config
) -> dict[str, Answer]:
    """Return the current answers to the updates of all stored seeds."""
    found = ControlPlane(cluster.admin).answers(case for case in cases.values() if case.seed not in refusals)
    if pytestconfig.getoption("--record"):
        record(cluster.versions.name, cases, found)
    return found


def remove(admin: Client, bodies: list[Body]) -> None:
    for body in reversed(bodies):
        admin.delete(body)


def targets(cluster: Cluster) -> dict[str, str]:
    return {name: program.minor for name, program in cluster.versions.programs.items()}


def test_every_seed_is_stored(refusals: dict[str, str]) -> None:
    assert refusals == {}


def test_the_control_plane_answers_as_recorded(cluster: Cluster, answers: dict[str, Answer]) -> None:
    recorded = read_answers(cluster.versions.name)
    assert {name: answer for name, answer in answers.items() if answer is not recorded.get(name)} == {}


def test_mpigen_differs_only_in_reviewed_cases(
    cluster: Cluster, cases: dict[str, Case], answers: dict[str, Answer]
) -> None:
    asked = {name: cases[name] for name in answers}
    assert unexplained(disagreements(asked, answers, targets(cluster)), cluster.versions.name) == {}


def test_only_kinds_that_are_not_served_are_left_out(cluster: Cluster) -> None:
    missing = {seed["kind"] for seed in read_seeds().values() if not is_served(cluster, seed)}
    assert missing == ABSENT[cluster.versions.name]


def is_served(cluster: Cluster, seed: dict[str, Any]) -> bool:
    try:
        return bool(cluster.admin.resource(seed["apiVersion"], seed["kind"]))
    except (RefusedError, KeyError):
        return False
