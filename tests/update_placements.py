"""Ask Kueue itself again where it places pods by topology: `python -m tests.update_placements`.

It compiles tests/cluster/go/placements inside a copy of the Kueue that the control plane runs: `python -m
tests.update_placements 1000` asks a thousand questions. All answers are compared with what mpigen predicts, and the
first become the fixture.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.cluster.inside import compiled
from tests.placements import FIXTURE, Answer, Question, drawn, predicted, written

KEPT = 60


def main(count: int = KEPT) -> int:
    """Ask so many, and write the fixture; how many of them mpigen predicts otherwise."""
    questions = [drawn(seed) for seed in range(count)]
    with tempfile.TemporaryDirectory() as scratch:
        program = compiled("kueue", "pkg/cache/scheduler", "placements/placements_test.go", Path(scratch))
        answers = _asked(program, questions)
    both = list(zip(questions, answers, strict=True))
    wrong = [number for number, (question, answer) in enumerate(both) if predicted(question) != answer]
    FIXTURE.write_text("".join(f"{written(*each)}\n" for each in both[:KEPT]))
    sys.stdout.write(f"{count} questions; predicted otherwise: {wrong or 'none'}\n")
    return len(wrong)


def _asked(program: Path, questions: Sequence[Question]) -> list[list[Answer]]:
    asked, told = program.with_name("asked.json"), program.with_name("told.jsonl")
    asked.write_text(json.dumps([asdict(each) for each in questions]))
    environment = {"QUESTIONS": str(asked), "ANSWERS": str(told)}
    command = [str(program), "-test.run=TestPlacements", "-test.timeout=0"]
    subprocess.run(command, env={**os.environ, **environment}, cwd=program.parent, check=True, capture_output=True)
    return [json.loads(line) for line in told.read_text().splitlines()]


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
