"""How long a command takes, of the wall clock and of processors, and how much memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Timing:
    """The best of several runs.

    Attributes:
        seconds: of the wall clock.
        of_processors: seconds, of all processors together; what else the machine does matters less to it.
        peak_mib: the largest resident set.
    """

    seconds: float
    of_processors: float
    peak_mib: float


NEVER = Timing(float("inf"), float("inf"), 0)
"""What any run is better than."""


def measure(command: Sequence[str | Path], runs: int, environment: Mapping[str, str] | None = None) -> Timing:
    """Run a command several times, its output discarded, and keep the least of both times.

    Raises:
        RuntimeError: it failed.
    """
    best = NEVER
    for _ in range(runs):
        best = better(best, _once([str(part) for part in command], {**os.environ, **(environment or {})}))
    return best


def better(one: Timing, other: Timing) -> Timing:
    """The best of two, of each time by itself."""
    fastest = min(one, other, key=lambda timing: timing.seconds)
    least = min(one.of_processors, other.of_processors)
    return Timing(fastest.seconds, least, fastest.peak_mib)


def _once(command: Sequence[str], environment: Mapping[str, str]) -> Timing:
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    with process:
        if process.returncode != 0:
            assert process.stderr is not None
            raise RuntimeError(f"{command[0]} failed: {process.stderr.read().decode()}")
    return Timing(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
