"""Runtimes and TrainJobs of Kubeflow Trainer, as rules read them.

Values of a wrong type read as absent: the schemas report them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from generator.checks.objects import Objects
from generator.documents.load import Path
from generator.facts.names import STEP
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.quantities import parse

NODE = "node"
"""The job with the hosts, and the container that Trainer knows in it and in the launcher."""
LAUNCHER = "launcher"
TRAINER = "trainer"
"""The step of the job that runs what a TrainJob says (trainer v2.3.0 pkg/constants/constants.go)."""
JOB_SET: Path = ("spec", "template", "spec")
MPI: Path = ("spec", "mlPolicy", "mpi")


def resized_containers(runtime: Body) -> Iterator[Mapping[str, Any]]:
    """The containers that get `resourcesPerNode` of a TrainJob: those called `node`."""
    for pod in resized_pods(runtime):
        for _, container in indexed_mappings(pod.get("containers")):
            if container.get("name") == NODE:
                yield container


def resized_pods(runtime: Body) -> Iterator[Mapping[str, Any]]:
    """The pods in which they are: of the trainer's job, and of the hosts of MPI if the launcher is one of them.

    trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Trainer; v2.3.0
    pkg/runtime/core/trainingruntime.go newRuntimeInfo
    """
    is_launcher_a_node = mapping(runtime, *map(str, MPI)).get("runLauncherAsNode") is True
    for _, job in indexed_mappings(mapping(runtime, *map(str, JOB_SET)).get("replicatedJobs")):
        is_trainer = mapping(job, "template", "metadata", "labels").get(STEP) == TRAINER
        if is_trainer or (is_launcher_a_node and job.get("name") == NODE):
            yield mapping(job, "template", "spec", "template", "spec")


@dataclass(frozen=True, slots=True)
class Container:
    """A container called `node`.

    Attributes:
        path: where it stands.
        body: what it says.
    """

    path: Path
    body: Mapping[str, Any]

    @property
    def variables(self) -> list[tuple[Path, str]]:
        """Where each variable of its environment stands, and its name."""
        found = [(number, item.get("name")) for number, item in indexed_mappings(self.body.get("env"))]
        return [((*self.path, "env", number), name) for number, name in found if isinstance(name, str)]

    @property
    def amounts(self) -> Mapping[str, Any]:
        """What it asks for: a limit is a request too, unless there is another."""
        resources = mapping(self.body, "resources")
        return {**mapping(resources, "limits"), **mapping(resources, "requests")}


@dataclass(frozen=True)
class ReplicatedJob:
    """One of the jobs of the JobSet.

    Attributes:
        name: empty if there is none.
        path: where it stands.
        body: what it says.
    """

    name: str
    path: Path
    body: Mapping[str, Any]

    @property
    def step(self) -> object:
        """The value of the label that tells which part of a TrainJob is for this job."""
        return mapping(self.body, "template", "metadata", "labels").get(STEP)

    @property
    def dependencies(self) -> list[tuple[Path, str, object]]:
        """Where each dependency stands, on which job, and on what of it."""
        found = [(number, item, item.get("name")) for number, item in indexed_mappings(self.body.get("dependsOn"))]
        return [
            ((*self.path, "dependsOn", number), name, item.get("status"))
            for number, item, name in found
            if isinstance(name, str)
        ]

    @property
    def pods(self) -> Mapping[str, Any]:
        """The template of its pods."""
        return mapping(self.body, "template", "spec", "template")

    @property
    def pods_path(self) -> Path:
        """Where that stands."""
        return (*self.path, "template", "spec", "template")

    @property
    def pod(self) -> Mapping[str, Any]:
        """What its pods are."""
        return mapping(self.pods, "spec")

    @property
    def pod_path(self) -> Path:
        """Where that stands."""
        return (*self.pods_path, "spec")

    @property
    def containers(self) -> list[tuple[Path, Mapping[str, Any]]]:
        """Where each of its containers stands, and what it says; those that run before the others come first."""
        kinds = ("initContainers", "containers")
        return [
            ((*self.pod_path, kind, number), item)
            for kind in kinds
            for number, item in indexed_mappings(self.pod.get(kind))
        ]

    @cached_property
    def container(self) -> Container | None:
        """The one that Trainer looks for."""
        for number, item in indexed_mappings(self.pod.get("containers")):
            if item.get("name") == NODE:
                return Container((*self.pod_path, "containers", number), item)
        return None


@dataclass(frozen=True, slots=True)
class TrainingRuntime:
    """A ClusterTrainingRuntime or TrainingRuntime.

    Attributes:
        body: the whole object.
    """

    body: Body

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> TrainingRuntime | None:
        """Return the view of a manifest; None for another kind."""
        is_runtime = manifest.group == _GROUP and manifest.kind in ("ClusterTrainingRuntime", "TrainingRuntime")
        return cls(manifest.body) if is_runtime else None


@dataclass(frozen=True, slots=True)
class TrainJob:
    """A TrainJob.

    Attributes:
        body: the whole object.
    """

    body: Body

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> TrainJob | None:
        """Return the view of a manifest; None for another kind."""
        return cls(manifest.body) if (manifest.group, manifest.kind) == (_GROUP, "TrainJob") else None


@dataclass(frozen=True)
class MpiRuntime:
    """A training runtime for MPI.

    Attributes:
        body: the whole object.
        policy: `spec.mlPolicy.mpi`.
    """

    body: Body
    policy: Mapping[str, Any]

    @classmethod
    def of_manifest(cls, manifest: Manifest, targets: Mapping[str, str]) -> MpiRuntime | None:
        """Return the view of a manifest; None if it is not a runtime for MPI."""
        runtime = TrainingRuntime.of_manifest(manifest, targets)
        return mpi_runtime(runtime.body) if runtime else None

    @property
    def ml_policy(self) -> Mapping[str, Any]:
        """`spec.mlPolicy`."""
        return mapping(self.body, "spec", "mlPolicy")

    @property
    def job_set(self) -> Mapping[str, Any]:
        """The spec of the JobSet that a TrainJob becomes."""
        return mapping(self.body, *map(str, JOB_SET))

    @cached_property
    def jobs(self) -> tuple[ReplicatedJob, ...]:
        """The jobs of the JobSet, in order."""
        found = [
            (number, item, item.get("name")) for number, item in indexed_mappings(self.job_set.get("replicatedJobs"))
        ]
        return tuple(
            ReplicatedJob(name if isinstance(name, str) else "", (*JOB_SET, "replicatedJobs", number), item)
            for number, item, name in found
        )

    @cached_property
    def node(self) -> ReplicatedJob | None:
        """The job with the hosts."""
        return self._job(NODE)

    @cached_property
    def launcher(self) -> ReplicatedJob | None:
        """The job that runs `mpirun`."""
        return self._job(LAUNCHER)

    @property
    def pair(self) -> tuple[ReplicatedJob, ...]:
        """Those of the two that are there: the jobs that Trainer gives the key to."""
        return tuple(job for job in (self.node, self.launcher) if job)

    @property
    def is_launcher_a_node(self) -> bool:
        """Whether the launcher runs ranks too."""
        return self.policy.get("runLauncherAsNode") is True

    def _job(self, name: str) -> ReplicatedJob | None:
        return next((job for job in self.jobs if job.name == name), None)


def mpi_runtime(body: Body) -> MpiRuntime | None:
    """The view of a training runtime; None if it is not one for MPI."""
    policy = mapping(body, "spec", "mlPolicy").get("mpi")
    return MpiRuntime(body, policy) if isinstance(policy, dict) else None


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


def on_runtimes(gathered: Objects) -> Iterator[OnRuntime]:
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


def runtime_of(job: Manifest, gathered: Objects) -> Manifest | None:
    """The runtime that a TrainJob is on, if it is there."""
    found = reference_of(job)
    return gathered.one(_GROUP, *found, job.namespace if found.kind == "TrainingRuntime" else "") if found else None


def queue_of(job: Manifest) -> str:
    """The LocalQueue that a TrainJob comes by, if Kueue takes it."""
    name = mapping(job.body, "metadata", "labels").get(QUEUE)
    return name if isinstance(name, str) else _DEFAULT


def is_queued(job: Manifest, gathered: Objects) -> bool:
    """Whether Kueue takes a TrainJob: it names a queue, or there is one in its namespace that takes what names none."""
    is_named = QUEUE in mapping(job.body, "metadata", "labels")
    return is_named or gathered.one(_KUEUE, "LocalQueue", _DEFAULT, job.namespace) is not None
