"""Random queue trees, and the largest jobs that the real Kueue admits in them.

`tests/fixtures/quota-trees/` holds the trees and, per Kueue version, the answers: one tree per line.
`python -m tests.update_quota_trees` records the answers again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from generator.manifests import Body, Manifest
from generator.objects.queue import FlavorResource, parse_amounts
from generator.upstream.kueue.podsets import podsets
from generator.upstream.kueue.queues import QueueTree, read_queue_tree
from tests.conftest import ROOT
from tests.unit.upstream.runtimes import STEP, runtime
from tests.unit.upstream.trees import door, flavor, kueue

LARGEST = 14
"""The largest `numNodes` that Kueue is asked for."""
NAMESPACE = "default"
TAINT = {"key": "reserved", "effect": "NoSchedule"}
TOLERATION = {"key": "reserved", "operator": "Exists"}
POOL = "pool"
"""The node label that distinguishes flavors, so that a job can select one of them."""

FOLDER = ROOT / "tests/fixtures/quota-trees"
TREES = FOLDER / "trees.jsonl"
Answers = Mapping[str, Any]
"""Queue → `usage` of a state of the other queues, and `jobs`: runtime → one letter per job size in each situation.

`idle`: no other job runs. `worst`: the worst result of the size in all states of the other queues. `owned`: the same if
this queue may preempt nothing. `there`: in the state of `usage`, if this queue may preempt nothing. The letters are
`a`: Kueue admits a job of this size at once; `p`: Kueue preempts other jobs first; `-`: the job stays pending.
"""
Limits = list[int | None]
"""`nominalQuota`, `borrowingLimit`, `lendingLimit`."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A queue tree, and the runtimes that each of its queues runs jobs of.

    Attributes:
        flavors: name → True if its nodes have a taint.
        cohorts: name → `parent`, `weight` and `groups`.
        queues: name → `cohort`, `groups`, and the `rules` that are fields of the ClusterQueue.
        fair: the preemption strategies of fair sharing; empty if fair sharing is off.
        runtimes: name → `node` and `launcher` (requests per pod) and `tolerates`.
    """

    flavors: Mapping[str, bool]
    cohorts: Mapping[str, Body]
    queues: Mapping[str, Body]
    fair: list[str]
    runtimes: Mapping[str, Body]

    def objects(self) -> list[Manifest]:
        """Return the manifests of the flavors, cohorts, queues, LocalQueues and runtimes."""
        return [
            *(_flavor(name, is_tainted=is_tainted) for name, is_tainted in self.flavors.items()),
            *(kueue("Cohort", name, _cohort(each)) for name, each in self.cohorts.items()),
            *(kueue("ClusterQueue", name, _queue(each)) for name, each in self.queues.items()),
            *(door(NAMESPACE, name, name) for name in self.queues),
            *(_runtime(name, each) for name, each in self.runtimes.items()),
            _configuration(self.fair),
        ]

    def queue_tree(self, version: str) -> QueueTree:
        """Return the tree as mpigen reads it for a version of Kueue."""
        return read_queue_tree(self.objects(), version)

    def sizes(self) -> dict[str, list[list[Body]]]:
        """Return the pods of each runtime's job for every `numNodes` from 1 to LARGEST."""
        found = {each.name: each.body for each in self.objects() if each.kind == "ClusterTrainingRuntime"}
        return {
            name: [
                [
                    {
                        "name": pods.name,
                        "count": pods.count,
                        "requests": self.runtimes[name][pods.name],
                        "tolerations": list(pods.tolerations),
                    }
                    for pods in podsets(body, nodes)
                ]
                for nodes in range(1, LARGEST + 1)
            ]
            for name, body in found.items()
        }


def written(document: object) -> str:
    """Return a line of the record, in the order of the document: Kueue tries flavors in theirs."""
    return json.dumps(document, separators=(",", ":"))


def recorded_trees() -> list[Tree]:
    """Read the trees of the record."""
    return [Tree(**json.loads(line)) for line in TREES.read_text().splitlines()]


def record(version: str) -> Path:
    """Return the file with the answers of a Kueue version to the trees of the record."""
    return FOLDER / f"{version}.jsonl"


def recorded_answers(version: str) -> list[Answers]:
    """Read the answers of a Kueue version, one per tree."""
    return [json.loads(line) for line in record(version).read_text().splitlines()]


def usage(written_usage: Mapping[str, Mapping[str, str]]) -> dict[str, dict[FlavorResource, int]]:
    """Return the usage of a recorded state: queue → `flavor/resource` → quantity."""
    return {
        queue: {
            FlavorResource(*key.split("/", 1)): parse_amounts({key.split("/", 1)[1]: value}, key)[key.split("/", 1)[1]]
            for key, value in amounts.items()
        }
        for queue, amounts in written_usage.items()
    }


def _configuration(strategies: list[str]) -> Manifest:
    fair = {"fairSharing": {"preemptionStrategies": strategies}} if strategies else {}
    body = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", "metadata": {"name": "c"}, **fair}
    return Manifest(body, "configuration.yaml")


def _flavor(name: str, *, is_tainted: bool) -> Manifest:
    return flavor(name, nodeLabels={POOL: name}, **({"nodeTaints": [TAINT]} if is_tainted else {}))


def _cohort(each: Body) -> Body:
    parent = {"parentName": each["parent"]} if each["parent"] else {}
    quotas = {"resourceGroups": _groups(each["groups"])} if each["groups"] else {}
    return {**parent, **quotas, "fairSharing": {"weight": each["weight"]}}


def _queue(each: Body) -> Body:
    above = {"cohortName": each["cohort"]} if each["cohort"] else {}
    return {"namespaceSelector": {}, **above, "resourceGroups": _groups(each["groups"]), **each["rules"]}


def _groups(groups: list[Mapping[str, Mapping[str, Limits]]]) -> list[Body]:
    return [
        {
            "coveredResources": list(next(iter(group.values()))),
            "flavors": [
                {"name": name, "resources": [_quota(resource, limits) for resource, limits in quotas.items()]}
                for name, quotas in group.items()
            ],
        }
        for group in groups
    ]


def _quota(resource: str, limits: Limits) -> Body:
    fields = zip(("nominalQuota", "borrowingLimit", "lendingLimit"), limits, strict=True)
    return {"name": resource, **{field: str(amount) for field, amount in fields if amount is not None}}


def _runtime(name: str, each: Body) -> Manifest:
    jobs = [_replicated("node", each, step="" if each["launcher"] else "trainer")]
    if not each["launcher"]:
        return runtime(*jobs, name=name, numNodes=1, torch={})
    return runtime(*jobs, _replicated("launcher", each, step="trainer"), name=name, numNodes=1, mpi={})


def _replicated(name: str, each: Body, *, step: str) -> Body:
    pod: Body = {"containers": [{"name": name, "resources": {"requests": each[name]}}]}
    if each["tolerates"]:
        pod["tolerations"] = [TOLERATION]
    labels = {"metadata": {"labels": {STEP: step}}} if step else {}
    return {"name": name, "template": {**labels, "spec": {"template": {"spec": pod}}}}


_CPU, _GPU, _NIC = "cpu", "a.com/gpu", "b.com/nic"
_Layout = Sequence[tuple[Sequence[str], Sequence[str]]]
"""The resource groups of a queue: the resources and the flavors of each."""
_TOGETHER = [((_CPU, _GPU), ("f", "g")), ((_NIC,), ("n", "m"))]
_APART = [((_CPU,), ("f",)), ((_GPU,), ("g",)), ((_NIC,), ("n", "m"))]
_THREE = [((_CPU,), ("f", "e")), ((_GPU,), ("g", "h")), ((_NIC,), ("n",))]
_MANY = [((_CPU, _GPU, _NIC), ("f", "g", "h"))]
_LAYOUTS: Sequence[Sequence[_Layout]] = (
    [_TOGETHER],
    [_TOGETHER, _APART],
    [_THREE],
    [_THREE, _THREE, _APART],
    [_MANY],
    [_APART],
)


def drawn(seed: int) -> Tree:
    """Draw a tree; the same seed gives the same tree."""
    lot = Random(seed)
    layouts = _LAYOUTS[seed % len(_LAYOUTS)]
    names = sorted({name for layout in layouts for _, flavors in layout for name in flavors})
    pairs = {pair for layout in layouts for resources, flavors in layout for pair in product(flavors, resources)}
    keys = sorted(pairs)
    above = [f"c{number}" for number in range(lot.choice((0, 1, 1, 1, 2, 2, 3, 4)))]
    fair = lot.choice(([], [], ["LessThanOrEqualToFinalShare", "LessThanInitialShare"], ["LessThanInitialShare"]))
    cohorts = {name: _drawn_cohort(lot, above[:number], keys) for number, name in enumerate(above)}
    queues = {}
    for number in range(lot.randint(2, 5)):
        where = lot.choice(above) if above and lot.random() < 0.93 else ""
        queues[f"q{number}"] = {
            "cohort": where,
            "groups": [_drawn_group(lot, *group, is_limited=bool(where)) for group in lot.choice(layouts)],
            "rules": _rules(lot, is_fair=bool(fair), may_stop=number > 0),
        }
    runtimes = {f"r{number}": _drawn_runtime(lot) for number in range(2)}
    return Tree({name: lot.random() < 0.15 for name in names}, cohorts, queues, fair, runtimes)


def _drawn_cohort(lot: Random, others: list[str], keys: list[tuple[str, str]]) -> Body:
    groups = []
    if lot.random() < 0.35:  # a Cohort takes each flavor in one group only, with all of its resources
        by_flavor: dict[str, list[str]] = {}
        for name, resource in keys:
            by_flavor.setdefault(name, []).append(resource)
        covered: set[str] = set()
        for name, resources in by_flavor.items():
            if covered.isdisjoint(resources) and lot.random() < 0.6:
                groups.append({name: {each: _limits(lot, 3, is_limited=bool(others)) for each in resources}})
                covered.update(resources)
    parent = lot.choice(others) if others and lot.random() < 0.9 else ""
    return {"parent": parent, "weight": lot.choice(("1", "1", "2", "0")), "groups": groups}


def _drawn_group(
    lot: Random, resources: Sequence[str], flavors: Sequence[str], *, is_limited: bool
) -> Mapping[str, Mapping[str, Limits]]:
    chosen = lot.sample(flavors, lot.randint(max(1, len(flavors) - 1), len(flavors)))
    return {name: {each: _limits(lot, 5, is_limited=is_limited) for each in resources} for name in chosen}


def _limits(lot: Random, most: int, *, is_limited: bool) -> Limits:
    nominal = lot.randint(0, most)
    borrowing = lot.choice((None, None, lot.randint(0, 4))) if is_limited else None
    lending = lot.choice((None, None, lot.randint(0, nominal))) if is_limited else None
    return [nominal, borrowing, lending]


def _rules(lot: Random, *, is_fair: bool, may_stop: bool) -> dict[str, Any]:
    preemption: Body = {
        "reclaimWithinCohort": lot.choice(("Any", "Any", "Any", "LowerPriority", "Never")),
        "withinClusterQueue": lot.choice(("LowerPriority", "LowerOrNewerEqualPriority", "Never")),
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
    stop = lot.choice(("None",) * 10 + ("Hold", "HoldAndDrain")) if may_stop else "None"
    return {
        "preemption": preemption,
        "flavorFungibility": fungibility,
        "queueingStrategy": lot.choice(("BestEffortFIFO", "StrictFIFO")),
        "stopPolicy": stop,
        "fairSharing": {"weight": lot.choice(("1", "1", "2", "3", "0"))},
    }


def _drawn_runtime(lot: Random) -> Body:
    resources = [_CPU, *(each for each in (_GPU, _NIC) if lot.random() < 0.5)]
    node = {each: str(lot.choice((1, 1, 2))) for each in resources}
    launcher = {_CPU: "1"} if lot.random() < 0.4 else None
    return {"node": node, "launcher": launcher, "tolerates": lot.random() < 0.7}
