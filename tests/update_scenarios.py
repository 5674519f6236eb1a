"""Ask Kueue's own scheduler again what becomes of jobs: `python -m tests.update_scenarios`.

It compiles tests/cluster/go/scenarios inside a copy of the Kueue that the control plane runs, which takes minutes the
first time, and plays scenarios there: `python -m tests.update_scenarios 1000` plays a thousand. All are compared with
what mpigen predicts, and the first of those in which somebody is driven out become the fixture.

Each is played twice, the second time with one attempt more where Kueue would go on for ever. Where that makes a
difference it is chance what becomes of the jobs, and where they drive one another out for ever nothing does: such
scenarios are left out.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from generator.schemas.gotool import run_go
from tests.cluster.modules import module_folder
from tests.cluster.versions import HERE, versions
from tests.scenarios import FIXTURE, Outcomes, Scenario, drawn, predicted, written

KEPT = 50
PATIENCE = (8, 9)


def main(count: int = 200) -> int:
    """Play so many, and write the fixture; how many of them mpigen predicts otherwise."""
    scenarios = [drawn(seed) for seed in range(count)]
    with tempfile.TemporaryDirectory() as scratch:
        program = _compiled(Path(scratch))
        first, second = (_played(program, scenarios, patience) for patience in PATIENCE)
    played = zip(range(count), scenarios, first, second, strict=True)
    certain = {seed: (each, told) for seed, each, told, again in played if told and told == again}
    wrong = [seed for seed, (each, told) in certain.items() if predicted(each) != told]
    telling = [
        both for both in certain.values() if any("preempted" in each.get("history", ()) for each in both[1].values())
    ]
    FIXTURE.write_text("".join(f"{written(*both)}\n" for both in telling[:KEPT]))
    sys.stdout.write(f"{len(certain)} of {count} scenarios have one outcome; predicted otherwise: {wrong or 'none'}\n")
    return len(wrong)


def _compiled(scratch: Path) -> Path:
    """Go lets nobody add to a package in its module cache, so it is added to a copy."""
    copy = scratch / "kueue"
    shutil.copytree(module_folder(versions("default")["kueue"]), copy, copy_function=shutil.copyfile)
    package = copy / "pkg" / "scheduler"
    package.chmod(0o755)
    for test in package.glob("*_test.go"):
        test.unlink()
    shutil.copyfile(HERE / "go/scenarios/scenarios_test.go", package / "scenarios_test.go")
    program = scratch / "scenarios"
    run_go(["test", "-mod=readonly", "-trimpath", "-c", "-o", str(program), "./pkg/scheduler"], copy)
    return program


def _played(program: Path, scenarios: Sequence[Scenario], patience: int) -> list[Outcomes | None]:
    """What became of each; None where it does not come to rest."""
    asked, told = program.with_name("asked.json"), program.with_name("told.jsonl")
    asked.write_text(json.dumps([asdict(each) for each in scenarios]))
    environment = {"SCENARIOS": str(asked), "OUTCOMES": str(told), "PATIENCE": str(patience)}
    command = [str(program), "-test.run=TestScenarios", "-test.timeout=0"]
    subprocess.run(command, env={**os.environ, **environment}, cwd=program.parent, check=True, capture_output=True)
    return [json.loads(line) for line in told.read_text().splitlines()]


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
