"""Select the tests of `make cluster-core`, start long modules first, and sum the durations of modules.

The table modules.yaml has a row for each module below tests/cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import pytest
import yaml

from tests.attacks.record import changed_inputs
from tests.cluster.workers import scope_of

HERE = Path(__file__).parent
_BELOW = "tests/cluster/"
MARK = "core"
Choice = Literal["", "all", "fast", "changed"]


@dataclass(frozen=True, slots=True)
class Module:
    """A row of the table.

    Attributes:
        core: the tests that `make cluster-core` runs; empty for none.
        why: the reason for running them on every change.
        seconds: the duration of all tests of the module, while another worker ran tests on the second core.
    """

    core: Choice = ""
    why: str = ""
    seconds: int = 0


@cache
def modules() -> dict[str, Module]:
    """Return the table: path below tests/cluster → row."""
    rows = yaml.safe_load((HERE / "modules.yaml").read_text())
    return {path: Module(**row) for path, row in rows.items()}


def is_core(item: pytest.Item) -> bool:
    """Return True if `make cluster-core` runs a test. A module without a row is no part of the core set."""
    match _row(item).core:
        case "all":
            return True
        case "fast":
            return item.get_closest_marker("slow") is None
        case "changed":
            return bool(changed_inputs())
    return False


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Sort tests by the duration of all modules that run together on one worker, so that workers end together."""
    items, seconds = list(items), dict[str, int]()
    for module, item in {item.path: item for item in items}.items():
        scope = scope_of(item.nodeid)
        seconds[scope] = seconds.get(scope, 0) + _of(module).seconds
    return sorted(items, key=lambda item: -seconds[scope_of(item.nodeid)])


def seconds_of_modules(reports: Iterable[pytest.TestReport]) -> dict[str, int]:
    """Return the seconds of each module below tests/cluster with its fixtures, the longest first.

    The session's fixtures, such as the start of the control plane, count for the module that runs first on a worker.
    """
    seconds = dict[str, float]()
    for report in reports:
        path = report.nodeid.partition("::")[0].removeprefix(_BELOW)
        seconds[path] = seconds.get(path, 0) + report.duration
    return {path: round(seconds[path]) for path in sorted(seconds, key=lambda path: -seconds[path])}


def _row(item: pytest.Item) -> Module:
    return _of(item.path)


def _of(module: Path) -> Module:
    return modules().get(str(module.relative_to(HERE)), Module()) if module.is_relative_to(HERE) else Module()
