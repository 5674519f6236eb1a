"""Ask the real Kueue's scheduler again for the outcomes of random scenarios: `python -m tests.update_scenarios`.

The command compiles tests/cluster/go/scenarios inside Kueue's scheduler package, for each supported version. The first
time this takes minutes. It plays 200 scenarios, compares the outcomes with mpigen's predictions, and records the first
ones. `python -m tests.update_scenarios 1000 50` compares 50 scenarios from seed 1000 on, and records nothing.

Each scenario is played three times, with different numbers of attempts where Kueue would try again for ever. A scenario
is left out where the outcomes differ, because timing decides there, and where the jobs preempt each other for ever.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from tests.cluster.inside import asked
from tests.cluster.oracle import scheduler_tests
from tests.cluster.versions import NAMES, Program, versions
from tests.scenarios import FIXTURE, Outcomes, Scenario, drawn, predicted, written

COUNT = 200
KEPT = 60
PATIENCE = ("8", "9", "8,9")
"""After how many cycles without a change a step of each play ends, in turn: Kueue tries two flavors alternately."""


def main(first: int | None = None, count: int = COUNT) -> int:
    """Play scenarios; record them if no first seed is given. Return the number of wrong predictions."""
    scenarios = {seed: drawn(seed) for seed in range(first or 0, (first or 0) + count)}
    programs = [versions(name)["kueue"] for name in NAMES]
    certain = played(programs, scenarios)
    wrong = 0
    for seed, outcomes in certain.items():
        for version, each in outcomes.items():
            if predicted(scenarios[seed], version) != each:
                sys.stdout.write(f"seed {seed}: Kueue {version} has another outcome than mpigen predicts\n")
                wrong += 1
    if first is None:
        telling = [seed for seed, outcomes in certain.items() if any(map(_preempts, outcomes.values()))]
        FIXTURE.write_text("".join(f"{written(scenarios[seed], certain[seed])}\n" for seed in telling[:KEPT]))
    sys.stdout.write(f"{len(certain)} of {count} scenarios have one outcome; {wrong} wrong predictions\n")
    return wrong


def played(programs: Sequence[Program], scenarios: Mapping[int, Scenario]) -> dict[int, dict[str, Outcomes]]:
    """Return the certain outcomes: seed → version of Kueue → job → outcome."""
    certain: dict[int, dict[str, Outcomes]] = {seed: {} for seed in scenarios}
    for program in programs:
        plays = (_outcomes(program, list(scenarios.values()), patience) for patience in PATIENCE)
        for seed, first, *others in zip(scenarios, *plays, strict=True):
            if first and all(other == first for other in others):
                certain[seed][program.minor] = first
    return {seed: outcomes for seed, outcomes in certain.items() if len(outcomes) == len(programs)}


def _outcomes(program: Program, scenarios: Sequence[Scenario], patience: str) -> list[Outcomes | None]:
    """Return the outcomes of each scenario; None if the jobs preempt each other for ever."""
    lines = asked(scheduler_tests(program), "TestScenarios", [asdict(each) for each in scenarios], PATIENCE=patience)
    return [json.loads(line) for line in lines]


def _preempts(outcomes: Outcomes) -> bool:
    return any("preempted" in each.get("history", ()) for each in outcomes.values())


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
