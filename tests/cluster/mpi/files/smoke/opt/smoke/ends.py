"""Run until SIGTERM, and save then. Each rank saves by itself, and exchanges nothing with other ranks."""

import os
import signal
import time
from pathlib import Path

from mpi4py import MPI  # type: ignore[import-not-found]  # it is in the image only

SECONDS = float(os.environ.get("SECONDS_TO_SAVE", "2"))
world = MPI.COMM_WORLD
folder = Path(os.environ["MPIGEN_CHECKPOINT"])
received: list[float] = []
signal.signal(signal.SIGTERM, lambda *_: received.append(time.time()))
world.Barrier()
if world.Get_rank() == 0:
    os.write(1, b"all ranks run\n")
while not received:
    time.sleep(0.05)
end = time.monotonic() + SECONDS
while time.monotonic() < end:  # a signal would end a sleep
    time.sleep(0.05)
(folder / f"saved-{world.Get_rank()}-of-{world.Get_size()}").write_text("\n".join(map(str, received)))
