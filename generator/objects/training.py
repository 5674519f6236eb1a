"""Views of the runtimes and TrainJobs of Kubeflow Trainer. A value of a wrong type counts as absent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from generator.documents.load import Path
from generator.facts.names import STEP
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping, mappings, string
from generator.objects.pods import JOB_SET, NODE
from generator.quantities import parse

LAUNCHER = "launcher"
TRAINER = "trainer"
"""Value of the step label on the replicated job that runs a TrainJob's command.

Source: trainer v2.3.0 pkg/constants/constants.go
"""
MPI: Path = ("spec", "mlPolicy", "mpi")


def resized_containers(runtime: Body) -> Iterator[dict[str, Any]]:
    """Yield the containers `node` of a runtime, to which Trainer applies `resourcesPerNode` of a TrainJob."""
    for pod in resized_pods(runtime):
        for _, container in indexed_mappings(pod.get("containers")):
            if container.get("name") == NODE:
                yield container


def resized_pods(runtime: Body) -> Iterator[Mapping[str, Any]]:
    """Yield the pod specs of a runtime to which Trainer applies `resourcesPerNode` of a TrainJob.

    They are the pods of the step `trainer` and, if the launcher runs ranks, of the replicated job `node`.

    Source: trainer v2.2.0 pkg/runtime/framework/plugins/jobset/builder.go Builder.Trainer; trainer v2.3.0
    pkg/runtime/core/trainingruntime.go TrainingRuntime.newRuntimeInfo
    """
    is_launcher_a_node = mapping(runtime, *map(str, MPI)).get("runLauncherAsNode") is True
    for _, job in indexed_mappings(mapping(runtime, *map(str, JOB_SET)).get("replicatedJobs")):
        is_trainer = mapping(job, "template", "metadata", "labels").get(STEP) == TRAINER
        if is_trainer or (is_launcher_a_node and job.get("name") == NODE):
            yield mapping(job, "template", "spec", "template", "spec")


@dataclass(frozen=True, slots=True)
class Container:
    """The container `node` of a pod template, and its path in the runtime."""

    path: Path
    body: Mapping[str, Any]

    @property
    def variables(self) -> list[tuple[Path, str]]:
        """(path, name) of each environment variable of the container."""
        names = [(number, item.get("name")) for number, item in indexed_mappings(self.body.get("env"))]
        return [((*self.path, "env", number), name) for number, name in names if isinstance(name, str)]

    @property
    def amounts(self) -> Mapping[str, Any]:
        """Resource → requested amount. A request defaults to the limit."""
        resources = mapping(self.body, "resources")
        return {**mapping(resources, "limits"), **mapping(resources, "requests")}


@dataclass(frozen=True)
class ReplicatedJob:
    """A replicated job of a runtime's JobSet, with its path in the runtime. The name is empty if it is not set."""

    name: str
    path: Path
    body: Mapping[str, Any]

    @property
    def step(self) -> object:
        """The value of the step label, such as `trainer`: the part of a TrainJob that runs in this replicated job."""
        return mapping(self.body, "template", "metadata", "labels").get(STEP)

    @property
    def dependencies(self) -> list[tuple[Path, str, object]]:
        """(path, name of the other replicated job, status) of each entry of `dependsOn`."""
        return [
            ((*self.path, "dependsOn", number), name, item.get("status"))
            for number, item in indexed_mappings(self.body.get("dependsOn"))
            if isinstance(name := item.get("name"), str)
        ]

    @property
    def pods(self) -> Mapping[str, Any]:
        """The pod template of the replicated job."""
        return mapping(self.body, "template", "spec", "template")

    @property
    def pods_path(self) -> Path:
        """The path of the pod template in the runtime."""
        return (*self.path, "template", "spec", "template")

    @property
    def pod(self) -> Mapping[str, Any]:
        """The pod spec of the replicated job."""
        return mapping(self.pods, "spec")

    @property
    def pod_path(self) -> Path:
        """The path of the pod spec in the runtime."""
        return (*self.pods_path, "spec")

    @property
    def containers(self) -> list[tuple[Path, Mapping[str, Any]]]:
        """(path, container) of each container, init containers first."""
        return [
            ((*self.pod_path, kind, number), item)
            for kind in ("initContainers", "containers")
            for number, item in indexed_mappings(self.pod.get(kind))
        ]

    @cached_property
    def container(self) -> Container | None:
        """The container `node`, to which Trainer applies the TrainJob; None if there is none."""
        for number, item in indexed_mappings(self.pod.get("containers")):
            if item.get("name") == NODE:
                return Container((*self.pod_path, "containers", number), item)
        return None


@dataclass(frozen=True, slots=True)
class TrainingRuntime:
    """A ClusterTrainingRuntime or TrainingRuntime of Trainer.

    Attributes:
        body: the whole object.
    """

    body: Body

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> TrainingRuntime | None:
        """Return the TrainingRuntime in a manifest; None for another kind."""
        is_runtime = manifest.group == GROUP and manifest.kind in ("ClusterTrainingRuntime", "TrainingRuntime")
        return cls(manifest.body) if is_runtime else None


@dataclass(frozen=True, slots=True)
class TrainJob:
    """A TrainJob of Trainer.

    Attributes:
        body: the whole object.
    """

    body: Body

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> TrainJob | None:
        """Return the TrainJob in a manifest; None for another kind."""
        return cls(manifest.body) if (manifest.group, manifest.kind) == (GROUP, "TrainJob") else None


@dataclass(frozen=True)
class MpiRuntime:
    """A ClusterTrainingRuntime or TrainingRuntime with `spec.mlPolicy.mpi`.

    Attributes:
        body: the whole object.
        policy: `spec.mlPolicy.mpi`.
    """

    body: Body
    policy: Mapping[str, Any]

    @classmethod
    def of_manifest(cls, manifest: Manifest, targets: Mapping[str, str]) -> MpiRuntime | None:
        """Return the MpiRuntime in a manifest; None if the manifest is not a runtime with `mlPolicy.mpi`."""
        runtime = TrainingRuntime.of_manifest(manifest, targets)
        return mpi_runtime(runtime.body) if runtime else None

    @property
    def ml_policy(self) -> Mapping[str, Any]:
        """`spec.mlPolicy`."""
        return mapping(self.body, "spec", "mlPolicy")

    @property
    def job_set(self) -> Mapping[str, Any]:
        """`spec.template.spec`: the spec of the JobSet that Trainer creates for each TrainJob on this runtime."""
        return mapping(self.body, *map(str, JOB_SET))

    @cached_property
    def jobs(self) -> tuple[ReplicatedJob, ...]:
        """The replicated jobs of the JobSet, in order."""
        return tuple(
            ReplicatedJob(
                name if isinstance(name := item.get("name"), str) else "", (*JOB_SET, "replicatedJobs", number), item
            )
            for number, item in indexed_mappings(self.job_set.get("replicatedJobs"))
        )

    @cached_property
    def node(self) -> ReplicatedJob | None:
        """The replicated job `node` with the worker pods; None if the runtime does not define it."""
        return self._job(NODE)

    @cached_property
    def launcher(self) -> ReplicatedJob | None:
        """The replicated job `launcher`, which runs `mpirun`; None if the runtime does not define it."""
        return self._job(LAUNCHER)

    @property
    def pair(self) -> tuple[ReplicatedJob, ...]:
        """The replicated jobs that get the ssh key from Trainer: `node` and `launcher`, if the runtime defines them."""
        return tuple(job for job in (self.node, self.launcher) if job)

    @property
    def is_launcher_a_node(self) -> bool:
        """True if the launcher pod also runs ranks (`runLauncherAsNode`)."""
        return self.policy.get("runLauncherAsNode") is True

    def _job(self, name: str) -> ReplicatedJob | None:
        return next((job for job in self.jobs if job.name == name), None)


def mpi_runtime(body: Body) -> MpiRuntime | None:
    """Return the MpiRuntime in the body of a runtime; None if the runtime has no `spec.mlPolicy.mpi`."""
    policy = mapping(body, "spec", "mlPolicy").get("mpi")
    return MpiRuntime(body, policy) if isinstance(policy, dict) else None


FIELD: Path = ("spec", "trainer", "resourcesPerNode")
AMOUNTS = ("limits", "requests")
GROUP = "trainer.kubeflow.org"
KUEUE = "kueue.x-k8s.io"
QUEUE = f"{KUEUE}/queue-name"
"""The label of a job: the name of its LocalQueue."""
DEFAULT_QUEUE = "default"
"""The LocalQueue of jobs without this label (kueue v0.19.2 pkg/controller/constants/constants.go)."""


@dataclass(frozen=True, slots=True)
class OnRuntime:
    """A TrainJob, and the runtime of its `runtimeRef`."""

    job: Manifest
    runtime: Manifest

    @property
    def amounts(self) -> Mapping[str, Any]:
        """`resourcesPerNode` of the TrainJob."""
        return mapping(self.job.body, *map(str, FIELD))

    @property
    def sets_amounts(self) -> bool:
        """True if `resourcesPerNode` has limits or requests, even empty ones."""
        return any(isinstance(self.amounts.get(key), dict) for key in AMOUNTS)

    @property
    def missing(self) -> Mapping[str, object]:
        """Resource → amount that the runtime requests and the TrainJob does not set, in the order of the runtime."""
        names = {name for key in AMOUNTS for name in mapping(self.amounts, key)}
        amounts: dict[str, object] = {}
        for resources in self.resources():
            amounts |= {**mapping(resources, "limits"), **mapping(resources, "requests")}
        return {name: amount for name, amount in amounts.items() if name not in names}

    @property
    def uncounted(self) -> Mapping[str, object]:
        """The part of `missing` that Kueue does not count.

        Kueue counts a missing amount only if an init container of each pod requests at least as much.

        Source: kueue v0.19.2 pkg/workload/workload.go totalRequestsFromPodSets
        """
        pods = list(resized_pods(self.runtime.body))
        return {
            name: amount
            for name, amount in self.missing.items()
            if not all(_init_container_requests(pod, name, amount) for pod in pods)
        }

    @property
    def claims(self) -> list[str]:
        """The names of the device claims in the containers to which Trainer applies `resourcesPerNode`."""
        claims = [claim for resources in self.resources() for _, claim in indexed_mappings(resources.get("claims"))]
        return [name for claim in claims if isinstance(name := claim.get("name"), str)]

    def resources(self) -> Iterator[Mapping[str, Any]]:
        """Yield `resources` of the containers to which Trainer applies `resourcesPerNode`."""
        return (mapping(container, "resources") for container in resized_containers(self.runtime.body))


def _init_container_requests(pod: Mapping[str, Any], name: str, amount: object) -> bool:
    """Return True if an init container of a pod requests at least this amount of a resource."""
    resources = (mapping(container, "resources") for _, container in indexed_mappings(pod.get("initContainers")))
    requests = ({**mapping(some, "limits"), **mapping(some, "requests")}.get(name) for some in resources)
    try:
        return any(parse(str(request)).value >= parse(str(amount)).value for request in requests if request is not None)
    except ValueError:
        return False


class Reference(NamedTuple):
    """The kind and the name of a runtime that a TrainJob references."""

    kind: str
    name: str


def reference_of(job: Manifest) -> Reference | None:
    """Return the `runtimeRef` of a TrainJob; None if it names no runtime of Trainer.

    An absent `kind` is ClusterTrainingRuntime.
    """
    ref = {"kind": "ClusterTrainingRuntime", "apiGroup": GROUP, **mapping(job.body, "spec", "runtimeRef")}
    kind, name = ref["kind"], ref.get("name")
    if not isinstance(kind, str) or not isinstance(name, str) or ref["apiGroup"] != GROUP:
        return None
    return Reference(kind, name)


def queue_of(job: Manifest) -> str:
    """Return the name of the LocalQueue of a TrainJob; `default` without a queue label."""
    name = mapping(job.body, "metadata", "labels").get(QUEUE)
    return name if isinstance(name, str) and name else DEFAULT_QUEUE


def replicated_jobs(body: Body, path: Path) -> list[Body]:
    """Return the replicated jobs of the JobSet spec at a path."""
    return [dict(item) for item in mappings(mapping(body, *map(str, path)).get("replicatedJobs"))]


def containers_of(jobs: Iterable[Body], name: object) -> dict[str, Mapping[str, Any]]:
    """Return name → container of the replicated job `name`, init containers included."""
    pods = [mapping(job, "template", "spec", "template", "spec") for job in jobs if job.get("name") == name]
    lists = [mappings(pod.get(kind)) for pod in pods for kind in ("initContainers", "containers")]
    return {string(container.get("name")): container for container in chain.from_iterable(lists)}
