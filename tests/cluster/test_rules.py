"""Test that a real API server answers as recorded to objects that break one CEL rule of their kind."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

import pytest

from tests.cluster import trees
from tests.cluster.client import Body, RefusedError
from tests.cluster.control_plane import Cluster
from tests.cluster.rules import ANSWERS, NAMESPACE, broken_rules, create_engine, read_answers, read_objects, read_seeds

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def answers(
    cluster: Cluster, pytestconfig: pytest.Config, on_the_cluster: list[trees.Deployed]
) -> Iterator[dict[str, str]]:
    """Return the answer to the creation of each object, and record the answers of the default set on request.

    No example is deployed then, because there can be only one BaselineAdminNetworkPolicy.
    """
    admin = cluster.admin
    trees.remove_all(admin, on_the_cluster)
    runtime = copy.deepcopy(read_seeds()["ClusterTrainingRuntime/rules-initializer"])
    runtime["metadata"]["name"] = read_seeds()["TrainJob/job"]["spec"]["runtimeRef"]["name"]
    needed: list[Body] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, runtime]
    for body in needed:
        admin.apply(body, "tests")
    found = {}
    for name, body in read_objects().items():
        try:
            admin.create(copy.deepcopy(body), dry_run=True)
            found[name] = ""
        except RefusedError as refused:
            found[name] = refused.message
    if pytestconfig.getoption("--record") and cluster.versions.name == "default":
        ANSWERS.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n", "utf-8")
    yield found
    for body in reversed(needed):
        admin.delete(body)


def test_the_api_server_answers_as_recorded(cluster: Cluster, answers: dict[str, str]) -> None:
    if cluster.versions.name == "default":
        assert answers == read_answers()


def test_mpigen_finds_exactly_the_rules_that_the_api_server_finds_broken(
    cluster: Cluster, answers: dict[str, str]
) -> None:
    targets = tuple((name, program.minor) for name, program in cluster.versions.programs.items())
    for name, body in read_objects().items():
        if not create_engine(*targets).violations(body):
            messages = {rule.message or rule.rule for rule in broken_rules(body, *targets)}
            assert bool(messages) is bool(answers[name]), name
            assert all(message in answers[name] for message in messages), name
