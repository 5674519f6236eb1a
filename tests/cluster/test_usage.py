"""Test that `check-job --usage` answers as Kueue does in recorded states of a cluster, and record them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from generator.checks.submission import Destination
from generator.objects.fields import mapping, mappings
from generator.pipeline import check_jobs
from generator.stages.cluster import replaced_by
from generator.upstream.kueue.present import read_present
from generator.upstream.kueue.queues import read_queue_tree
from generator.upstream.kueue.workloads import State as Answer
from tests.cluster.client import Body, Client
from tests.cluster.control_plane import Cluster
from tests.cluster.nodes import add_nodes
from tests.cluster.scenarios import Scenario, Step
from tests.cluster.states import State, recorded, write
from tests.cluster.test_scenarios import SCENARIOS, _is_for, _settle, _take, clear

RECORDED = [*recorded(SCENARIOS)]


def _id(value: Any) -> str | None:
    return value.name if isinstance(value, Scenario) else value.job if isinstance(value, Step) else None


def test_at_least_fifty_states_are_recorded() -> None:
    assert len(RECORDED) >= 50


@pytest.mark.parametrize(
    ("scenario", "step", "before", "after"),
    [(scenario, step, before, after) for scenario, _, step, before, after in RECORDED],
    ids=_id,
)
def test_a_job_gets_the_answer_that_kueue_gave(scenario: Scenario, step: Step, before: State, after: State) -> None:
    assert step.body is not None
    export = before.export(scenario)
    world = replaced_by(scenario.tree, export)
    destination = Destination(world, usage=export)
    (submission,) = check_jobs({"job.yaml": yaml.safe_dump(step.body).encode()}, destination).submissions
    outcome, workload = submission.outcome, after.of(step.job)
    assert workload is not None
    if outcome is None:
        assert submission.verdict == "unknown", submission.breaches
        return
    assert (outcome.state is Answer.ADMITTED) == _is_true(workload, "QuotaReserved")
    if outcome.state is Answer.ADMITTED:
        assert outcome.flavors == _flavors(workload)
        tree = read_queue_tree(world)
        stored = read_present(after.export(scenario), world, tree, [submission.queue], ())
        (gets,) = [each.gets for each in stored if each.job.name == f"{submission.job.namespace}/{step.job}"]
        assert gets is not None
        assert outcome.places == gets.places
    assert submission.standing is None or {*submission.standing.preempts} == _stopped(before, after)


def test_most_states_have_an_answer() -> None:
    """Kueue decides by what it has tried before, which no export shows: mpigen answers `unknown` then."""
    unknown = []
    for scenario, number, step, before, _ in RECORDED:
        export = before.export(scenario)
        destination = Destination(replaced_by(scenario.tree, export), usage=export)
        (submission,) = check_jobs({"job.yaml": yaml.safe_dump(step.body).encode()}, destination).submissions
        if submission.outcome is None:
            unknown.append((scenario.name, number))
    assert len(RECORDED) - len(unknown) >= 50, unknown


@pytest.mark.cluster
@pytest.mark.slow
def test_states_can_be_recorded(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    """Play the scenarios, and write the states with `--record`."""
    plain = [each for each in SCENARIOS.values() if not each.is_fair and _is_for(cluster, each)]
    fair = [each for each in SCENARIOS.values() if each.is_fair]
    states = _play(cluster.admin, plain)
    with cluster.told(fair[0].platform.queues):
        states |= _play(cluster.admin, fair)
    clear(cluster.admin, [*plain, *fair])
    assert all(len(found) == len(SCENARIOS[name].steps) + 1 for name, found in states.items())
    if request.config.getoption("--record"):
        for name, found in states.items():
            write(name, found)


def _play(admin: Client, wanted: list[Scenario]) -> dict[str, list[State]]:
    for scenario in wanted:
        add_nodes(admin, scenario.platform)
        for found in scenario.tree:
            admin.apply(found.body, "tests")
    _settle(admin)
    states = {scenario.name: [_look(admin, scenario)] for scenario in wanted}
    for number in range(max(len(scenario.steps) for scenario in wanted)):
        stepping = [scenario for scenario in wanted if number < len(scenario.steps)]
        for scenario in stepping:
            _take(admin, scenario, scenario.steps[number])
        _settle(admin)
        for scenario in stepping:
            states[scenario.name].append(_look(admin, scenario))
    return states


def _look(admin: Client, scenario: Scenario) -> State:
    api = "kueue.x-k8s.io/v1beta2"
    return State.seen(scenario, admin.items(api, "ClusterQueue"), admin.items(api, "Workload"))


def _is_true(workload: Body, kind: str) -> bool:
    return any(found["type"] == kind and found["status"] == "True" for found in workload["status"]["conditions"])


def _flavors(workload: Body) -> dict[str, dict[str, str]]:
    assigned = mappings(mapping(workload, "status", "admission").get("podSetAssignments"))
    return {each["name"]: each["flavors"] for each in assigned}


def _stopped(before: State, after: State) -> set[str]:
    """Return the jobs that held quota before, and that Kueue preempted."""
    stopped = set()
    for workload in before.workloads:
        job = workload["metadata"]["ownerReferences"][0]["name"]
        now = after.of(job)
        if _is_true(workload, "QuotaReserved") and now and not _is_true(now, "QuotaReserved"):
            stopped.add(f"{workload['metadata']['namespace']}/{job}")
    return stopped
