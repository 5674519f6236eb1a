"""Run everything, in steps: `make nightly`, or `python -m tests.nightly [--fresh] [STEP ...]`.

A step that fails does not stop the others, so one night shows all failures. Each step that passes is recorded with its
commit in .cache/nightly.json. The next run of the same commit skips it, so a run that was interrupted, or that failed
because of the machine, goes on with the steps that did not pass. Another commit, or `--fresh`, runs all steps.

Real control planes have delays that no test foresees. So tests of a `cluster-` step that fail are run once more, alone.
If they then pass, the step passes, and the summary names them: look at each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parent.parent
RECORD = ROOT / ".cache" / "nightly.json"
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
"""The file in which pytest keeps the IDs of failed tests."""
ONLY_FAILED = ("--last-failed", "--last-failed-no-failures=none")
MADE = ("tests/attacks/record.json",)
"""Committed files that a step writes. They do not count as changes of the work tree."""
REPEATED = "cluster-"
"""The first letters of each step whose failed tests run once more."""
_TOTAL = "all steps"
Passed = dict[str, float]
"""Step → its seconds."""
Run = Callable[[str, Sequence[str]], list[str] | None]
"""Run a step, or only its tests with the given IDs; return the IDs of the tests that failed, or None if it passes."""


STEPS = (
    "test",
    "fuzz",
    "cluster-attacks",
    "cluster-core",
    "cluster-rest",
    "cluster-previous",
    "records",
    "citations",
    "bench",
)
"""Targets of the Makefile."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a step.

    Attributes:
        step: its target of the Makefile.
        outcome: what happened now.
        seconds: its duration, now or in the run that passed.
        repeated: IDs of the tests that failed at the first try.
    """

    step: str
    outcome: Literal["passed", "passed before", "failed"]
    seconds: float
    repeated: tuple[str, ...] = ()


def commit(root: Path) -> str:
    """Return the commit of a clean work tree; empty if a file differs from its commit or is new."""
    ours = [f":(exclude){path}" for path in MADE]
    if _git(root, "status", "--porcelain", "--", ".", *ours):
        return ""
    return _git(root, "rev-parse", "HEAD")


def read_passed(record: Path, at: str) -> Passed:
    """Return the steps that passed at a commit; none if the record is of another commit."""
    if not (at and record.exists()):
        return {}
    found = json.loads(record.read_text())
    return dict(found["passed"]) if found["commit"] == at else {}


def run(steps: Sequence[str], root: Path, record: Path, *, execute: Run, fresh: bool = False) -> list[Result]:
    """Run the steps, and record each that passes, if the work tree is clean throughout."""
    at = commit(root)
    passed = {} if fresh else read_passed(record, at)
    results: list[Result] = []
    for step in steps:
        if step in passed:
            results.append(Result(step, "passed before", passed[step]))
        else:
            started = time.monotonic()
            failed = execute(step, ())
            repeated = tuple(failed or ()) if step.startswith(REPEATED) else ()
            if repeated:
                failed = execute(step, repeated)
            seconds = time.monotonic() - started
            results.append(Result(step, "passed" if failed is None else "failed", seconds, repeated))
            if failed is None and at and commit(root) == at:
                passed[step] = seconds
                record.parent.mkdir(parents=True, exist_ok=True)
                record.write_text(json.dumps({"commit": at, "passed": passed}, indent=2) + "\n")
    return results


def summary(results: Sequence[Result], at: str) -> str:
    """Return a table of the steps, and a line about the record."""
    width = max(len(name) for name in (_TOTAL, *(result.step for result in results)))
    rows = []
    for each in results:
        rows.append(f"{each.step:{width}}  {each.outcome:13}  {_duration(each.seconds)}".rstrip())
        rows += [f"{'':{width}}  failed at the first try: {test}" for test in each.repeated]
    total = f"{_TOTAL:{width}}  {'':13}  {_duration(sum(each.seconds for each in results))}"
    note = f"commit {at}" if at else "no step is recorded, because the work tree differs from its commit; commit first"
    return "\n".join([*rows, total, note])


def main() -> int:
    """Run all steps, and return 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="run steps that passed at this commit again")
    parser.add_argument("steps", metavar="STEP", nargs="*", help=f"run only these of {', '.join(STEPS)}")
    given = parser.parse_args()
    if unknown := sorted({*given.steps} - {*STEPS}):
        parser.error(f"no steps: {', '.join(unknown)}; the steps are {', '.join(STEPS)}")
    chosen = [step for step in STEPS if step in (given.steps or STEPS)]
    results = run(chosen, ROOT, RECORD, execute=execute, fresh=given.fresh)
    _print(summary(results, commit(ROOT)))
    return int(any(result.outcome == "failed" for result in results))


def execute(step: str, only: Sequence[str]) -> list[str] | None:
    """Run a target of the Makefile, or only some of its tests. It is a `Run`."""
    _print(f"nightly: make {step}" + "".join(f"\nnightly: once more: {test}" for test in only))
    FAILED.unlink(missing_ok=True)  # pytest keeps the failures of other steps too
    if only:
        FAILED.parent.mkdir(parents=True, exist_ok=True)
        FAILED.write_text(json.dumps(dict.fromkeys(only, True)))
    options = [*os.environ.get("PYTEST_ADDOPTS", "").split(), *(ONLY_FAILED if only else ())]
    # With CI=true, a test that this machine cannot run fails, instead of a skip.
    environment = {**os.environ, "CI": "true", "PYTEST_ADDOPTS": " ".join(options)}
    if subprocess.run(["make", step], cwd=ROOT, env=environment, check=False).returncode == 0:
        return None
    return sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def _duration(seconds: float) -> str:
    return f"{seconds // 60:3.0f} min {seconds % 60:2.0f} s"


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
