"""Scenarios of sharing, as data: small platforms, what people submit to them, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from generator import App, Platform
from generator.manifests import Manifest
from generator.pipeline import render
from generator.upstream.kueue.admission import predict
from generator.upstream.kueue.podsets import podsets
from generator.upstream.kueue.queues import read_queue_tree
from generator.upstream.kueue.workloads import Finished, Job, Outcome, State
from tests.cluster.client import Body
from tests.cluster.nodes import nodes

_FILE = Path(__file__).with_name("scenarios.yaml")
_NODE = {"cpu": 4, "memory": "8Gi"}
STRATEGIES = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
"""The preemption strategies that mpigen configures with fair sharing."""
PRIORITY = "kueue.x-k8s.io/priority-class"


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens: a job is submitted, or `finish` names one whose ranks end.

    Attributes:
        body: the TrainJob that is submitted; None where one ends.
        job: its name in the scenario.
    """

    job: str
    body: Body | None


@dataclass(frozen=True)
class Scenario:
    """A platform of its own, what happens on it, and how each job ends there.

    Attributes:
        name: of the scenario, and of its platform.
        platform: with one pool, named as the scenario.
        is_fair: whether Kueue's fair sharing must be on.
        steps: in their order.
        ends: job → runs, waits, never, stopped, closed or finished.
    """

    name: str
    platform: Platform
    is_fair: bool
    steps: tuple[Step, ...]
    ends: Mapping[str, str]

    @cached_property
    def outcomes(self) -> Mapping[str, Outcome]:
        """Return the outcomes that mpigen computes."""
        rendered = self.tree
        (runtime,) = [found.body for found in rendered if found.kind == "ClusterTrainingRuntime"]
        steps = [Finished(step.job) if step.body is None else self._sent(step.body, runtime) for step in self.steps]
        there = [Manifest(node, "nodes.yaml") for node in nodes(self.platform)]
        return predict(read_queue_tree(rendered), steps, STRATEGIES if self.is_fair else (), there)

    @property
    def predicted(self) -> dict[str, str]:
        """Return the computed end of each job."""
        queues = read_queue_tree(self.tree).queues
        closed = {name for name, queue in queues.items() if queue.stop_policy != "None"}
        homes = {step.job: step.body["metadata"]["namespace"] for step in self.steps if step.body is not None}
        return {job: _words(outcome, homes[job] in closed) for job, outcome in self.outcomes.items()}

    def _sent(self, body: Body, runtime: Body) -> Job:
        """The TrainJob as Kueue counts it."""
        metadata = body["metadata"]
        priorities = {each.name: each.value for each in self.platform.queues.priorities}
        priority = priorities[metadata["labels"][PRIORITY]] if PRIORITY in metadata["labels"] else 0
        pods = podsets(runtime, body["spec"]["trainer"]["numNodes"])
        return Job(metadata["name"], metadata["namespace"], pods, priority, metadata["namespace"])

    @property
    def tree(self) -> list[Manifest]:
        """Return the tree that mpigen renders from the platform."""
        return render(self.platform, App(self.platform))


def _words(outcome: Outcome, is_closed: bool) -> str:
    """An outcome in the words of the scenarios."""
    if outcome.state is State.WAITS and outcome.was_preempted:
        return "stopped"
    if outcome.state is State.NEVER and is_closed:
        return "closed"
    return "runs" if outcome.state is State.ADMITTED else outcome.state.value


def scenarios() -> dict[str, Scenario]:
    """Return all scenarios by name; object names start with the scenario's name, so that all fit on one cluster."""
    return {name: _scenario(name, data) for name, data in yaml.safe_load(_FILE.read_text()).items()}


def _scenario(name: str, data: dict[str, Any]) -> Scenario:
    platform = _platform(name, data)
    return Scenario(
        name,
        platform,
        platform.queues.fair_sharing,
        tuple(Step(each.get("submit") or each["finish"], _job(name, each)) for each in data["steps"]),
        data["ends"],
    )


def _platform(name: str, data: dict[str, Any]) -> Platform:
    pool = {"name": name, "nodes": 8, "allocatable": _NODE, "labels": {"example.com/scenario": name}}
    runtime = {"name": name, "pool": name, "resources": _NODE}
    return Platform.model_validate(
        {
            "platform": f"{name}-platform",
            "release": "1.0.0",
            "pools": [pool | data.get("pool", {})],
            "runtimes": [runtime | data.get("runtime", {})],
            "queues": {"slack": data.get("slack", False), "fairSharing": data.get("fairSharing", False)},
            "cohorts": [_renamed(name, cohort) for cohort in data.get("cohorts", ())],
            "tenants": [_renamed(name, tenant) for tenant in data["tenants"]],
        }
    )


def _renamed(scenario: str, entry: dict[str, Any]) -> dict[str, Any]:
    """With the names of the scenario's own objects; quotas are all of its pool, which the file calls `cpu`."""
    names: dict[str, Any] = {key: f"{scenario}-{entry[key]}" for key in ("name", "parent", "cohort") if key in entry}
    shares: dict[str, Any] = {key: {scenario: entry[key]["cpu"]} for key in ("quota", "borrow", "lend") if key in entry}
    return {**entry, **names, **shares}


def _job(scenario: str, step: dict[str, Any]) -> Body | None:
    """The TrainJob that a step submits."""
    if "submit" not in step:
        return None
    labels = {PRIORITY: step["priority"]} if "priority" in step else {}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": step["submit"], "namespace": f"{scenario}-{step['tenant']}", "labels": labels},
        "spec": {
            "runtimeRef": {"name": scenario},
            "trainer": {"numNodes": step["nodes"], "command": ["mpirun", "hostname"]},
        },
    }
