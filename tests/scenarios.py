"""Random scenarios of queues and jobs, and their outcomes in the real Kueue's scheduler.

`tests/fixtures/scenarios.jsonl` holds one scenario per line, with its outcomes in each supported version of Kueue.
`python -m tests.update_scenarios` plays the scenarios again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from generator.manifests import Body, Manifest
from generator.objects.queue import parse_amounts
from generator.upstream.kueue.admission import predict
from generator.upstream.kueue.podsets import PodSet
from generator.upstream.kueue.preemption import FINAL, INITIAL
from generator.upstream.kueue.queues import read_queue_tree
from generator.upstream.kueue.workloads import Finished, Job, Outcome, State
from tests.conftest import ROOT
from tests.unit.upstream.trees import Quotas, cohort, flavor, groups, queue

FIXTURE = ROOT / "tests/fixtures/scenarios.jsonl"
TAINT = {"key": "reserved", "effect": "NoSchedule"}
GPU_TAINT = {"key": "reserved-gpu", "effect": "NoSchedule"}
Outcomes = Mapping[str, Body]
Layout = Sequence[tuple[Sequence[str], Sequence[str]]]
"""The resource groups of a queue: the resources and the flavors of each."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Queues and the events on them.

    Attributes:
        objects: flavors, cohorts and queues.
        steps: jobs that are sent (`name`, `queue`, `priority`, `podsets`), and jobs that `finish`.
        fair: the strategies of fair sharing; none where it is off.
    """

    objects: list[Body]
    steps: list[Body]
    fair: list[str]


def recorded() -> Iterator[tuple[Scenario, Mapping[str, Outcomes]]]:
    """Read the scenarios with their outcomes: version of Kueue → job → outcome."""
    for line in FIXTURE.read_text().splitlines():
        both = json.loads(line)
        yield Scenario(**both["scenario"]), both["outcomes"]


def written(scenario: Scenario, outcomes: Mapping[str, Outcomes]) -> str:
    """Return a line of the fixture."""
    return json.dumps({"scenario": asdict(scenario), "outcomes": outcomes}, separators=(",", ":"), sort_keys=True)


def predicted(scenario: Scenario, version: str) -> Outcomes:
    """Return mpigen's prediction for a scenario, in the form of Kueue's recorded outcomes."""
    tree = read_queue_tree((Manifest(body, "scenario") for body in scenario.objects), version)
    steps = [Finished(step["finish"]) if "finish" in step else _job(step) for step in scenario.steps]
    return {name: _outcome(each) for name, each in predict(tree, steps, scenario.fair).items()}


def _job(step: Body) -> Job:
    podsets = (
        PodSet(
            pods["name"],
            pods["count"],
            parse_amounts(pods["requests"], step["name"]),
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
    """Draw a scenario.

    In every other scenario, quota is scarce, so that jobs compete. The others have one to three resource groups.
    """
    lot = Random(seed)
    is_scarce = seed % 2 == 0
    layout = _scarce_layout(lot) if is_scarce else _layout(lot)
    names = list(dict.fromkeys(name for _, flavors in layout for name in flavors))
    resources = list(dict.fromkeys(each for group, _ in layout for each in group))
    cohorts = [f"c{number}" for number in range(lot.randint(1, 4) if is_scarce else lot.choice((0, 1, 1, 2, 3)))]
    queues = [f"q{number}" for number in range(lot.randint(2, 4))]
    fair = lot.choice(([], [FINAL, INITIAL], [FINAL], [INITIAL]))
    keys = [f"{name}/{resource}" for group, flavors in layout for name in flavors for resource in group]
    objects = [flavor(name, **_taints(lot, name)) for name in names]
    objects += [_cohort(lot, name, cohorts[:number], keys) for number, name in enumerate(cohorts)]
    for number, name in enumerate(queues):
        above = lot.choice(cohorts) if cohorts and lot.random() < 0.9 else ""
        stop = lot.choice(("Hold", "HoldAndDrain")) if number and lot.random() < 0.08 else "None"
        rules = {**_rules(lot, is_fair=bool(fair)), "stopPolicy": stop}
        written_groups = [group for part in layout for group in _group(lot, part, 5, is_limited=bool(above))]
        objects.append(queue(name, {}, above, resourceGroups=written_groups, **rules))
    steps = _steps(lot, queues, resources, lot.randint(6, 14))
    return Scenario([each.body for each in objects], steps, fair)


def _scarce_layout(lot: Random) -> Layout:
    return [(["cpu", "a.com/gpu"][: lot.choice((1, 1, 2))], ["f"])]


def _layout(lot: Random) -> Layout:
    """Return one group of all resources, or a group per resource."""
    flavors = ["f", "g"][: lot.choice((1, 2, 2))]
    together = [(["cpu", "a.com/gpu"][: lot.choice((1, 1, 2))], flavors)]
    apart = [(["cpu"], flavors), (["a.com/gpu"], ["h", "k"][: lot.choice((1, 2))])]
    return lot.choice((together, apart, [*apart, (["b.com/nic"], ["n"])]))


def _taints(lot: Random, name: str) -> dict[str, list[Body]]:
    taints = {"g": TAINT, "k": GPU_TAINT}
    return {"nodeTaints": [taints[name]]} if name in taints and lot.random() < 0.5 else {}


def _group(lot: Random, part: tuple[Sequence[str], Sequence[str]], most: int, *, is_limited: bool) -> list[Body]:
    resources, flavors = part
    keys = [f"{name}/{resource}" for name in flavors for resource in resources]
    return groups(_quotas(lot, keys, most, is_limited=is_limited))


def _cohort(lot: Random, name: str, others: list[str], keys: list[str]) -> Manifest:
    quotas = _quotas(lot, keys, 3, is_limited=bool(others)) if lot.random() < 0.3 else {}
    by_resources: dict[tuple[str, ...], Quotas] = {}
    for key in quotas:  # a Cohort has a group for the flavors of the same resources
        same = tuple(each.split("/", 1)[1] for each in quotas if each.split("/", 1)[0] == key.split("/", 1)[0])
        by_resources.setdefault(same, {})[key] = quotas[key]
    written_groups = [group for part in by_resources.values() for group in groups(part)]
    weight = {"fairSharing": {"weight": str(lot.choice((1, 1, 2, 0)))}}
    spec = {"resourceGroups": written_groups} if written_groups else {}
    return cohort(name, lot.choice(others) if others else "", None, **spec, **weight)


def _quotas(lot: Random, keys: list[str], most: int, *, is_limited: bool) -> Quotas:
    found: Quotas = {}
    for key in keys:
        nominal = lot.randint(0, most)
        borrowing = lot.choice((None, None, None, lot.randint(0, 4))) if is_limited else None
        lending = lot.choice((None, None, None, lot.randint(0, nominal))) if is_limited else None
        found[key] = (nominal, borrowing, lending)
    return found


def _rules(lot: Random, *, is_fair: bool) -> dict[str, Any]:
    """Draw the preemption rules, flavor fungibility and queueing strategy of a queue."""
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
        pods["tolerations"] = [{"key": each["key"], "operator": "Exists"} for each in (TAINT, GPU_TAINT)]
    return pods
