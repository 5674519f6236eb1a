"""Recorded states of a cluster: the queues and Workloads of a scenario before and after each of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from generator.manifests import Manifest
from tests.cluster.client import Body
from tests.cluster.nodes import nodes
from tests.cluster.scenarios import Scenario, Step

FOLDER = Path(__file__).parent / "usage"
_METADATA = ("name", "namespace", "uid", "creationTimestamp", "ownerReferences")
_CONDITION = ("type", "status", "reason", "lastTransitionTime")
_KUEUE = "kueue.x-k8s.io/v1beta2"


@dataclass(frozen=True, slots=True)
class State:
    """The ClusterQueues and Workloads at one moment, as far as `check-job --usage` reads them."""

    queues: list[Body]
    workloads: list[Body]

    @classmethod
    def seen(cls, scenario: Scenario, queues: list[Body], workloads: list[Body]) -> State:
        """Return the part of the stored objects that belongs to a scenario."""
        homes = {item.name for item in scenario.tree if item.kind == "Namespace"}
        names = {item.name for item in scenario.tree if item.kind == "ClusterQueue"}
        return cls(
            [_queue(queue) for queue in queues if queue["metadata"]["name"] in names],
            [_workload(item) for item in workloads if item["metadata"]["namespace"] in homes],
        )

    def export(self, scenario: Scenario) -> list[Manifest]:
        """Return the objects as an export has them: the scenario has the specs of its ClusterQueues."""
        specs = {item.name: item.body for item in scenario.tree if item.kind == "ClusterQueue"}
        queues = [{**specs[queue["metadata"]["name"]], "status": queue["status"]} for queue in self.queues]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other", "namespace": "default"}, "spec": {}}
        bodies = (*queues, *self.workloads, *nodes(scenario.platform), pod)
        return [Manifest(body, "usage") for body in bodies]

    def of(self, job: str) -> Body | None:
        """Return the Workload of a TrainJob; None if there is none."""
        return next((item for item in self.workloads if item["metadata"]["ownerReferences"][0]["name"] == job), None)


def _queue(queue: Body) -> Body:
    return {"metadata": {"name": queue["metadata"]["name"]}, "status": _only(queue["status"], ("flavorsReservation",))}


def _workload(item: Body) -> Body:
    """Return a Workload without the fields that neither Kueue nor mpigen reads."""
    spec = {**item["spec"], "podSets": [_pods(pods) for pods in item["spec"]["podSets"]]}
    status = _only(item.get("status", {}), ("admission", "reclaimablePods"))
    conditions = [_only(found, _CONDITION) for found in item.get("status", {}).get("conditions", [])]
    owners = [_only(owner, ("kind", "name")) for owner in item["metadata"]["ownerReferences"]]
    return {
        "apiVersion": _KUEUE,
        "kind": "Workload",
        "metadata": {**_only(item["metadata"], _METADATA), "ownerReferences": owners},
        "spec": spec,
        "status": {**status, "conditions": conditions},
    }


def _pods(pods: Body) -> Body:
    template = pods["template"]
    pod = _only(template["spec"], ("nodeSelector", "tolerations", "affinity", "overhead", "resourceClaims"))
    for kind in ("initContainers", "containers"):
        pod[kind] = [
            _only(container, ("name", "resources", "restartPolicy")) for container in template["spec"].get(kind, [])
        ]
    annotations = template.get("metadata", {}).get("annotations", {})
    return {**pods, "template": {"metadata": {"annotations": annotations}, "spec": pod}}


def _only(body: Body, fields: tuple[str, ...]) -> Body:
    return {name: body[name] for name in fields if name in body}


def write(scenario: str, states: list[State]) -> None:
    """Write the states of a scenario: before its first step, and after each step."""
    data = [{"queues": state.queues, "workloads": state.workloads} for state in states]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{scenario}.yaml").write_text(yaml.safe_dump(data, sort_keys=False, width=120))


def recorded(scenarios: Mapping[str, Scenario]) -> Iterator[tuple[Scenario, int, Step, State, State]]:
    """Yield the steps that submit a job, each with its number and the states before and after it."""
    for file in sorted(FOLDER.glob("*.yaml")):
        scenario = scenarios[file.stem]
        data: list[Any] = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        states = [State(each["queues"], each["workloads"]) for each in data]
        for number, (step, before, after) in enumerate(zip(scenario.steps, states, states[1:], strict=False)):
            if step.body is not None:
                yield scenario, number, step, before, after
