"""Jobs of more hosts than the 64 that a launcher of Open MPI connects to: all ranks start, and all get time to save."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from generator import Manifest
from generator.runtimes.pod_scripts import STOPPED
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.offline import OfflineJob
from tests.cluster.mpi.stage import Stage, code
from tests.cluster.mpi.test_trees import CHAINS, LAUNCHERS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
HOSTS = 66
GRACE = 120  # seconds, in ends.yaml
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


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("mpi", CHAINS)
def test_a_job_of_66_hosts_starts_all_ranks(
    mpi: str, launcher: str, images: Callable[[str], Image], trees_platform: list[Manifest], tmp_path: Path
) -> None:
    command = ["mpirun", "python3", "-c", PROGRAM]
    job = OfflineJob.on(f"{mpi}-{launcher}", command, trees_platform, hosts=HOSTS, slots=[1] * HOSTS)
    outcome = job.run(images, tmp_path, seconds=500)
    assert outcome.codes.get((job.launcher["metadata"]["name"], "node")) == 0, str(outcome)
    (line,) = (line for line in outcome.log(job.launcher, "node").splitlines() if line.startswith("[["))
    expected = {host.partition(".")[0] for host in job.compiled.hosts}
    assert {host for host, _ in json.loads(line)} == expected
    assert [total for _, total in json.loads(line)] == [sum(range(HOSTS))] * HOSTS


@pytest.mark.parametrize("runtime", ["openmpi-5-large", "mpich-large"])
def test_all_ranks_of_a_large_job_save_when_one_host_stops(runtime: str, stage: Stage) -> None:
    """The launcher signals the ranks of each host through ssh, 32 hosts at once."""
    command = ("mpirun", "python3", "/opt/smoke/ends.py")
    outcome = stage.run(runtime, command, ("job-node-0-7",), hosts=HOSTS)
    assert code(outcome) == STOPPED, str(outcome)
    signals = stage.saved.values()
    assert [len(received) for received in signals] == [1] * HOSTS, str(outcome)
    assert max(map(max, signals)) - min(map(min, signals)) < GRACE
