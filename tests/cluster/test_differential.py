"""Test that the API server answers as recorded, and differs from mpigen only in reviewed cases."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.cluster.client import RefusedError, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.differential.cases import NAMESPACE, Body, Case, read_cases, read_seeds
from tests.cluster.differential.judges import Answer, ApiServer
from tests.cluster.differential.templates import ACCOUNT
from tests.cluster.differential.templates import NAMESPACE as PODS
from tests.cluster.differential.verdicts import (
    disagreements,
    of_server,
    read_answers,
    read_causes,
    record,
    reviewed,
)

pytestmark = pytest.mark.cluster
SEEDS = read_seeds()
ABSENT = {"default": set[str](), "previous": set[str]()}
"""Set of releases → kinds that it does not serve."""


def stored() -> list[Body]:
    """Return the namespaces, ServiceAccounts and runtime that the seeds need."""
    runtime = copy.deepcopy(SEEDS["ClusterTrainingRuntime/differential-openmpi"])
    runtime["metadata"]["name"] = SEEDS["TrainJob/allreduce"]["spec"]["runtimeRef"]["name"]
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (NAMESPACE, PODS)]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": PODS}}
    return [*namespaces, account, runtime]


@pytest.fixture(scope="module")
def cases(cluster: Cluster) -> dict[str, Case]:
    """Return the cases of kinds that this control plane serves."""
    absent = ABSENT[cluster.versions.name]
    return {name: case for name, case in read_cases().items() if SEEDS[case.seed]["kind"] not in absent}


@pytest.fixture(scope="module")
def answers(cluster: Cluster, cases: dict[str, Case], pytestconfig: pytest.Config) -> Iterator[dict[str, Answer]]:
    """Return the current answers of the API server, and record them on request."""
    admin = cluster.admin
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    accounts = [{**account, "metadata": {"name": "default", "namespace": name}} for name in (NAMESPACE, PODS)]
    for body in stored():
        admin.apply(body, "tests")
    wait_until("Pods can be created", lambda: all(map(admin.exists, accounts)))
    found = ApiServer(admin, SEEDS).answers(cases.values())
    if pytestconfig.getoption("--record"):
        record(cluster.versions.name, found)
    yield found
    for body in stored():
        admin.delete(body)


def test_the_api_server_answers_as_recorded(cluster: Cluster, answers: dict[str, Answer]) -> None:
    recorded = read_answers(cluster.versions.name)
    new = {name: answer for name, answer in answers.items() if of_server(answer) != of_server(recorded[name])}
    assert new == {}


def test_mpigen_differs_from_the_api_server_only_in_reviewed_cases(
    cases: dict[str, Case], answers: dict[str, Answer]
) -> None:
    """`mpigen validate` judges by the default set, so cases in which another set differs from it are left out."""
    default = read_answers()
    alike = {name: case for name, case in cases.items() if of_server(answers[name]) == of_server(default[name])}
    known = {name: verdict for name, verdict in reviewed(read_causes()) if name in alike}
    assert disagreements(alike, SEEDS, answers) == known


def test_only_kinds_that_are_not_served_are_left_out(cluster: Cluster) -> None:
    assert {seed["kind"] for seed in SEEDS.values() if not is_served(cluster, seed)} == ABSENT[cluster.versions.name]


def test_dry_runs_of_cases_store_nothing(cluster: Cluster, answers: dict[str, Answer]) -> None:
    assert answers
    absent = ABSENT[cluster.versions.name]
    assert not [name for name, seed in SEEDS.items() if seed["kind"] not in absent and cluster.admin.exists(seed)]


def is_served(cluster: Cluster, seed: Body) -> bool:
    try:
        return bool(cluster.admin.resource(seed["apiVersion"], seed["kind"]))
    except RefusedError as refused:
        if refused.status != 404:
            raise
        return False
