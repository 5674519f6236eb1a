"""What jobs of a runtime may not drop, as its Namespaces say it: devices of a fabric, and variables that lead to it.

It is read off the runtimes of the tree, so that those that admins write count like ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.config.model.fabrics import Fabric
from generator.facts.names import FABRIC, STEP
from generator.facts.transport_variables import transport_variables
from generator.manifests import Body, Manifest

CLAIM = "claim"
"""Instead of a number: what a host has of it is claimed of a driver."""
_CONTAINER = "node"  # trainer v2.3.0 pkg/constants/constants.go Node: the only one that a TrainJob changes


@dataclass(frozen=True, slots=True)
class Wired:
    """What a runtime has of a fabric.

    Attributes:
        devices: resource, or name of a claim → how many a host has of it, or `claim`; only those of pods that
            `resourcesPerNode` reaches.
        variables: those that a job may not set.
    """

    devices: Mapping[str, str]
    variables: tuple[str, ...]


def wired(runtime: Manifest, fabrics: Iterable[Fabric]) -> Wired | None:
    """What a training runtime has of a fabric of the platform; None where it has none.

    `resourcesPerNode` reaches the pods of the `trainer` step and, where the launcher is a node, the job `node` (trainer
    v2.3.0 pkg/runtime/core/trainingruntime.go newRuntimeInfo; v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go
    Trainer). A separate launcher is on no fabric, and its hosts keep what they have.
    """
    spec = runtime.body["spec"]
    jobs: list[Body] = spec["template"]["spec"]["replicatedJobs"]
    fabric = _fabric(jobs, {each.name: each for each in fabrics})
    if fabric is None:
        return None
    is_node = (spec.get("mlPolicy") or {}).get("mpi", {}).get("runLauncherAsNode", False)
    devices: dict[str, str] = {}
    environment: dict[str, str] = {}
    for job in jobs:
        is_step = job["template"].get("metadata", {}).get("labels", {}).get(STEP) == "trainer"
        if is_step or (is_node and job["name"] == _CONTAINER):
            devices |= _devices(job, fabric)
        if is_step:
            environment |= _environment(job)
    return Wired(devices, () if fabric.fallback else tuple(transport_variables(environment)))


def _fabric(jobs: Iterable[Body], fabrics: Mapping[str, Fabric]) -> Fabric | None:
    """The one that the pods say they are on."""
    named = (_pods(job).get("metadata", {}).get("annotations", {}).get(FABRIC, "") for job in jobs)
    return next((fabrics[name] for name in named if name in fabrics), None)


def _devices(job: Body, fabric: Fabric) -> dict[str, str]:
    found: dict[str, str] = {}
    for container in _containers(job):
        resources = container.get("resources", {})
        limits = resources.get("limits", {})
        found |= {name: str(limits[name]) for name in sorted(fabric.requests) if name in limits}
        found |= {each["name"]: CLAIM for each in resources.get("claims", ())}
    return found


def _environment(job: Body) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for found in _containers(job) for each in found.get("env", ())}


def _containers(job: Body) -> Iterator[dict[str, Any]]:
    return (each for each in _pods(job)["spec"]["containers"] if each["name"] == _CONTAINER)


def _pods(job: Body) -> Body:
    pods: Body = job["template"]["spec"]["template"]
    return pods
