"""OnRuntime: a TrainJob that says `resourcesPerNode`, and the runtime that it is on, as the rules over both read them.

Where a schema has something to say, a value may be anything: here it is then as if nothing stood there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import JOB_SET, NODE, STEP, TRAINER, mapping, mappings
from generator.documents.load import Path
from generator.manifests import Manifest

FIELD: Path = ("spec", "trainer", "resourcesPerNode")
AMOUNTS = ("limits", "requests")
_GROUP = "trainer.kubeflow.org"
_KUEUE = "kueue.x-k8s.io"
_QUEUE = f"{_KUEUE}/queue-name"
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
    def claims(self) -> list[str]:
        """The claims of devices in the runtime that `resourcesPerNode` touches."""
        names = [claim.get("name") for each in self.resources() for _, claim in mappings(each.get("claims"))]
        return [name for name in names if isinstance(name, str)]

    def resources(self) -> Iterator[Mapping[str, Any]]:
        """Those of the containers that get the TrainJob's: `node`, of the trainer's job, and of the hosts of MPI.

        The hosts only if the launcher is one of them.
        trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer; v2.3.0
        pkg/runtime/core/trainingruntime.go newRuntimeInfo
        """
        body = self.runtime.body
        is_launcher_a_node = mapping(body, "spec", "mlPolicy", "mpi").get("runLauncherAsNode") is True
        for _, job in mappings(mapping(body, *map(str, JOB_SET)).get("replicatedJobs")):
            is_trainer = mapping(job, "template", "metadata", "labels").get(STEP) == TRAINER
            if is_trainer or (is_launcher_a_node and job.get("name") == NODE):
                for _, container in mappings(mapping(job, "template", "spec", "template", "spec").get("containers")):
                    if container.get("name") == NODE:
                        yield mapping(container, "resources")


def on_runtimes(gathered: Gathered) -> Iterator[OnRuntime]:
    """The TrainJobs that say `resourcesPerNode` and whose runtime is there."""
    for job in gathered.of(_GROUP, "TrainJob"):
        ref = {"kind": "ClusterTrainingRuntime", "apiGroup": _GROUP, **mapping(job.body, "spec", "runtimeRef")}
        kind, name = ref["kind"], ref.get("name")
        is_said = isinstance(mapping(job.body, *map(str, FIELD[:-1])).get("resourcesPerNode"), dict)
        if is_said and isinstance(kind, str) and isinstance(name, str) and ref["apiGroup"] == _GROUP:
            runtime = gathered.one(_GROUP, kind, name, job.namespace if kind == "TrainingRuntime" else "")
            if runtime:
                yield OnRuntime(job, runtime)


def is_queued(job: Manifest, gathered: Gathered) -> bool:
    """Whether Kueue takes a TrainJob: it names a queue, or there is one in its namespace that takes what names none."""
    is_named = _QUEUE in mapping(job.body, "metadata", "labels")
    return is_named or gathered.one(_KUEUE, "LocalQueue", _DEFAULT, job.namespace) is not None
