"""Run one pod: a sandbox with a network and a name, and its containers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.mpi import network
from tests.cluster.mpi.container import Entry
from tests.cluster.mpi.plans import Container, Ended, Pod, Target

_SANDBOX = ["--net", "--uts", "--ipc"]
_HOLD = 'hostname "$0" && echo && exec sleep infinity'


class ClosedError(RuntimeError):
    """The pods cannot go on; the message says why."""


@dataclass(slots=True)
class Host:
    """A running pod.

    Attributes:
        plan: the plan of the pod.
        folder: the folder from `furnish`.
        logs: folder of the output of its containers.
        outside: reachable addresses outside the hosts.
    """

    plan: Pod
    folder: Path
    logs: Path
    outside: Iterable[str] = ()
    _sandbox: int = 0
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _ready: set[int] = field(default_factory=set)

    def start(self) -> None:
        """Connect it, run the init containers, one after another, then all containers at once.

        Raises:
            ClosedError: an init container failed.
        """
        holder = subprocess.Popen(
            ["unshare", *_SANDBOX, "sh", "-c", _HOLD, self.plan["hostname"]], stdout=subprocess.PIPE
        )
        assert holder.stdout
        holder.stdout.readline()
        self._sandbox = holder.pid
        network.connect(self._sandbox, self.plan["address"], self.outside, self.plan["networks"])
        if self.plan["firewall"]:
            network.guard(self._sandbox, self.plan["firewall"])
        for container in self.plan["init"]:
            self._start(container).wait()
            if code := self._code(container):
                raise ClosedError(f"init container {container['name']} of {self.plan['name']} ended with code {code}")
        for container in self.plan["containers"]:
            self._start(container)

    def is_ready(self) -> bool:
        """Return True if every probed port accepted a connection once.

        Raises:
            ClosedError: a container ended.
        """
        for container in self.plan["containers"]:
            if (code := self._code(container)) is not None:
                raise ClosedError(f"container {container['name']} of {self.plan['name']} ended with code {code}")
        wanted = {container["port"] for container in self.plan["containers"]} - {0, *self._ready}
        self._ready |= {port for port in wanted if network.accepts(self.plan["address"], port)}
        return wanted <= self._ready

    def attempt(self, targets: list[Target]) -> subprocess.Popen[str]:
        """Ask targets from its network; see attempts.py for what is printed."""
        inside = ["nsenter", f"--target={self._sandbox}", "--net"]
        command = [sys.executable, "-m", "tests.cluster.mpi.attempts", json.dumps(targets)]
        return subprocess.Popen([*inside, *command], stdout=subprocess.PIPE, text=True)

    def has_ended(self) -> bool:
        """Return True if no container runs."""
        return all(self._code(container) is not None for container in self.plan["containers"])

    def ended(self) -> list[Ended]:
        """Return the outcome of each started container."""
        planned = [*self.plan["init"], *self.plan["containers"]]
        started = [container for container in planned if container["name"] in self._running]
        return [{"pod": self.plan["name"], "container": one["name"], "code": self._code(one)} for one in started]

    def _code(self, container: Container) -> int | None:
        return self._running[container["name"]].poll()

    def _start(self, container: Container) -> subprocess.Popen[bytes]:
        folder = self.folder / "containers" / container["name"]
        folder.mkdir(parents=True)
        entry: Entry = {
            "container": container,
            "scratch": str(folder),
            "volumes": str(self.folder / "volumes"),
            "hosts": str(self.folder / "hosts"),
            "shared_memory": str(self.folder / "shared-memory"),
        }
        (folder / "entry.json").write_text(json.dumps(entry))
        inside = ["nsenter", f"--target={self._sandbox}", *_SANDBOX]
        fresh = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        command = [sys.executable, "-m", "tests.cluster.mpi.container", str(folder / "entry.json")]
        with (self.logs / f"{self.plan['name']}.{container['name']}.log").open("wb") as log:
            process = subprocess.Popen(
                [*inside, *fresh, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self._running[container["name"]] = process
        return process
