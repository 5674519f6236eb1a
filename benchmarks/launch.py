"""Measure how long `mpirun` takes to start, connect and end all ranks of a job: `python -m benchmarks.launch [HOSTS…]`.

Each host is a pod with one rank, on this machine. The peer starts the same ranks without a launch tree: the launcher
connects to all hosts. On one machine, both need the same work, so the ratio shows that a tree costs no time; on a
cluster, the hosts of a tree share the work. MPICH has no tree.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from generator import Manifest
from tests.cluster.mpi.conftest import PLATFORMS
from tests.cluster.mpi.images import image
from tests.cluster.mpi.offline import OfflineJob, manifests_of
from tests.cluster.mpi.test_large_jobs import PROGRAM

SIZES = (16, 66, 132, 198)
SECONDS = 600
"""After this time, a job counts as failed."""
FLAT: Mapping[str, Mapping[str, str]] = {
    "openmpi-4": {"OMPI_MCA_plm_rsh_no_tree_spawn": "1"},
    "openmpi-5": {"PRTE_MCA_plm_ssh_no_tree_spawn": "1"},
    "intel-mpi": {"I_MPI_HYDRA_BRANCH_COUNT": "1000"},
    "mpich": {},
}
_TIMED = 'start=$(date +%s%N); mpirun python3 -c "$0"; code=$?; echo "took $(($(date +%s%N) - start))"; exit "$code"'


def main(sizes: Sequence[int]) -> None:
    """Print a table: MPI, hosts, seconds with a tree, seconds without, ratio."""
    table = Table("MPI", "hosts", "tree", "no tree", "ratio", title="seconds of mpirun")
    manifests = manifests_of(PLATFORMS / "trees.yaml")
    for mpi, variables in FLAT.items():
        for hosts in sizes:
            tree = _seconds(mpi, hosts, {}, manifests)
            flat = _seconds(mpi, hosts, variables, manifests) if variables else None
            ratio = f"{tree / flat:.2f}" if tree and flat else ""
            row = (mpi, str(hosts), _format(tree), _format(flat) if variables else "", ratio)
            table.add_row(*row)
            print("  ".join(row), file=sys.stderr, flush=True)
    Console().print(table)


def _seconds(mpi: str, hosts: int, variables: Mapping[str, str], manifests: Sequence[Manifest]) -> float | None:
    """Return the duration of `mpirun`; None if the job failed."""
    command = ["sh", "-c", _TIMED, PROGRAM]
    job = OfflineJob.on(f"{mpi}-separate", command, manifests, hosts=hosts, slots=[1] * hosts, variables=variables)
    with tempfile.TemporaryDirectory() as folder:
        outcome = job.run(image, Path(folder), seconds=SECONDS)
        if outcome.codes.get((job.launcher["metadata"]["name"], "node")) != 0:
            return None
        lines = outcome.log(job.launcher, "node").splitlines()
    return next(int(line.split()[1]) / 1e9 for line in lines if line.startswith("took "))


def _format(seconds: float | None) -> str:
    return "failed" if seconds is None else f"{seconds:.1f}"


if __name__ == "__main__":
    main([*map(int, sys.argv[1:])] or SIZES)
