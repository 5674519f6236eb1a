"""The API server still says of every case what is recorded, and differs from mpigen only where it was reviewed."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.cluster.client import Client, wait_until
from tests.cluster.differential.cases import NAMESPACE, Body, read_cases, read_seeds
from tests.cluster.differential.judges import Answer, ApiServer
from tests.cluster.differential.verdicts import (
    disagreements,
    of_server,
    read_answers,
    read_causes,
    record,
    reviewed,
)

pytestmark = pytest.mark.cluster
SEEDS, CASES = read_seeds(), read_cases()


def stored() -> list[Body]:
    """What the seeds need on the cluster: their namespace, and the runtime that the TrainJob names."""
    runtime = copy.deepcopy(SEEDS["ClusterTrainingRuntime/differential-openmpi"])
    runtime["metadata"]["name"] = SEEDS["TrainJob/allreduce"]["spec"]["runtimeRef"]["name"]
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, runtime]


@pytest.fixture(scope="module")
def answers(admin: Client, pytestconfig: pytest.Config) -> Iterator[dict[str, Answer]]:
    """What the API server says today."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": NAMESPACE}}
    for body in stored():
        admin.apply(body, "tests")
    wait_until("Pods can be created", lambda: admin.exists(account))
    found = ApiServer(admin, SEEDS).answers(CASES.values())
    if pytestconfig.getoption("--record"):
        record(found)
    yield found
    for body in stored():
        admin.delete(body)


def test_the_api_server_says_what_is_recorded(answers: dict[str, Answer]) -> None:
    recorded = read_answers()
    new = {name: answer for name, answer in answers.items() if of_server(answer) != of_server(recorded[name])}
    assert new == {}


def test_mpigen_differs_from_the_api_server_only_where_it_was_reviewed(answers: dict[str, Answer]) -> None:
    assert disagreements(CASES, SEEDS, answers) == dict(reviewed(read_causes()))


def test_nothing_of_a_case_is_stored(admin: Client, answers: dict[str, Answer]) -> None:
    assert answers
    assert not [name for name, seed in SEEDS.items() if admin.exists(seed)]
