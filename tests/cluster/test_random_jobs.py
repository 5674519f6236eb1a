"""Test that `mpigen check-job` decides about random TrainJobs as a real control plane does."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import pytest

from tests.cluster import trees
from tests.cluster.control_plane import Cluster
from tests.cluster.test_check_job import answers, deploy
from tests.random_jobs import random_job
from tests.verdicts import Answer, Case, Verdicts, check, read_verdicts

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
_SEEDS = range(2000, 2200)
_QUEUE = "verdicts-bare-default"
_ON = {"plain": "verdicts-bare", "torch": "verdicts-bare"}
"""Runtime → the namespace of its jobs."""
_RUNS = ("admitted", "waits")
_QUOTA = {"cpu": 2000, "memory": "4000Gi", "nvidia.com/gpu": 2000}
"""The quota of the queue: no job waits for another job."""


def cases() -> Iterator[Case]:
    for number in _SEEDS:
        runtime = [*_ON][number % len(_ON)]
        body = random_job(str(number), runtime, "TrainingRuntime", _ON[runtime])
        yield Case(body["metadata"]["name"], (), body, "", "", ("", ""))


@cache
def spacious() -> Verdicts:
    """Return the objects of the cluster with quota for all jobs."""
    objects = copy.deepcopy([*read_verdicts().objects])
    (queue,) = (body for body in objects if (body["kind"], body["metadata"]["name"]) == ("ClusterQueue", _QUEUE))
    for group in queue["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
            for row in flavor["resources"]:
                row["nominalQuota"] = _QUOTA[row["name"]]
    return replace(read_verdicts(), objects=objects)


@pytest.fixture(scope="module")
def real(cluster: Cluster, on_the_cluster: list[trees.Deployed]) -> Iterator[Mapping[str, Answer]]:
    """Yield name → answer of the control plane."""
    if cluster.versions.name != "default":
        pytest.skip("mpigen refuses the topology of this platform for Kueue 0.18")
    trees.remove_all(cluster.admin, on_the_cluster)
    verdicts = spacious()
    deployed = deploy(cluster.admin, verdicts)
    yield answers(cluster, replace(verdicts, groups=[(case,) for case in cases()]))
    for body in reversed(verdicts.objects):
        cluster.admin.delete(body)
    trees.remove(cluster.admin, deployed)


def test_no_random_job_gets_a_wrong_answer(real: Mapping[str, Answer]) -> None:
    """An unknown answer is not wrong, and neither is another reason why a job does not run."""
    wrong = []
    for case in cases():
        server, (own,) = real[case.name], check((case,), spacious()).values()
        if own.verdict != "unknown" and (server.verdict in _RUNS) != (own.verdict in _RUNS):
            answers = f"server: {server.verdict} {server.reason}\nmpigen: {own.verdict} {own.reason}"
            wrong.append(f"{case.name}: {json.dumps(case.body['spec'])}\n{answers}")
    assert not wrong, "\n\n".join(wrong)
