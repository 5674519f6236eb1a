"""Really run pods: outside of the room."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.cluster.client import Body
from tests.cluster.mpi import network
from tests.cluster.mpi.environment import Lookup
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.namespaces import guarded
from tests.cluster.mpi.plans import Pod, Result, Room
from tests.cluster.mpi.pods import Place, planned
from tests.conftest import ROOT

_CLOSING = 10  # seconds for a room to end by itself after its time is over


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of pods.

    Attributes:
        folder: where the logs are.
        codes: pod and container → its exit code; None if it ran until the end.
        problem: why the pods were not run to their end; else empty.
    """

    folder: Path
    codes: dict[tuple[str, str], int | None]
    problem: str

    def log(self, pod: Body, container: str) -> str:
        """What a container printed."""
        return (self.folder / f"{pod['metadata']['name']}.{container}.log").read_text(errors="replace")

    def __str__(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        tails = [f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs]
        return "\n".join(
            [self.problem or "no problem", *(f"{key}: {code}" for key, code in self.codes.items()), *tails]
        )


class RoomError(RuntimeError):
    """The pods were not run: something is wrong with this machine or with the tests."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs pods of one namespace.

    Attributes:
        lookup: the objects of the namespace.
        image: what the images of the pods are.
        names_users: see `Place`.
    """

    lookup: Lookup
    image: Callable[[str], Image]
    names_users: bool = False

    def run(self, waves: Sequence[Sequence[Body]], folder: Path, seconds: float = 60) -> Outcome:
        """Run pods, each wave when the one before is ready, until those of the last one end; then end all others.

        Args:
            waves: the pods.
            folder: an empty one, for the logs.
            seconds: how long that may take.

        Raises:
            UnsupportedError: a pod asks for what is not imitated.
            RoomError: they could not be run.
        """
        numbers = count(1)
        room: Room = {"waves": [[self._plan(pod, next(numbers)) for pod in wave] for wave in waves], "seconds": seconds}
        (folder / "room.json").write_text(json.dumps(room))
        command: list[str | Path] = [sys.executable, "-m", "tests.cluster.mpi.room", folder]
        done = subprocess.run(
            guarded(command, "--mount-proc", "--net", "--uts", "--ipc"),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds + _CLOSING,
            check=False,
        )
        if done.returncode:
            raise RoomError(done.stdout)
        result: Result = json.loads((folder / "result.json").read_text())
        codes = {(ended["pod"], ended["container"]): ended["code"] for ended in result["containers"]}
        return Outcome(folder, codes, result["problem"])

    def _plan(self, pod: Body, number: int) -> Pod:
        return planned(pod, Place(network.address(number), self.image, self.lookup, self.names_users))
