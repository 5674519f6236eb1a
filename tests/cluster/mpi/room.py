"""`python -m tests.cluster.mpi.room FOLDER`: run the pods of FOLDER/room.json, each container's output in FOLDER.

Runs as process 1 of namespaces of its own, so that nothing is left to tidy up. Writes FOLDER/result.json at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.mpi import network
from tests.cluster.mpi.host import ClosedError, Host
from tests.cluster.mpi.plans import Result, Room
from tests.cluster.mpi.storage import furnish


def main() -> None:
    """Run all waves, and tell what became of them."""
    os.umask(0o022)
    folder = Path(sys.argv[1])
    room: Room = json.loads((folder / "room.json").read_text())
    scratch = folder / "scratch"
    scratch.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", scratch], check=True)
    network.open_bridge()
    waves = [[Host(pod, scratch / pod["name"], folder) for pod in wave] for wave in room["waves"]]
    problem = ""
    try:
        _run(waves, time.monotonic() + room["seconds"])
    except ClosedError as error:
        problem = str(error)
    ended = [each for wave in waves for host in wave for each in host.ended()]
    result: Result = {"containers": ended, "problem": problem}
    (folder / "result.json").write_text(json.dumps(result))


def _run(waves: list[list[Host]], deadline: float) -> None:
    pods = [host.plan for wave in waves for host in wave]
    for wave in waves:
        for host in wave:
            furnish(host.plan, pods, host.folder)
            host.start()
        if wave is not waves[-1]:
            _wait(wave, Host.is_ready, deadline, "ready")
    _wait(waves[-1], Host.has_ended, deadline, "done")


def _wait(hosts: list[Host], holds: Callable[[Host], bool], deadline: float, what: str) -> None:
    while waiting := [host.plan["name"] for host in hosts if not holds(host)]:
        if time.monotonic() > deadline:
            raise ClosedError(f"not {what} in time: {', '.join(waiting)}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
