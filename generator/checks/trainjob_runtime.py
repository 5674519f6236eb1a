"""OnRuntime: a TrainJob that says `resourcesPerNode`, and the runtime that it is on, as the rules over both read them.

Where a schema has something to say, a value may be anything: here it is then as if nothing stood there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import resized_containers, resized_pods
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.quantities import parse

FIELD: Path = ("spec", "trainer", "resourcesPerNode")
AMOUNTS = ("limits", "requests")
_GROUP = "trainer.kubeflow.org"
_KUEUE = "kueue.x-k8s.io"
QUEUE = f"{_KUEUE}/queue-name"
"""The label that names a LocalQueue."""
_DEFAULT = "default"
"""The LocalQueue that takes what names none (kueue v0.19.2 pkg/controller/constants/constants.go)."""


@dataclass(frozen=True, slots=True)
class OnRuntime:
    """A TrainJob on its runtime.

    Attributes:
        job: says `resourcesPerNode`.
        runtime: what it refers to.
    """

    job: Manifest
    runtime: Manifest

    @property
    def said(self) -> Mapping[str, Any]:
        """`resourcesPerNode`."""
        return mapping(self.job.body, *map(str, FIELD))

    @property
    def names_amounts(self) -> bool:
        """Whether it names limits or requests, be it none."""
        return any(isinstance(self.said.get(key), dict) for key in AMOUNTS)

    @property
    def left_out(self) -> Mapping[str, object]:
        """What the runtime asks for and the TrainJob does not name, in the order of the runtime: resource → amount."""
        named = {name for key in AMOUNTS for name in mapping(self.said, key)}
        amounts: dict[str, object] = {}
        for resources in self.resources():
            amounts |= {**mapping(resources, "limits"), **mapping(resources, "requests")}
        return {name: amount for name, amount in amounts.items() if name not in named}

    @property
    def uncounted(self) -> Mapping[str, object]:
        """What is left out, but for what init containers ask for too: Kueue counts the larger of the two.

        kueue v0.19.2 pkg/workload/workload.go totalRequestsFromPodSets
        """
        pods = list(resized_pods(self.runtime.body))
        return {
            name: amount
            for name, amount in self.left_out.items()
            if not all(_is_asked_before(pod, name, amount) for pod in pods)
        }

    @property
    def claims(self) -> list[str]:
        """The claims of devices in the runtime that `resourcesPerNode` touches."""
        names = [claim.get("name") for each in self.resources() for _, claim in indexed_mappings(each.get("claims"))]
        return [name for name in names if isinstance(name, str)]

    def resources(self) -> Iterator[Mapping[str, Any]]:
        """Those of the containers that get the TrainJob's."""
        return (mapping(container, "resources") for container in resized_containers(self.runtime.body))


def _is_asked_before(pod: Mapping[str, Any], name: str, amount: object) -> bool:
    """Whether an init container asks for at least as much of a resource."""
    asked = (mapping(each, "resources") for _, each in indexed_mappings(pod.get("initContainers")))
    amounts = ({**mapping(each, "limits"), **mapping(each, "requests")}.get(name) for each in asked)
    try:
        return any(parse(str(each)).value >= parse(str(amount)).value for each in amounts if each is not None)
    except ValueError:
        return False


def on_runtimes(gathered: Gathered) -> Iterator[OnRuntime]:
    """The TrainJobs that say `resourcesPerNode` and whose runtime is there."""
    for job in gathered.of(_GROUP, "TrainJob"):
        if isinstance(mapping(job.body, *map(str, FIELD[:-1])).get("resourcesPerNode"), dict):
            runtime = runtime_of(job, gathered)
            if runtime:
                yield OnRuntime(job, runtime)


class Reference(NamedTuple):
    """What `runtimeRef` of a TrainJob means."""

    kind: str
    name: str


def reference_of(job: Manifest) -> Reference | None:
    """The runtime that a TrainJob names; None where it names none of Trainer's."""
    ref = {"kind": "ClusterTrainingRuntime", "apiGroup": _GROUP, **mapping(job.body, "spec", "runtimeRef")}
    kind, name = ref["kind"], ref.get("name")
    if not isinstance(kind, str) or not isinstance(name, str) or ref["apiGroup"] != _GROUP:
        return None
    return Reference(kind, name)


def runtime_of(job: Manifest, gathered: Gathered) -> Manifest | None:
    """The runtime that a TrainJob is on, if it is there."""
    found = reference_of(job)
    return gathered.one(_GROUP, *found, job.namespace if found.kind == "TrainingRuntime" else "") if found else None


def queue_of(job: Manifest) -> str:
    """The LocalQueue that a TrainJob comes by, if Kueue takes it."""
    name = mapping(job.body, "metadata", "labels").get(QUEUE)
    return name if isinstance(name, str) else _DEFAULT


def is_queued(job: Manifest, gathered: Gathered) -> bool:
    """Whether Kueue takes a TrainJob: it names a queue, or there is one in its namespace that takes what names none."""
    is_named = QUEUE in mapping(job.body, "metadata", "labels")
    return is_named or gathered.one(_KUEUE, "LocalQueue", _DEFAULT, job.namespace) is not None
