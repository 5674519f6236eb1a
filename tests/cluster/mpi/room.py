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
from functools import partial
from pathlib import Path

from tests.cluster.mpi import network
from tests.cluster.mpi.host import ClosedError, Host
from tests.cluster.mpi.outside import serve
from tests.cluster.mpi.plans import Attempt, Deletion, Result, Room
from tests.cluster.mpi.storage import furnish


def main() -> None:
    """Run all waves and write the results."""
    os.umask(0o022)
    folder = Path(sys.argv[1])
    room: Room = json.loads((folder / "room.json").read_text())
    scratch = folder / "scratch"
    scratch.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", scratch], check=True)
    outside = sorted({target["address"] for target in room["outside"]})
    network.open_bridge(outside)
    serve(room["outside"])
    size = sum(map(len, room["waves"]))
    waves = [[Host(pod, scratch / pod["name"], folder, outside, size) for pod in wave] for wave in room["waves"]]
    problem, answers = "", list[str]()
    try:
        deadline = time.monotonic() + room["seconds"]
        _run(waves, room["deletions"], deadline, lambda: answers.extend(_attempt(waves, room["attempts"])))
    except ClosedError as error:
        problem = str(error)
    ended = [each for wave in waves for host in wave for each in host.ended()]
    result: Result = {"containers": ended, "attempts": answers, "problem": problem}
    (folder / "result.json").write_text(json.dumps(result))


def _run(waves: list[list[Host]], deletions: list[Deletion], deadline: float, meanwhile: Callable[[], None]) -> None:
    pods = [host.plan for wave in waves for host in wave]
    for wave in waves:
        for host in wave:
            furnish(host.plan, pods, host.folder)
            host.start()
        if wave is not waves[-1]:
            _wait(wave, Host.is_ready, deadline, "ready")
    meanwhile()
    hosts = {host.plan["name"]: host for wave in waves for host in wave}
    deleted = list[Host]()
    for deletion in deletions:
        _wait([hosts[deletion["of"]]], partial(Host.has_logged, text=deletion["text"]), deadline, "there yet")
        for name in deletion["pods"]:
            hosts[name].delete()
            deleted.append(hosts[name])
    _wait([*waves[-1], *deleted], Host.has_ended, deadline, "done")


def _attempt(waves: list[list[Host]], attempts: list[Attempt]) -> list[str]:
    """Return the outcome of each attempt; all pods try at once."""
    hosts = {host.plan["name"]: host for wave in waves for host in wave}
    theirs = {name: [one["target"] for one in attempts if one["pod"] == name] for name in hosts}
    asking = {name: hosts[name].attempt(targets) for name, targets in theirs.items() if targets}
    answers = {name: iter(json.loads(process.communicate()[0])) for name, process in asking.items()}
    return [next(answers[one["pod"]]) for one in attempts]


def _wait(hosts: list[Host], holds: Callable[[Host], bool], deadline: float, what: str) -> None:
    while waiting := [host.plan["name"] for host in hosts if not holds(host)]:
        if time.monotonic() > deadline:
            raise ClosedError(f"not {what} in time: {', '.join(waiting)}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
