"""Scenarios of queues and jobs, drawn by lot, and what Kueue's own scheduler made of them.

`tests/fixtures/scenarios.jsonl` has them one in a line; `python -m tests.update_scenarios` plays them anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from generator.manifests import Body, Manifest
from generator.simulate.admission import predict
from generator.simulate.amounts import requested
from generator.simulate.fair_preemption import FINAL, INITIAL
from generator.simulate.jobs import Finished, Job, Outcome, State
from generator.simulate.podsets import PodSet
from generator.simulate.read import queue_tree
from tests.conftest import ROOT
from tests.unit.simulate.trees import Quotas, cohort, flavor, queue

FIXTURE = ROOT / "tests/fixtures/scenarios.jsonl"
TAINT = {"key": "reserved", "effect": "NoSchedule"}
Outcomes = Mapping[str, Body]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Queues, and what happens to them.

    Attributes:
        objects: flavors, cohorts and queues.
        steps: jobs that are sent (`name`, `queue`, `priority`, `podsets`), and jobs that `finish`.
        fair: the strategies of fair sharing; none where it is off.
    """

    objects: list[Body]
    steps: list[Body]
    fair: list[str]


def recorded() -> Iterator[tuple[Scenario, Outcomes]]:
    """What Kueue made of each."""
    for line in FIXTURE.read_text().splitlines():
        both = json.loads(line)
        yield Scenario(**both["scenario"]), both["outcomes"]


def written(scenario: Scenario, outcomes: Outcomes) -> str:
    """A line of the fixture."""
    return json.dumps({"scenario": asdict(scenario), "outcomes": outcomes}, separators=(",", ":"), sort_keys=True)


def predicted(scenario: Scenario) -> Outcomes:
    """What mpigen says of a scenario, as Kueue's outcomes are recorded."""
    tree = queue_tree(Manifest(body, "scenario") for body in scenario.objects)
    steps = [Finished(step["finish"]) if "finish" in step else _job(step) for step in scenario.steps]
    return {name: _outcome(each) for name, each in predict(tree, steps, scenario.fair).items()}


def _job(step: Body) -> Job:
    podsets = (
        PodSet(
            pods["name"],
            pods["count"],
            requested(pods["requests"], step["name"]),
            tolerations=tuple(pods.get("tolerations", ())),
        )
        for pods in step["podsets"]
    )
    return Job(step["name"], step["queue"], tuple(podsets), step["priority"])


def _outcome(each: Outcome) -> Body:
    state = State.WAITS if each.state is State.NEVER else each.state
    found: Body = {"state": state.value}
    if each.flavors:
        found["flavors"] = each.flavors
    if each.history:
        found["history"] = [event.split()[0] for event in each.history]
    return found


def drawn(seed: int) -> Scenario:
    """A scenario by lot: of every other one all is scarce, so that jobs get into one another's way."""
    lot = Random(seed)
    is_scarce = seed % 2 == 0
    flavors = ["f"] if is_scarce else ["f", "g"][: lot.choice((1, 2, 2))]
    resources = ["cpu", "a.com/gpu"][: lot.choice((1, 1, 2))]
    cohorts = [f"c{number}" for number in range(lot.randint(1, 4) if is_scarce else lot.choice((0, 1, 1, 2, 3)))]
    queues = [f"q{number}" for number in range(lot.randint(2, 4))]
    fair = lot.choice(([], [FINAL, INITIAL], [FINAL], [INITIAL]))
    keys = [f"{name}/{resource}" for name in flavors for resource in resources]
    objects = [flavor("f"), flavor("g", nodeTaints=[TAINT] if lot.random() < 0.5 else [])][: len(flavors)]
    objects += [_cohort(lot, name, cohorts[:number], keys) for number, name in enumerate(cohorts)]
    for name in queues:
        above = lot.choice(cohorts) if cohorts and lot.random() < 0.9 else ""
        objects.append(
            queue(name, _quotas(lot, keys, 5, is_limited=bool(above)), above, **_rules(lot, is_fair=bool(fair)))
        )
    steps = _steps(lot, queues, resources, lot.randint(6, 14))
    return Scenario([each.body for each in objects], steps, fair)


def _cohort(lot: Random, name: str, others: list[str], keys: list[str]) -> Manifest:
    quotas = _quotas(lot, keys, 3, is_limited=bool(others)) if lot.random() < 0.3 else None
    weight = {"fairSharing": {"weight": str(lot.choice((1, 1, 2, 0)))}}
    return cohort(name, lot.choice(others) if others else "", quotas, **weight)


def _quotas(lot: Random, keys: list[str], most: int, *, is_limited: bool) -> Quotas:
    found: Quotas = {}
    for key in keys:
        nominal = lot.randint(0, most)
        borrowing = lot.choice((None, None, None, lot.randint(0, 4))) if is_limited else None
        lending = lot.choice((None, None, None, lot.randint(0, nominal))) if is_limited else None
        found[key] = (nominal, borrowing, lending)
    return found


def _rules(lot: Random, *, is_fair: bool) -> dict[str, Any]:
    """Of a queue: whom it drives out, which flavor it takes, and its order."""
    preemption: Body = {
        "reclaimWithinCohort": lot.choice(("Any", "Any", "Any", "LowerPriority", "Never")),
        "withinClusterQueue": lot.choice(("LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority", "Never")),
    }
    if not is_fair and preemption["reclaimWithinCohort"] != "Never" and lot.random() < 0.3:
        threshold = lot.choice(({}, {"maxPriorityThreshold": 0}, {"maxPriorityThreshold": -1}))
        preemption["borrowWithinCohort"] = {"policy": "LowerPriority", **threshold}
    fungibility = {
        "whenCanBorrow": lot.choice(("MayStopSearch", "MayStopSearch", "TryNextFlavor")),
        "whenCanPreempt": lot.choice(("TryNextFlavor", "TryNextFlavor", "MayStopSearch")),
    }
    if set(fungibility.values()) == {"TryNextFlavor"}:
        fungibility["preference"] = lot.choice(("BorrowingOverPreemption", "PreemptionOverBorrowing"))
    return {
        "preemption": preemption,
        "flavorFungibility": fungibility,
        "queueingStrategy": lot.choice(("BestEffortFIFO", "BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
        "fairSharing": {"weight": str(lot.choice((1, 1, 2, 3, 0)))},
    }


def _steps(lot: Random, queues: list[str], resources: list[str], count: int) -> list[Body]:
    steps: list[Body] = []
    alive: list[str] = []
    for number in range(count):
        if alive and lot.random() < 0.2:
            steps.append({"finish": alive.pop(lot.randrange(len(alive)))})
            continue
        alive.append(f"j{number}")
        names = ["node", "launcher"][: lot.choice((1, 1, 2))]
        podsets = [_pods(lot, name, resources) for name in names]
        priority = lot.choice((0, 0, 0, 1, -1))
        steps.append({"name": alive[-1], "queue": lot.choice(queues), "priority": priority, "podsets": podsets})
    return steps


def _pods(lot: Random, name: str, resources: list[str]) -> Body:
    requests = {
        resource: str(lot.choice((1, 1, 2, 3))) for resource in resources if lot.random() < 0.7 or resource == "cpu"
    }
    pods: Body = {"name": name, "count": lot.choice((1, 1, 2)) if name == "node" else 1, "requests": requests}
    if lot.random() < 0.5:
        pods["tolerations"] = [{"key": TAINT["key"], "operator": "Exists"}]
    return pods
