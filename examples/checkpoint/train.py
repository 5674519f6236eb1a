"""Train on CPUs with mpi4py: save when the pods are stopped, and resume from the last checkpoint.

Kubernetes stops the pods of a job when Kueue evicts or preempts it, when a node is drained, or when the job is deleted.
All ranks get SIGTERM then, but not in the same step. So they agree after each step to save and to end together.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from mpi4py import MPI

STEPS = int(os.environ.get("STEPS", "200"))
SECONDS_PER_STEP = float(os.environ.get("SECONDS_PER_STEP", "0.05"))
SECONDS_TO_SAVE = float(os.environ.get("SECONDS_TO_SAVE", "0"))

world = MPI.COMM_WORLD
rank = world.Get_rank()
checkpoints = Path(os.environ["MPIGEN_CHECKPOINT"])
latest = checkpoints / "latest"
signals: list[int] = []


def load() -> tuple[int, int]:
    """Return the step and the value of this rank in the last checkpoint that all ranks wrote."""
    step = world.bcast(int(latest.read_text()) if rank == 0 and latest.exists() else 0)
    if step == 0:
        return 0, rank
    return step, int((checkpoints / f"{step}-{rank}.txt").read_text())


def save(step: int, value: int) -> None:
    """Write the value of each rank. The checkpoint counts after all ranks have written."""
    (checkpoints / f"{step}-{rank}.txt").write_text(str(value))
    time.sleep(SECONDS_TO_SAVE)
    world.Barrier()
    if rank == 0:
        new = checkpoints / "new"
        new.write_text(str(step))
        new.replace(latest)  # at once, so that an interrupted save keeps the last checkpoint
    print(f"rank {rank} saved step {step}", flush=True)


def main() -> None:
    """Train from the last checkpoint to the last step."""
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    step, value = load()
    print(f"rank {rank} of {world.Get_size()} begins at step {step}", flush=True)
    while step < STEPS:
        time.sleep(SECONDS_PER_STEP)
        value = world.allreduce(value * (rank + 1)) % 1_000_003 + rank
        step += 1
        if step % 5 == 0:
            print(f"rank {rank} is at step {step}", flush=True)
        if world.allreduce(bool(signals), MPI.LOR):
            save(step, value)
            return  # with code 0: another code makes mpirun kill the ranks that still save
    total = world.reduce(value)
    if rank == 0:
        print(f"result {total}", flush=True)


main()
