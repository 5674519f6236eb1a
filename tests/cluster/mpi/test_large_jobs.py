"""Test that all ranks of jobs start that are larger than the 64 daemons that a launcher of Open MPI starts itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from generator import Manifest
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.offline import OfflineJob, manifests_of
from tests.cluster.mpi.test_trees import CHAINS, LAUNCHERS, PLATFORM

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
HOSTS = 66
PROGRAM = """
import json
from socket import gethostname
from mpi4py import MPI
world = MPI.COMM_WORLD
found = world.gather((gethostname(), world.allreduce(world.rank)))
if found:
    print(json.dumps(found))
"""
"""A program that sends little: ranks that wait for a message use a core each, and the machine has two."""


@pytest.fixture(scope="module")
def manifests() -> list[Manifest]:
    return manifests_of(PLATFORM)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("mpi", CHAINS)
def test_a_job_of_66_hosts_starts_all_ranks(
    mpi: str, launcher: str, images: Callable[[str], Image], manifests: list[Manifest], tmp_path: Path
) -> None:
    command = ["mpirun", "python3", "-c", PROGRAM]
    job = OfflineJob(f"{mpi}-{launcher}", command, manifests, hosts=HOSTS, slots=[1] * HOSTS)
    outcome = job.run(images, tmp_path, seconds=500)
    assert outcome.codes.get((job.launcher["metadata"]["name"], "node")) == 0, str(outcome)
    (line,) = (line for line in outcome.log(job.launcher, "node").splitlines() if line.startswith("["))
    expected = {host.partition(".")[0] for host in job.compiled.hosts}
    assert {host for host, _ in json.loads(line)} == expected
    assert [total for _, total in json.loads(line)] == [sum(range(HOSTS))] * HOSTS
