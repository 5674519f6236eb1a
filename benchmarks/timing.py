"""How long a command takes, and how much memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Timing:
    """The best of several runs: seconds of wall clock, and the largest resident set in MiB."""

    seconds: float
    peak_mib: float


def measure(command: Sequence[str | Path], runs: int, environment: Mapping[str, str] | None = None) -> Timing:
    """Run a command several times, its output discarded, and keep the fastest.

    Raises:
        RuntimeError: it failed.
    """
    best = Timing(float("inf"), 0)
    for _ in range(runs):
        once = _once([str(part) for part in command], {**os.environ, **(environment or {})})
        best = min(best, once, key=lambda timing: timing.seconds)
    return best


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
    return Timing(seconds, usage.ru_maxrss / 1024)
