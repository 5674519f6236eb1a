"""Record Kueue's topology placements again: `python -m tests.update_placements`.

It compiles tests/cluster/go/placements inside a copy of the Kueue that the control plane runs: `python -m
tests.update_placements 1000` asks a thousand questions. All answers are compared with mpigen's predictions, and the
first become the fixture.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from tests.cluster.inside import asked, compiled
from tests.cluster.versions import versions
from tests.placements import FIXTURE, Answer, drawn, predicted, written

KEPT = 60


def main(count: int = KEPT) -> int:
    """Ask Kueue about so many questions, write the fixture, and return the number of wrong predictions."""
    questions = [drawn(seed) for seed in range(count)]
    binary = compiled(versions("default")["kueue"], "pkg/cache/scheduler", "placements/placements_test.go")
    answers: list[list[Answer]] = [
        json.loads(line) for line in asked(binary, "TestPlacements", [asdict(each) for each in questions])
    ]
    both = list(zip(questions, answers, strict=True))
    wrong = [number for number, (question, answer) in enumerate(both) if predicted(question) != answer]
    FIXTURE.write_text("".join(f"{written(*each)}\n" for each in both[:KEPT]))
    sys.stdout.write(f"{count} questions; predicted otherwise: {wrong or 'none'}\n")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
