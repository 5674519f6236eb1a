"""Test that Kueue shares quota between jobs as mpigen predicts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import pytest

from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.nodes import add_nodes, nodes
from tests.cluster.runs import finish
from tests.cluster.scenarios import Scenario, Step, scenarios
from tests.cluster.training import JOB, ROLE, conditions
from tests.cluster.trees import is_gone, remove_objects

SCENARIOS = scenarios()
_REFUSED = "mpigen refuses a topology for Kueue 0.18"
_STILL = 2.5
"""Seconds in which no Workload changes until Kueue is thought to be done."""


@pytest.fixture(scope="module")
def ended(cluster: Cluster) -> Iterator[Mapping[str, Mapping[str, str]]]:
    """Play all scenarios together, one step at a time, and those with fair sharing last: scenario → job → end."""
    plain = [each for each in SCENARIOS.values() if not each.is_fair and _is_for(cluster, each)]
    fair = [each for each in SCENARIOS.values() if each.is_fair]
    found = _play(cluster.admin, plain)
    with cluster.told(fair[0].platform.queues):
        found |= _play(cluster.admin, fair)
    yield found
    clear(cluster.admin, [*plain, *fair])


def clear(admin: Client, played: Iterable[Scenario]) -> None:
    """Delete all objects of scenarios, so that another test can play them."""
    for scenario in played:
        remove_objects(admin, [*(found.body for found in reversed(scenario.tree)), *nodes(scenario.platform)])
    for scenario in played:
        for found in scenario.tree:
            if found.kind == "Namespace":
                wait_until(f"namespace {found.name} is gone", partial(is_gone, admin, found.body))


@pytest.mark.parametrize("name", SCENARIOS)
def test_mpigen_predicts_the_declared_end_of_the_scenario(name: str) -> None:
    assert SCENARIOS[name].predicted == SCENARIOS[name].ends


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_scenario_ends_as_mpigen_predicts(
    cluster: Cluster, ended: Mapping[str, Mapping[str, str]], name: str
) -> None:
    if not _is_for(cluster, SCENARIOS[name]):
        pytest.skip(_REFUSED)
    assert ended[name] == SCENARIOS[name].predicted


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize("name", [name for name, each in SCENARIOS.items() if each.platform.pools[0].topology])
def test_pods_run_on_the_nodes_that_mpigen_predicts(cluster: Cluster, name: str) -> None:
    if not _is_for(cluster, SCENARIOS[name]):
        pytest.skip(_REFUSED)
    predicted = {job: each.places for job, each in SCENARIOS[name].outcomes.items() if each.places}
    assert predicted
    assert {job: _places(cluster.admin, SCENARIOS[name], job) for job in predicted} == predicted


def _is_for(cluster: Cluster, scenario: Scenario) -> bool:
    """Return True if mpigen renders the scenario's platform for this version of Kueue."""
    return not (cluster.versions["kueue"].minor == "0.18" and scenario.platform.pools[0].topology)


def _play(admin: Client, wanted: list[Scenario]) -> dict[str, dict[str, str]]:
    for scenario in wanted:
        add_nodes(admin, scenario.platform)
        for found in scenario.tree:
            admin.apply(found.body, "tests")
    for number in range(max(len(scenario.steps) for scenario in wanted)):
        for scenario in wanted:
            for step in scenario.steps[number : number + 1]:
                _take(admin, scenario, step)
        _settle(admin)
    workloads = _workloads(admin)
    return {scenario.name: _ends(admin, scenario, workloads) for scenario in wanted}


def _places(admin: Client, scenario: Scenario, job: str) -> dict[str, dict[str, int]]:
    """Kind of pods → node → how many of a job are there."""
    there: dict[str, dict[str, int]] = {}
    for pod in _pods(admin, scenario, job):
        role = there.setdefault(pod["metadata"]["labels"][ROLE], {})
        node = pod["spec"].get("nodeName", "nowhere")
        role[node] = role.get(node, 0) + 1
    return there


def _take(admin: Client, scenario: Scenario, step: Step) -> None:
    if step.body is not None:
        admin.create(step.body)
        return
    finish(admin, _pods(admin, scenario, step.job))


def _pods(admin: Client, scenario: Scenario, job: str) -> list[Body]:
    (namespace,) = {
        each.body["metadata"]["namespace"] for each in scenario.steps if each.body is not None and each.job == job
    }
    return [pod for pod in admin.items("v1", "Pod", namespace) if pod["metadata"]["labels"].get(JOB) == job]


def _settle(admin: Client) -> None:
    """Wait until Kueue has observed all jobs and their states no longer change."""
    since, before = time.monotonic(), _states(admin)

    def still() -> bool | None:
        nonlocal since, before
        now = _states(admin)
        if now != before:
            since, before = time.monotonic(), now
        return (time.monotonic() - since > _STILL) or None

    wait_for("nothing changes any more", still, 120)


def _states(admin: Client) -> list[object]:
    jobs = admin.items("trainer.kubeflow.org/v1alpha1", "TrainJob")
    found = [*jobs, *admin.items("kueue.x-k8s.io/v1beta2", "Workload"), *admin.items("v1", "Pod")]
    return [(each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in found]


def _workloads(admin: Client) -> dict[tuple[str, str], Body]:
    """Namespace and TrainJob → its Workload."""
    found = admin.items("kueue.x-k8s.io/v1beta2", "Workload")
    return {(each["metadata"]["namespace"], each["metadata"]["ownerReferences"][0]["name"]): each for each in found}


def _ends(admin: Client, scenario: Scenario, workloads: Mapping[tuple[str, str], Body]) -> dict[str, str]:
    jobs = [step.body["metadata"] for step in scenario.steps if step.body is not None]
    events = [event for job in jobs for event in admin.items("v1", "Event", job["namespace"])]
    return {job["name"]: _end(workloads[job["namespace"], job["name"]], events) for job in jobs}


def _end(workload: Body, events: Iterable[Body]) -> str:
    """Return the end of a job in the words of the scenarios."""
    true = {found["type"] for found in conditions(workload) if found["status"] == "True"}
    about = workload["metadata"]["name"]
    said = [event["message"] for event in events if event["involvedObject"]["name"] == about]
    said += [found["message"] for found in conditions(workload)]
    if "Finished" in true:
        return "finished"
    if "Admitted" in true:
        return "runs"
    if "Preempted" in true:
        return "stopped"
    if any("is inactive" in message or "is stopped" in message for message in said):
        return "closed"
    return "never" if any("> maximum capacity" in message for message in said) else "waits"
