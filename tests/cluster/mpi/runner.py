"""Really run pods: outside of the room."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from tests.cluster.client import Body
from tests.cluster.mpi import network
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.namespaces import guarded
from tests.cluster.mpi.plans import Attempt, Deletion, Pod, Result, Room, Target
from tests.cluster.mpi.pods import Place, planned
from tests.conftest import ROOT

_CLOSING = 10  # seconds for a room to end by itself after its time is over


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of pods.

    Attributes:
        folder: where the logs are.
        codes: pod and container → its exit code; None if it ran until the end.
        problem: why the pods were not run to their end; else empty.
        attempts: what came of each of the surroundings', as attempts.py says.
        messages: pod and container → its termination message.
        stopped_in: pod and container → how many seconds after the deletion of its pod the container had ended.
    """

    folder: Path
    codes: dict[tuple[str, str], int | None]
    problem: str
    attempts: list[str]
    messages: dict[tuple[str, str], str] = field(default_factory=dict)
    stopped_in: dict[tuple[str, str], float] = field(default_factory=dict)

    def log(self, pod: Body, container: str) -> str:
        """Return the output of a container."""
        return (self.folder / f"{pod['metadata']['name']}.{container}.log").read_text(errors="replace")

    def __str__(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        tails = [f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs]
        return "\n".join(
            [self.problem or "no problem", *(f"{key}: {code}" for key, code in self.codes.items()), *tails]
        )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Firewalls, outside servers and attempts around the pods.

    Attributes:
        firewalls: name of a pod → its rules, for nftables.
        outside: what answers beyond the pods.
        attempts: what pods try while the last wave runs.
        deletions: which pods are deleted while the last wave runs. The room then also waits for the end of these pods.
    """

    firewalls: Mapping[str, str] = field(default_factory=dict)
    outside: Sequence[Target] = ()
    attempts: Sequence[Attempt] = ()
    deletions: Sequence[Deletion] = ()


class RoomError(RuntimeError):
    """The pods were not run: something is wrong with this machine or with the tests."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs pods.

    Attributes:
        lookup: namespace, kind and name → the object that pods refer to.
        image: what the images of the pods are.
        names_users: see `Place`.
        claims: name of a PersistentVolumeClaim → the folder that all its pods share.
    """

    lookup: Callable[[str, str, str], Body]
    image: Callable[[str], Image]
    names_users: bool = False
    claims: Mapping[str, Path] = field(default_factory=dict)

    def run(
        self,
        waves: Sequence[Sequence[Body]],
        folder: Path,
        seconds: float = 120,
        around: Surroundings = Surroundings(),
    ) -> Outcome:
        """Run pods in waves until the pods of the last wave end, and then end all others.

        Args:
            waves: the pods.
            folder: an empty one, for the logs.
            seconds: how long that may take.
            around: what is around them.

        Raises:
            UnsupportedError: a pod asks for what is not imitated.
            RoomError: they could not be run.
        """
        placed = addresses(waves)
        room: Room = {
            "waves": [[self._plan(pod, placed[pod["metadata"]["name"]], around) for pod in wave] for wave in waves],
            "outside": [*around.outside],
            "attempts": [*around.attempts],
            "deletions": [*around.deletions],
            "seconds": seconds,
        }
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
        ended = {(one["pod"], one["container"]): one for one in result["containers"]}
        return Outcome(
            folder,
            codes={key: one["code"] for key, one in ended.items()},
            problem=result["problem"],
            attempts=result["attempts"],
            messages={key: one["message"] for key, one in ended.items()},
            stopped_in={key: one["stopped_in"] for key, one in ended.items() if one["stopped_in"] is not None},
        )

    def _plan(self, pod: Body, address: str, around: Surroundings) -> Pod:
        def lookup(kind: str, name: str) -> Body:
            if kind == "PersistentVolumeClaim" and name in self.claims:
                return {"spec": {"volumeName": str(self.claims[name])}}
            return self.lookup(pod["metadata"]["namespace"], kind, name)

        firewall = around.firewalls.get(pod["metadata"]["name"], "")
        return planned(pod, Place(address, self.image, lookup, self.names_users, firewall))


def addresses(waves: Sequence[Sequence[Body]]) -> dict[str, str]:
    """Name of a pod → the address that it has when these are run."""
    names = [pod["metadata"]["name"] for pod in chain.from_iterable(waves)]
    return {name: network.address(number) for number, name in enumerate(names, start=1)}
