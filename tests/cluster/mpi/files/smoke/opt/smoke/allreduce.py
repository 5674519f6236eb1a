"""Every rank adds its number to all others'; rank 0 prints what came out, and who took part, as JSON.

`python3 allreduce.py NAME…` also prints what the variables of those names are on every rank. `sent` is how many bytes
went out by each interface of its host.
"""

import json
import os
import socket
import sys
from array import array
from pathlib import Path

from mpi4py import MPI  # type: ignore[import-not-found]  # it is in the image only

LENGTH = 1 << 17  # a megabyte: no implementation sends that without asking the receiver first

world = MPI.COMM_WORLD
mine, total = array("d", [world.rank] * LENGTH), array("d", [0]) * LENGTH
world.Allreduce(mine, total, MPI.SUM)
sent = {path.name: int((path / "statistics/tx_bytes").read_text()) for path in Path("/sys/class/net").iterdir()}
told = world.gather(
    {
        "host": socket.gethostname(),
        "sums": sorted(set(total)),
        "sent": sent,
        "user": os.getuid(),
        "environment": {name: os.environ.get(name) for name in sys.argv[1:]},
    }
)
if told is not None:
    print(json.dumps({"library": MPI.Get_library_version(), "ranks": told}))  # noqa: T201
