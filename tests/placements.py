"""Random jobs on nodes in racks, and the real Kueue's placement of their pods.

`tests/fixtures/placements.jsonl` has them one in a line; `python -m tests.update_placements` asks Kueue anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random

from generator.manifests import Body, Manifest
from generator.objects.queue import Flavor, parse_amounts
from generator.upstream.kueue.nodes import read_machines
from generator.upstream.kueue.placement import NoPlace, Occupancy, PlacementRequest, Sites
from generator.upstream.kueue.podsets import PodSet
from generator.upstream.kueue.topology import TopologyMode, TopologyRequest
from tests.conftest import ROOT

FIXTURE = ROOT / "tests/fixtures/placements.jsonl"
BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
Answer = Mapping[str, Mapping[str, int]] | None
"""Kind of pods → place → how many; None where there is no room, and where a job ends."""


@dataclass(frozen=True, slots=True)
class Question:
    """Nodes with topology levels, and jobs that start and end on them.

    Attributes:
        levels: from the widest to the narrowest.
        nodes: all that there are.
        events: jobs that come (`pods`), and the number of one that `ends`.
    """

    levels: list[str]
    nodes: list[Body]
    events: list[Body]


def recorded() -> Iterator[tuple[Question, Sequence[Answer]]]:
    """Return the recorded answers of Kueue."""
    for line in FIXTURE.read_text().splitlines():
        both = json.loads(line)
        yield Question(**both["question"]), both["answers"]


def written(question: Question, answers: Sequence[Answer]) -> str:
    """A line of the fixture."""
    return json.dumps({"question": asdict(question), "answers": answers}, separators=(",", ":"), sort_keys=True)


def predicted(question: Question) -> list[Answer]:
    """Return the placements that mpigen predicts."""
    flavor = Flavor("f", topology="t", levels=tuple(question.levels))
    sites = Sites({"f": flavor}, read_machines(Manifest(each, "nodes.yaml") for each in question.nodes))
    answers: list[Answer] = []
    running: list[tuple[Occupancy, ...]] = []
    for event in question.events:
        if "ends" in event:
            sites.give_back(running[event["ends"]])
            running[event["ends"]] = ()
        found = sites.find([PlacementRequest(_podset(each), "f") for each in event.get("pods", ())])
        running.append(() if isinstance(found, NoPlace) else found)
        sites.take(running[-1])
        answers.append(_answer(event, running[-1]) if running[-1] else None)
    return answers


def _podset(pods: Body) -> PodSet:
    wish = next(
        (TopologyMode(how) for how in ("required", "preferred", "unconstrained") if how in pods.get("topology", {})),
        None,
    )
    asked = pods.get("topology", {})
    level = "" if wish in (None, TopologyMode.UNCONSTRAINED) else asked[wish.value] if wish else ""
    topology = TopologyRequest(wish, level, asked.get("podSetGroupName", "")) if wish else None
    return PodSet(pods["name"], pods["count"], parse_amounts(pods["requests"], "pods"), topology=topology)


def _answer(event: Body, occupancies: Sequence[Occupancy]) -> Answer:
    found: dict[str, dict[str, int]] = {each["name"]: {} for each in event["pods"]}
    for occupancy in occupancies:
        found[occupancy.pods][",".join(occupancy.key)] = occupancy.count
    return found


def drawn(seed: int) -> Question:
    """Draw a question."""
    lot = Random(seed)
    levels = lot.choice([[BLOCK, RACK, HOST], [RACK, HOST], [HOST], [BLOCK, RACK]])
    racks = [(f"b{block}", f"r{rack}") for block in range(lot.randint(1, 3)) for rack in range(lot.randint(1, 3))]
    places = [place for place in racks for _ in range(lot.randint(1, 4))]
    lot.shuffle(places)
    nodes = [_node(lot, f"n{number}", *place) for number, place in enumerate(places)]
    events: list[Body] = []
    for _ in range(lot.randint(2, 6)):
        ended = {each["ends"] for each in events if "ends" in each}
        running = [number for number, each in enumerate(events) if "pods" in each and number not in ended]
        is_end = running and lot.random() < 0.2
        events.append({"ends": lot.choice(running)} if is_end else {"pods": _pods(lot, levels, len(nodes))})
    return Question(levels, nodes, events)


def _node(lot: Random, name: str, block: str, rack: str) -> Body:
    labels = {HOST: name, BLOCK: block, RACK: rack}
    allocatable = {"cpu": str(lot.choice((2, 4, 4, 4, 5, 8))), "pods": str(lot.choice((3, 110, 110)))}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


def _pods(lot: Random, levels: list[str], most: int) -> list[Body]:
    """Draw hosts alone, or with a launcher in or outside their topology group."""
    how = lot.choice(("required", "preferred", "required", "preferred", "unconstrained", ""))
    wish: Body = {"unconstrained": True} if how == "unconstrained" else {how: lot.choice(levels)} if how else {}
    group = {"podSetGroupName": "hosts"} if how in ("required", "preferred") and lot.random() < 0.6 else {}
    topology = {"topology": {**wish, **group}} if wish else {}
    count = lot.randint(1, lot.choice((3, most, most + 2)))
    hosts = {"name": "node", "count": count, "requests": {"cpu": str(lot.choice((1, 1, 2, 2, 4)))}, **topology}
    if not group and lot.random() < 0.7:
        return [hosts]
    launcher = {"name": "launcher", "count": 1, "requests": {"cpu": lot.choice(("500m", "1", "4", "5"))}, **topology}
    return lot.choice(([hosts, launcher], [launcher, hosts]))
