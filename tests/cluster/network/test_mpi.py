"""Run real MPI with the engine's verdicts as firewall rules: jobs work, and no other traffic arrives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from tests.cluster.client import Body, Client
from tests.cluster.mpi.conftest import World
from tests.cluster.mpi.gangs import lookup
from tests.cluster.mpi.images import Image
from tests.cluster.mpi.plans import Attempt, Target
from tests.cluster.mpi.runner import Runner, Surroundings, addresses
from tests.cluster.mpi.test_worlds import assert_is_one_world
from tests.cluster.network.cast import OUTSIDE
from tests.cluster.network.conftest import Scene
from tests.cluster.network.engine import Engine
from tests.cluster.network.firewall import openings, rules

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.parametrize("scene", ["kubernetes"], indirect=True)]
PLAYED = ("first", "theirs")
RESOLVER = "10.20.99.53"
"""The resolver's address in the room, outside the hosts, because its pod does not run."""
SSH, METRICS, CHOSEN = 2222, 28080, 33333
ANSWERING = [
    *((OUTSIDE[name], "TCP", 443) for name in ("store", "other-store", "logs", "internet")),
    (OUTSIDE["logs"], "UDP", 514),
    (OUTSIDE["metadata"], "TCP", 80),
    (OUTSIDE["api-server"], "TCP", 6443),
    *((address, protocol, 53) for address in (RESOLVER, OUTSIDE["dns-cache"]) for protocol in ("UDP", "TCP")),
]


@dataclass(frozen=True, slots=True)
class Played:
    """Two jobs that were run side by side.

    Attributes:
        worlds: of each, by name.
        answers: (from, to, protocol, port) → what came of it; `first` and `theirs` are all pods of a job.
    """

    worlds: dict[str, World]
    answers: dict[tuple[str, str, str, int], set[str]]


def target(address: str, protocol: str, port: int) -> Target:
    return {"address": address, "protocol": protocol, "port": port}


@dataclass(frozen=True, slots=True)
class Stage:
    """The runner, the cluster and the folder of a run.

    Attributes:
        runner: what runs pods.
        admin: of the cluster that made them.
        folder: an empty one.
        seconds: how long a run may take.
    """

    runner: Runner
    admin: Client
    folder: Path
    seconds: float = 90


def played(scene: Scene, engine: Engine, stage: Stage) -> Played:
    """Run one job of each team in one room, with the engine's verdicts as rules, and try everything meanwhile."""
    gangs = {name: scene.cast.gangs[name] for name in PLAYED}
    pods = {name: gang.waves(stage.admin) for name, gang in gangs.items()}
    waves = [[pod for each in pods.values() for pod in each[number]] for number in (0, 1)]
    placed = addresses(waves)
    around, asked = _surroundings(scene, engine, waves, placed)
    outcome = stage.runner.run(waves, stage.folder, stage.seconds, around)
    assert len(outcome.attempts) == len(asked), str(outcome)
    answers: dict[tuple[str, str, str, int], set[str]] = {}
    for question, answer in zip(asked, outcome.attempts, strict=True):
        answers.setdefault(question, set()).add(answer)
    worlds = {name: World(gang, pods[name][1][0], outcome) for name, gang in gangs.items()}
    return Played(worlds, answers)


def _surroundings(
    scene: Scene, engine: Engine, waves: Sequence[Sequence[Body]], placed: dict[str, str]
) -> tuple[Surroundings, list[tuple[str, str, str, int]]]:
    """Rules and attempts, and for each attempt what it asks, in the words of the table."""
    pods = [pod for wave in waves for pod in wave]
    places = {pod["status"]["podIP"]: placed[pod["metadata"]["name"]] for pod in pods}
    (resolver,) = scene.cast.addresses["resolver"]
    places |= {resolver: RESOLVER, **{address: address for address in OUTSIDE.values()}}
    opened = openings(engine, places)
    firewalls = {name: rules(address, opened) for name, address in placed.items()}
    names = {RESOLVER: "resolver", **{address: name for name, address in OUTSIDE.items()}}
    questions: list[tuple[Body, str, str, int]] = [
        *((pod, *each) for pod, each in product(pods, ANSWERING)),
        *((pod, placed[other["metadata"]["name"]], "TCP", port)
          for pod, other, port in product(pods, pods, (SSH, METRICS, CHOSEN)) if pod is not other),
    ]  # fmt: skip
    names |= {placed[pod["metadata"]["name"]]: _job(pod) for pod in pods}
    attempts: list[Attempt] = [
        {"pod": pod["metadata"]["name"], "target": target(address, protocol, port)}
        for pod, address, protocol, port in questions
    ]
    asked = [(_job(pod), names[address], protocol, port) for pod, address, protocol, port in questions]
    return Surroundings(firewalls, [target(*each) for each in ANSWERING], attempts), asked


def _job(pod: Body) -> str:
    return str(pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"])


@pytest.fixture(scope="module")
def run(
    scene: Scene, images: Callable[[str], Image], admin: Client, tmp_path_factory: pytest.TempPathFactory
) -> Played:
    """Both jobs, with the policies of the platform."""
    stage = Stage(Runner(partial(lookup, admin), images), admin, tmp_path_factory.mktemp("isolated"))
    return played(scene, scene.engine, stage)


@pytest.mark.parametrize("job", PLAYED)
def test_real_mpi_jobs_complete(job: str, run: Played) -> None:
    assert_is_one_world(run.worlds[job])


@pytest.mark.parametrize("job", PLAYED)
def test_pods_of_a_job_reach_all_ports_of_the_same_job(job: str, run: Played) -> None:
    assert run.answers[job, job, "TCP", CHOSEN] == {"arrived"}
    assert "dropped" not in run.answers[job, job, "TCP", SSH]


@pytest.mark.parametrize(("one", "other"), [PLAYED, PLAYED[::-1]])
@pytest.mark.parametrize("port", [SSH, METRICS, CHOSEN])
def test_no_attempt_across_teams_arrives(one: str, other: str, port: int, run: Played) -> None:
    assert run.answers[one, other, "TCP", port] == {"dropped"}


@pytest.mark.parametrize("job", PLAYED)
def test_jobs_reach_the_resolver(job: str, run: Played) -> None:
    for protocol in ("UDP", "TCP"):
        assert run.answers[job, "resolver", protocol, 53] == {"answered"}
        assert run.answers[job, "dns-cache", protocol, 53] == {"answered"}


def test_only_declared_egress_answers(run: Played) -> None:
    outside = {
        (job, to): run.answers[job, to, "TCP", 443]
        for job in PLAYED
        for to in OUTSIDE
        if (job, to, "TCP", 443) in run.answers
    }
    answering = {pair for pair, answers in outside.items() if answers == {"answered"}}
    assert answering == {("first", "store"), ("first", "logs")}
    assert {answer for pair in outside.keys() - answering for answer in outside[pair]} == {"dropped"}
    assert run.answers["theirs", "logs", "UDP", 514] == {"answered"}
    assert run.answers["first", "logs", "UDP", 514] == {"dropped"}
    assert run.answers["first", "api-server", "TCP", 6443] == {"answered"}


@pytest.mark.parametrize("job", PLAYED)
def test_the_metadata_service_is_unreachable(job: str, run: Played) -> None:
    assert run.answers[job, "metadata", "TCP", 80] == {"dropped"}


def test_jobs_without_the_mpi_policy_cannot_reach_their_hosts(
    scene: Scene, images: Callable[[str], Image], admin: Client, tmp_path: Path
) -> None:
    stage = Stage(Runner(partial(lookup, admin), images), admin, tmp_path, seconds=25)
    run = played(scene, scene.engine.with_policies(without=["np-mpi"]), stage)
    assert 0 not in {world.code for world in run.worlds.values()}
    for job in PLAYED:
        assert run.answers[job, job, "TCP", SSH] == {"dropped"}
        assert run.answers[job, "resolver", "UDP", 53] == {"answered"}
