"""Run one pod: a sandbox with a network and a name, and its containers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.mpi import network
from tests.cluster.mpi.container import Entry
from tests.cluster.mpi.plans import Container, Ended, Pod, Target

_SANDBOX = ["--net", "--uts", "--ipc"]
# bytes and lines: kubernetes v1.34.2 pkg/kubelet/container/runtime.go MaxContainerTerminationMessageLength
_MESSAGE, _MESSAGE_OF_LOG, _LINES = 4096, 2048, 80
# seconds: kubernetes v1.34.2 pkg/kubelet/kuberuntime/kuberuntime_manager.go minimumGracePeriodInSeconds
_SHORTEST_STOP = 2
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
        pods: the number of pods of the room.
    """

    plan: Pod
    folder: Path
    logs: Path
    outside: Iterable[str] = ()
    pods: int = 1
    _sandbox: int = 0
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _ready: set[int] = field(default_factory=set)
    _deleted_at: float | None = None
    _ended_at: dict[str, float] = field(default_factory=dict)
    _killed: set[str] = field(default_factory=set)

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
        network.connect(self._sandbox, self.plan["address"], self.outside, self.plan["networks"], self.pods)
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

    def has_logged(self, text: str) -> bool:
        """Return True if the log of a container has a text."""
        logs = [self._log(container) for container in self.plan["containers"]]
        return any(text in log.read_text(errors="replace") for log in logs if log.exists())

    def delete(self) -> None:
        """Stop all running containers at once, each as the kubelet does, without waiting for them."""
        if self._deleted_at is None:
            self._deleted_at = time.monotonic()
            for container in self.plan["containers"]:
                threading.Thread(target=self._stop, args=(container,), daemon=True).start()

    def _stop(self, container: Container) -> None:
        """Run the preStop hook, then end process 1 with TERM, and with KILL once the grace period is over.

        Sources: kubernetes v1.34.2 pkg/kubelet/kuberuntime/kuberuntime_container.go
        kubeGenericRuntimeManager.killContainer; kubernetes v1.34.2 pkg/kubelet/kuberuntime/kuberuntime_container.go
        kubeGenericRuntimeManager.executePreStopHook; containerd v2.1.4 internal/cri/server/container_stop.go.
        """
        process, grace = self._running[container["name"]], float(self.plan["grace"])
        inside = self._first_process(process)
        if container["pre_stop"] and grace > 0 and process.poll() is None:
            started = time.monotonic()
            hook = self._execute(container, inside, container["pre_stop"])
            _wait_for([hook, process], grace)
            grace -= int(time.monotonic() - started)
        _signal(inside, signal.SIGTERM)
        _wait_for([process], max(grace, _SHORTEST_STOP))
        if process.poll() is None:
            self._killed.add(container["name"])
            _signal(inside, signal.SIGKILL)

    def _execute(self, container: Container, inside: int, command: list[str]) -> subprocess.Popen[bytes]:
        """Run a command in a running container, as its user and with its variables, as `exec` of a runtime does."""
        entry = self.folder / "containers" / container["name"] / "entry.json"
        enter = ["nsenter", f"--target={inside}", "--mount", "--pid", *_SANDBOX]
        run = [sys.executable, "-m", "tests.cluster.mpi.container", str(entry), json.dumps(command)]
        with (self.logs / f"{self.plan['name']}.{container['name']}.preStop.log").open("wb") as log:
            return subprocess.Popen(
                [*enter, *run],
                env={**os.environ, "PYTHONPATH": str(Path.cwd())},  # nsenter leaves the folder
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @staticmethod
    def _first_process(process: subprocess.Popen[bytes]) -> int:
        """Return process 1 of a container: the child of the `unshare` that nsenter became; 0 if it has ended."""
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        except OSError:
            return 0
        return int(children[0]) if children else 0

    def has_ended(self) -> bool:
        """Return True if no container runs."""
        return all(self._code(container) is not None for container in self.plan["containers"])

    def ended(self) -> list[Ended]:
        """Return the outcome of each started container."""
        planned = [*self.plan["init"], *self.plan["containers"]]
        started = [container for container in planned if container["name"] in self._running]
        return [
            {
                "pod": self.plan["name"],
                "container": one["name"],
                "code": (code := self._code(one)),
                "message": self._message(one, code),
                "stopped_in": self._stopped_in(one),
            }
            for one in started
        ]

    def _code(self, container: Container) -> int | None:
        """The exit code; 128 and the signal if a signal ended it, as runtimes have it; None while it runs."""
        code = self._running[container["name"]].poll()
        if code is None:
            return None
        self._ended_at.setdefault(container["name"], time.monotonic())
        if container["name"] in self._killed:  # unshare fails with a code of its own then
            return 128 + signal.SIGKILL
        return code if code >= 0 else 128 - code

    def _stopped_in(self, container: Container) -> float | None:
        ended = self._ended_at.get(container["name"])
        return None if self._deleted_at is None or ended is None else ended - self._deleted_at

    def _message(self, container: Container, code: int | None) -> str:
        """Source: kubernetes v1.34.2 pkg/kubelet/kuberuntime/kuberuntime_container.go getTerminationMessage."""
        if code is None:
            return ""
        written = self.folder / "containers" / container["name"] / "termination-log"
        message = written.read_bytes()[:_MESSAGE] if written.exists() else b""
        if not message and container["message_from_log"] and code:
            lines = self._log(container).read_bytes().splitlines(keepends=True)
            message = b"".join(lines[-_LINES:])[-_MESSAGE_OF_LOG:]
        return message.decode(errors="replace")

    def _log(self, container: Container) -> Path:
        return self.logs / f"{self.plan['name']}.{container['name']}.log"

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
        with self._log(container).open("wb") as log:
            process = subprocess.Popen(
                [*inside, *fresh, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self._running[container["name"]] = process
        return process


def _wait_for(processes: list[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait until one of the processes ends, or the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and all(process.poll() is None for process in processes):
        time.sleep(0.02)


def _signal(process: int, number: signal.Signals) -> None:
    try:
        if process:
            os.kill(process, number)
    except ProcessLookupError:
        pass
