"""Test that `mpigen check-job` decides about random TrainJobs as a real control plane does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from tests.cluster import trees
from tests.cluster.control_plane import Cluster
from tests.cluster.test_check_job import answers, deploy
from tests.random_jobs import random_job
from tests.verdicts import Answer, Case, check, read_verdicts

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
_JOBS = 200
_ON = {"plain": "verdicts-bare", "torch": "verdicts-bare"}
"""Runtime → the namespace of its jobs."""
_RUNS = ("admitted", "waits")  # a job waits only for the jobs before it


def cases() -> Iterator[Case]:
    for number in range(_JOBS):
        runtime = [*_ON][number % len(_ON)]
        body = random_job(str(number), runtime, "TrainingRuntime", _ON[runtime])
        yield Case(body["metadata"]["name"], (), body, "", "", ("", ""))


@pytest.fixture(scope="module")
def real(cluster: Cluster, on_the_cluster: list[trees.Deployed]) -> Iterator[Mapping[str, Answer]]:
    """Yield name → answer of the control plane."""
    if cluster.versions.name != "default":
        pytest.skip("mpigen refuses the topology of this platform for Kueue 0.18")
    trees.remove_all(cluster.admin, on_the_cluster)
    verdicts = read_verdicts()
    deployed = deploy(cluster.admin, verdicts)
    yield answers(cluster, replace(verdicts, groups=[(case,) for case in cases()]))
    for body in reversed(verdicts.objects):
        cluster.admin.delete(body)
    trees.remove(cluster.admin, deployed)


def test_no_random_job_gets_a_wrong_answer(real: Mapping[str, Answer]) -> None:
    """An unknown answer is not wrong."""
    wrong = {}
    for case in cases():
        server, (own,) = real[case.name], check((case,), read_verdicts()).values()
        is_alike = server.verdict == own.verdict or {server.verdict, own.verdict} <= {*_RUNS}
        if own.verdict != "unknown" and not is_alike:
            wrong[case.name] = f"server {server}, mpigen {own}: {case.body['spec']}"
    assert wrong == {}
