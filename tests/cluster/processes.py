"""Processes of a control plane: each in a session of its own, with a log of its own, ended by its own id."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

_GUARD = Path(__file__).with_name("guard.py")
_GARBAGE = "300"  # percent of what lives, until Go collects it: two gigabytes more, a quarter of the time less
_MEMORY = "3GiB"  # from here Go collects garbage more often, or API servers of a long run would fill the machine
_FIRST_PORT, _LAST_PORT = 10_000, 32_000  # below the range that outgoing connections are given
_CHOSEN: set[int] = set()


class StartError(RuntimeError):
    """A program did not come up; the message ends with its log."""


@dataclass(slots=True)
class Processes:
    """The processes of one control plane.

    Attributes:
        folder: where the logs are.
    """

    folder: Path
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _started: dict[str, partial[None]] = field(default_factory=dict)

    def start(self, name: str, command: list[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """Run a command in the background; it dies with us, however we end."""
        self._started[name] = partial(self.start, name, command, environment)
        guarded = [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), *map(str, command)]
        home = {"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "GOGC": _GARBAGE, "GOMEMLIMIT": _MEMORY}
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                guarded,
                cwd=self.folder,
                env={**home, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        """Return the log file of a program."""
        return self.folder / f"{name}.log"

    def wait(self, name: str, ready: Callable[[], bool], seconds: float = 180) -> None:
        """Until the program is ready.

        Raises:
            StartError: it ended, or took too long.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            ended = self._running[name].poll()
            if ended is not None:
                raise StartError(f"{name} ended with code {ended}:\n{self.tail(name)}")
            if time.monotonic() > deadline:
                raise StartError(f"{name} is not ready after {seconds:.0f} s:\n{self.tail(name)}")
            time.sleep(0.05)

    def tail(self, name: str, lines: int = 30) -> str:
        """The end of a program's log."""
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-lines:])

    def names(self) -> list[str]:
        """Of everything that was started, in order."""
        return list(self._running)

    def process(self, name: str) -> int:
        """Return the id of a program's process."""
        return self._running[name].pid  # guard.py becomes the program

    def restart(self, name: str) -> None:
        """End a program, and start it again with the same command."""
        self.end(name)
        self._started[name]()

    def end(self, name: str) -> None:
        """End one program; it may be started again, and goes on in the same log."""
        self._running[name].kill()
        self._running[name].wait()

    def stop(self) -> None:
        """Kill all processes in reverse order of their start, because their data is thrown away."""
        for process in reversed(self._running.values()):
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Return random unused ports of 127.0.0.1, so that two runs do not conflict.

    A program binds its port later. So no port is returned twice, and the workers of a run choose among different ports.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = range(_FIRST_PORT + worker, _LAST_PORT, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    found: list[int] = []
    while len(found) < count:
        port = random.choice(ports)
        if port not in _CHOSEN and _is_free(port):
            _CHOSEN.add(port)
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listens(port: int) -> bool:
    """Return True if a server accepts connections on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
