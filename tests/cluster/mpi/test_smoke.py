"""Test that the job of `mpigen job new --smoke` passes with every MPI, and fails on one host."""

from __future__ import annotations

import pytest

from generator.jobs.request import JobRequest
from tests.cluster.mpi.conftest import MPIS, Change, Play
from tests.cluster.mpi.gangs import Gang
from tests.cluster.mpi.test_worlds import command, without
from tests.offers import job_of

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def smoke(gang: Gang) -> Change:
    """Let the launcher of a gang run the smoke test of its runtime instead."""
    trainer = job_of(gang.platform, JobRequest(gang.runtime, is_smoke=True)).body["spec"]["trainer"]
    assert trainer["numNodes"] == gang.hosts
    return command(*trainer["command"])


@pytest.mark.parametrize("runtime", MPIS)
def test_the_smoke_test_passes_with_every_mpi(runtime: str, play: Play, gangs: dict[str, Gang]) -> None:
    world = play(gangs[runtime], smoke(gangs[runtime]))
    said = world.outcome.log(world.launcher, "node")
    assert (world.code, said.count("PASS: allreduce over 6 ranks on 3 hosts")) == (0, 1), str(world.outcome)


def test_ranks_that_all_run_on_the_launcher_fail_the_smoke_test(play: Play, gangs: dict[str, Gang]) -> None:
    """Open MPI 5 does so without our variables and exits with 0: kubeflow/trainer#4028."""
    gang = gangs["openmpi-5"]
    change = smoke(gang)
    world = play(gang, lambda pod: without("PRTE_")(change(pod)))
    said = world.outcome.log(world.launcher, "node")
    assert world.code not in {0, None}
    assert "on 1 hosts" in said
    assert "instead of 6 ranks on 3 hosts" in said
    assert "PASS" not in said
