"""Test that each MPI starts as many ranks on each host as the hostfile has slots, also if hosts start further hosts.

Open MPI and Intel MPI start their daemons in a tree: the launcher connects to some hosts, and these connect to others.
The variables below make the tree a chain, so that four hosts are three levels.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from generator import Manifest
from tests.cluster.mpi.conftest import SMOKE
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.network import NODE
from tests.cluster.mpi.offline import OfflineJob
from tests.cluster.mpi.runner import Outcome, Surroundings, addresses

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
CHAINS = {
    "openmpi-4": {"OMPI_MCA_routed_radix": "1"},  # openmpi 4.1.4 orte/mca/routed/radix/routed_radix_component.c
    "openmpi-5": {"PRTE_MCA_rml_base_radix": "1"},  # prrte v3.0.11 src/rml/rml.c
    "intel-mpi": {"I_MPI_HYDRA_BRANCH_COUNT": "1"},
    "mpich": {},  # mpiexec connects to all hosts: mpich src/pm/hydra/lib/tools/bootstrap/external
}
LAUNCHERS = ("node", "separate")
SLOTS = 3
"""processesPerNode of the runtimes, whose pods have two cores."""
UNEVEN = (1, 3, 2, 1)


def ranks_of(job: OfflineJob, outcome: Outcome) -> dict[str, int]:
    """Return host → ranks of a successful job, whose ranks have all exchanged data."""
    name = job.launcher["metadata"]["name"]
    assert outcome.codes.get((name, "node")) == 0, str(outcome)
    (line,) = (line for line in outcome.log(job.launcher, "node").splitlines() if line.startswith("{"))
    ranks = json.loads(line)["ranks"]
    assert [rank["sums"] for rank in ranks] == [[sum(range(len(ranks)))]] * len(ranks)
    assert ranks[0]["host"] == (name if job.runtime.endswith("-node") else job.waves[0][0]["metadata"]["name"])
    return Counter(rank["host"] for rank in ranks)


@pytest.mark.parametrize("slots", [(), UNEVEN], ids=["more-slots-than-cores", "uneven-slots"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("mpi", CHAINS)
def test_a_host_has_one_rank_for_every_slot(
    mpi: str,
    launcher: str,
    slots: tuple[int, ...],
    images: Callable[[str], Image],
    trees_platform: list[Manifest],
    tmp_path: Path,
) -> None:
    job = OfflineJob.on(f"{mpi}-{launcher}", SMOKE, trees_platform, hosts=4, slots=slots, variables=CHAINS[mpi])
    declared = zip(job.compiled.hosts, slots or [SLOTS] * 4, strict=True)
    assert ranks_of(job, job.run(images, tmp_path)) == {host.partition(".")[0]: count for host, count in declared}


@pytest.mark.parametrize("mpi", [mpi for mpi, chain in CHAINS.items() if chain])
def test_hosts_start_further_hosts(
    mpi: str, images: Callable[[str], Image], trees_platform: list[Manifest], tmp_path: Path
) -> None:
    """Without it, the other tests would not show that a tree works."""
    count = "grep -lx ssh /proc/[0-9]*/comm | wc -l"
    text = f"mpirun sh -c '[ $(uname -n) != $0 ] || {{ sleep 1; {count}; }}; sleep 2' $(uname -n)"
    for chain, expected in (({}, range(6, 9)), (CHAINS[mpi], range(1, 4))):
        folder = tmp_path / f"chain-{len(chain)}"
        folder.mkdir()
        job = OfflineJob.on(f"{mpi}-node", ["sh", "-c", text], trees_platform, hosts=4, variables=chain)
        outcome = job.run(images, folder)
        counts = {int(line) for line in outcome.log(job.launcher, "node").splitlines() if line.isdigit()}
        assert counts, str(outcome)
        assert counts <= {*expected}, str(outcome)


@pytest.mark.parametrize("mpi", [mpi for mpi, chain in CHAINS.items() if chain])
def test_a_host_that_another_host_cannot_reach_is_named_with_the_reason(
    mpi: str, images: Callable[[str], Image], trees_platform: list[Manifest], tmp_path: Path
) -> None:
    job = OfflineJob.on(f"{mpi}-separate", SMOKE, trees_platform, hosts=4, variables=CHAINS[mpi])
    placed = addresses(job.waves)
    last, launcher = job.waves[0][-1]["metadata"]["name"], job.launcher["metadata"]["name"]
    closed = f"ip saddr != {{ {NODE}, {placed[launcher]} }} tcp dport 2222 reject with tcp reset"
    rules = f"table ip pods {{ chain input {{ type filter hook input priority 0; {closed}; }}; }}"
    outcome = job.run(images, tmp_path, around=Surroundings(firewalls={last: rules}))
    assert outcome.codes[launcher, "node"] != 0, str(outcome)
    said = outcome.log(job.launcher, "node")
    assert re.search(rf"connect to host {last}\S* port 2222: Connection refused", said), said
