"""Compile a TrainJob: compute the objects that Trainer, JobSet and the Job controller create for it.

`trainer` computes the JobSet, the ssh key and the hostfile; `job_set` computes the Service, the Jobs and the Pods. The
objects have no defaults of the API server, and no values that exist only in a cluster: see `trainer.UNKNOWN_UID`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.errors import NotModelledError, SimulationError, suggest
from generator.facts.names import EXCLUSIVE_TOPOLOGY, TRAINER_MANAGER
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import JOB_SET, NODE, RUNTIMES
from generator.objects.training import AMOUNTS, FIELD, TRAINER, ReplicatedJob, reference_of
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.schemas.updates import normalize_custom
from generator.upstream.jobset import jobs as job_set
from generator.upstream.kueue import webhook as kueue
from generator.upstream.trainer import runtime as trainer
from generator.upstream.trainer.runtime import INITIALIZERS, OLD, PATCH, Fault, Origin, Training
from generator.upstream.trainer.webhook import find_rejections

__all__ = ["Compiled", "Fault", "Origin", "compile_job", "find_faults", "find_runtime", "read_priorities"]

_MOST_PODS = 50_000  # no cluster has so many nodes, and the hostfile no longer fits into a ConfigMap of 1 MiB
_NOT_MODELLED: Mapping[Path, object] = {
    ("spec", "managedBy"): TRAINER_MANAGER,
    ("spec", "podGroupPolicy"): None,
    **{("spec", "mlPolicy", name): None for name in ("flux", "jax", "xgboost")},
    (*JOB_SET, "managedBy"): "jobset.sigs.k8s.io/jobset-controller",
    (*JOB_SET, "volumeClaimPolicies"): [],
}
"""Fields of a runtime or TrainJob with values that need other controllers or plugins → a value that needs none."""


@dataclass(frozen=True)
class Compiled:
    """The objects of a TrainJob while it runs.

    Attributes:
        job: the TrainJob.
        job_set: the JobSet.
        others: the ConfigMaps, the Secret and the Service.
        jobs: (index of the replicated job, Job).
        pods: (index of the replicated job, Pod), in the order of the Jobs.
        hosts: the hosts in the hostfile of an MPI job, in the order of the ranks.
        slots: the processes per host of an MPI job.
        layers: the origins of the values of the JobSet.
    """

    job: Manifest
    job_set: Body
    others: tuple[Body, ...]
    jobs: tuple[tuple[int, Body], ...]
    pods: tuple[tuple[int, Body], ...]
    hosts: tuple[str, ...]
    slots: int
    layers: tuple[trainer.Layer, ...] = field(repr=False)

    @property
    def objects(self) -> tuple[Body, ...]:
        """The objects of the TrainJob, in the order of their creation."""
        return (*self.others, self.job_set, *(body for _, body in (*self.jobs, *self.pods)))

    def origin(self, kind: str, replicated_job: int, path: Path) -> Origin | None:
        """Return the field of the TrainJob or the runtime that sets a value; None if a controller sets it.

        A value without an own origin, such as an absent field of a container, has the origin of its nearest parent.

        Args:
            kind: `Pod`, `Job` or `JobSet`, the kind of the object with the value.
            replicated_job: the index of the replicated job of the object; ignored for the JobSet.
            path: the path in the object.
        """
        parents: Mapping[str, Path] = {"Job": ("template",), "Pod": ("template", "spec", "template")}
        steps = ("replicatedJobs", replicated_job, *parents[kind], *path) if kind in parents else path[1:]
        layers = self.layers[::-1]  # a later layer overrides an earlier one, and the first one defines a parent
        while steps:
            for layer in layers:
                located = layer.locate(self.job_set["spec"], steps)
                if located is not None:
                    return Origin(layer.manifest, located) if layer.manifest else None
            steps, layers = steps[:-1], self.layers
        return None


def compile_job(
    job: Manifest, runtime: Manifest, targets: Mapping[str, str], priorities: Mapping[str, int] | None = None
) -> Compiled:
    """Return the objects of a TrainJob, as after Kueue admits it, so `suspend` of the TrainJob is ignored.

    Args:
        job: the TrainJob.
        runtime: its runtime, see `find_runtime`.
        targets: component → minor version.
        priorities: PriorityClass → its value, see `read_priorities`.

    Raises:
        SimulationError: the API server, Trainer or Kueue rejects the TrainJob, or its runtime is invalid.
        NotModelledError: mpigen does not simulate a field of the TrainJob or its runtime, so the objects are unknown.
    """
    if faults := list(find_faults(job, runtime, targets)):
        error = NotModelledError if all(fault.is_unknown for fault in faults) else SimulationError
        raise error(tuple(fault.problem for fault in faults))
    training = _training(job, runtime, targets)
    trainer.build(training)
    whole = trainer.owned("jobset.x-k8s.io/v1alpha2", "JobSet", job.name, job)
    whole["metadata"] |= trainer.metadata_of(training)
    whole["spec"] = job_set.with_defaults(training.spec)
    made = replace(job, body=whole)
    others = tuple(filter(None, [*trainer.objects(training), job_set.service(made)]))
    jobs = tuple(job_set.jobs(made))
    known = read_priorities(()) if priorities is None else priorities
    pods = [(number, pod) for number, body in jobs for pod in job_set.pods(replace(made, body=body), known)]
    return Compiled(
        job, whole, others, jobs, tuple(pods), tuple(training.hosts), training.slots, tuple(training.layers)
    )


def read_priorities(manifests: Iterable[Manifest]) -> dict[str, int]:
    """Return PriorityClass → its value, with the two classes of Kubernetes itself.

    The empty name has the priority of pods without a class. Of several default classes, the API server uses the lowest:
    kubernetes v1.34.2 plugin/pkg/admission/priority/admission.go Plugin.getDefaultPriorityClass.
    """
    classes = [manifest for manifest in manifests if manifest.kind == "PriorityClass"]
    default = [manifest.body.get("value", 0) for manifest in classes if manifest.body.get("globalDefault") is True]
    values = {manifest.name: manifest.body.get("value", 0) for manifest in classes}
    return {**job_set.SYSTEM_PRIORITIES, **values, "": min(default, default=0)}


def find_runtime(job: Manifest, manifests: Iterable[Manifest]) -> Manifest | Fault:
    """Return the runtime of a TrainJob; a fault if the manifests do not define it."""
    reference, known = reference_of(job), [manifest for manifest in manifests if manifest.kind in RUNTIMES]
    for runtime in known:
        is_near = runtime.kind == "ClusterTrainingRuntime" or runtime.namespace == job.namespace
        if reference == (runtime.kind, runtime.name) and is_near:
            return runtime
    kind, name = reference or ("runtime", "")
    fix = suggest(name, (runtime.name for runtime in known)) if known else "name the files with the runtimes as well"
    return Fault(Origin(job, ("spec", "runtimeRef", "name")), f"these files define no {kind} `{name}`", fix)


def _training(job: Manifest, runtime: Manifest, targets: Mapping[str, str]) -> Training:
    """Return the TrainJob and its runtime, both with the defaults of their CustomResourceDefinitions."""
    version = targets.get("trainer", "")
    catalog = Catalog.bundled({"trainer": version})
    schemas = [(one, catalog.schema(one.api_version, one.kind) or {}) for one in (job, runtime)]
    stored = [replace(one, body=normalize_custom(one.body, schema, schema)) for one, schema in schemas]
    return Training(stored[0], stored[1], version)


def find_faults(job: Manifest, runtime: Manifest, targets: Mapping[str, str]) -> Iterator[Fault]:
    """Yield the reasons why a TrainJob on a runtime cannot be compiled. Invalid fields hide all other reasons."""
    engine = _engine(targets.get("trainer", ""))
    invalid = [(one, broken) for one in (job, runtime) for broken in engine.violations(one.body) or ()]
    yield from (Fault(Origin(one, broken.path), broken.message, broken.fix) for one, broken in invalid)
    if not invalid:
        yield from _valid_faults(_training(job, runtime, targets))
        yield from find_rejections(job, runtime, targets.get("trainer", ""))
        yield from kueue.find_rejections(job)


@cache
def _engine(version: str) -> Engine:
    return Engine(Catalog.bundled({"trainer": version}))


def _valid_faults(training: Training) -> Iterator[Fault]:
    patched = [("spec", "runtimePatches", number, *PATCH) for number in range(len(training.patches))]
    templates = [(training.runtime, JOB_SET[:-1]), *((training.job, path) for path in patched)]
    yield from _not_modelled(training, templates)
    yield from _uncomputed_sizes(training, templates)
    yield from _rejected_by_trainer(training)
    yield from _unclear_devices(training)
    for manifest, path in templates[1:]:
        yield from _rejected_patches(training, manifest, path)
    for job_of_runtime in _jobs(training.runtime, JOB_SET):
        yield from _rejected_ports(training, job_of_runtime)


def _jobs(manifest: Manifest, path: Path) -> list[ReplicatedJob]:
    """Return the replicated jobs of a JobSet spec, or of a patch of it, with their paths in the manifest."""
    items = indexed_mappings(_at(manifest, path).get("replicatedJobs"))
    return [ReplicatedJob(str(item.get("name")), (*path, "replicatedJobs", number), item) for number, item in items]


def _at(manifest: Manifest, path: Path) -> Mapping[str, object]:
    value: Any = manifest.body
    for step in path:
        value = value[step] if isinstance(step, int) else mapping(value).get(step, {})
    return mapping(value)


def _unknown(manifest: Manifest, path: Path) -> Fault:
    name = format_path(path[-1:])
    message = f"the objects of this TrainJob are unknown, because mpigen does not simulate `{name}`"
    return Fault(
        Origin(manifest, path), message, f"remove `{name}`, or run the TrainJob to see its objects", is_unknown=True
    )


def _not_modelled(training: Training, templates: Iterable[tuple[Manifest, Path]]) -> Iterator[Fault]:
    for manifest in (training.runtime, training.job):
        for path, harmless in _NOT_MODELLED.items():
            if _at(manifest, path[:-1]).get(str(path[-1])) not in (None, harmless):
                yield _unknown(manifest, path)
    if "torch" in training.policy and training.trainer.get("command") == ["tune", "run"]:
        yield _unknown(training.job, ("spec", "trainer", "command"))
    for manifest, path in templates:
        yield from _directives(manifest, path, _at(manifest, path))
        for place in (path, *((*job.path, "template") for job in _jobs(manifest, (*path, "spec")))):
            annotations = (*place, "metadata", "annotations")
            if EXCLUSIVE_TOPOLOGY in _at(manifest, annotations):
                yield _unknown(manifest, (*annotations, EXCLUSIVE_TOPOLOGY))


def _uncomputed_sizes(training: Training, templates: Iterable[tuple[Manifest, Path]]) -> Iterator[Fault]:
    """Yield a fault for each number of nodes or pods that is below 1 or above `_MOST_PODS`: no such job ever runs."""
    sizes: list[tuple[Manifest, Path]] = [
        (training.job, ("spec", "trainer", "numNodes")),
        (training.runtime, ("spec", "mlPolicy", "numNodes")),
    ]
    for manifest, path in templates:
        for job in _jobs(manifest, (*path, "spec")):
            sizes.append((manifest, (*job.path, "replicas")))
            sizes += ((manifest, (*job.path, "template", "spec", name)) for name in ("parallelism", "completions"))
    for manifest, path in sizes:
        size = _at(manifest, path[:-1]).get(str(path[-1]), 1)
        if isinstance(size, int) and not 1 <= size <= _MOST_PODS:
            message = f"the objects of this TrainJob are unknown, because `{path[-1]}` is {size}"
            fix = f"use a number from 1 to {_MOST_PODS}"
            yield Fault(Origin(manifest, path), message, fix, is_unknown=True)


def _directives(manifest: Manifest, path: Path, value: object) -> Iterator[Fault]:
    """Yield a fault for each directive of a strategic merge patch, such as `$patch`, because mpigen applies none."""
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if str(key).startswith("$"):
            yield _unknown(manifest, (*path, key))
        yield from _directives(manifest, (*path, key), child)


def _rejected_by_trainer(training: Training) -> Iterator[Fault]:
    """Yield a fault for an MPI implementation, and for each initializer, for which Trainer creates no objects.

    Source: trainer v2.2.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy; trainer v2.3.0
    pkg/runtime/framework/plugins/jobset/jobset.go JobSet.Validate.
    """
    implementation = mapping(training.policy, "mpi").get("mpiImplementation", "OpenMPI")
    if implementation != "OpenMPI":
        origin = Origin(training.runtime, ("spec", "mlPolicy", "mpi", "mpiImplementation"))
        message = f"Trainer creates no objects for `mpiImplementation: {json.dumps(implementation)}`"
        yield Fault(origin, message, "set `OpenMPI`, for every MPI implementation")
    for key, name in INITIALIZERS.items():
        located = [job for job in _jobs(training.runtime, JOB_SET) if job.name == name]
        if key in mapping(training.job.body, "spec", "initializer") and not any(
            trainer.containers(dict(job.body), name) for job in located
        ):
            message = f"the runtime `{training.runtime.name}` has no replicated job `{name}` with a container `{name}`"
            fix = f"remove `{key}`, or use a runtime with this job"
            yield Fault(Origin(training.job, ("spec", "initializer", key)), message, fix)


def _rejected_patches(training: Training, manifest: Manifest, path: Path) -> Iterator[Fault]:
    """Yield a fault for each patch of a replicated job or container that the runtime lacks.

    The webhook of Trainer 2.2 rejects the TrainJob (trainer v2.2.0
    pkg/runtime/framework/plugins/jobset/jobset.go JobSet.Validate). With other versions, the patch adds a
    replicated job or container without required fields.
    """
    known = {
        job.name: {str(item.get("name")) for _, item in job.containers} for job in _jobs(training.runtime, JOB_SET)
    }
    for job in _jobs(manifest, (*path, "spec")):
        if job.name not in known:
            message = (
                f"the runtime `{training.runtime.name}` has no replicated job `{job.name}` that the patch could change"
            )
            yield Fault(Origin(manifest, (*job.path, "name")), message, suggest(job.name, known))
            continue
        for place, container in job.containers:
            if (name := str(container.get("name"))) not in known[job.name]:
                message = f"the replicated job `{job.name}` of the runtime has no container `{name}`"
                message += ", so the patch adds one without an image, and the API server rejects the Job"
                yield Fault(Origin(manifest, (*place, "name")), message, suggest(name, known[job.name]))


def _rejected_ports(training: Training, job: ReplicatedJob) -> Iterator[Fault]:
    """Yield a fault for each port that Trainer equates with an earlier port: both have no name, or the same number.

    Source: trainer v2.2.0 pkg/apply/apply.go UpsertPort, which Trainer 2.2 calls for `containers` only.
    """
    for path, container in job.containers:
        earlier: set[tuple[str, object]] = set()
        for at, port in indexed_mappings(container.get("ports")):
            keys = {("number", port.get("containerPort")), *([] if port.get("name") else [("name", None)])}
            if keys & earlier and (training.version != OLD or path[-2] == "containers"):
                message = "this port has no name or number of its own, so Trainer merges it with an earlier port"
                fix = "give each port of a container its own name and its own number"
                yield Fault(Origin(training.runtime, (*path, "ports", at)), message, fix)
            earlier |= keys


def _unclear_devices(training: Training) -> Iterator[Fault]:
    """Yield a fault if Trainer counts processes by GPUs, and several resources have `gpu` in their names.

    Trainer then takes one of these resources at random.

    Source: trainer v2.2.0 pkg/runtime/runtime.go numGPU; trainer v2.2.0 pkg/runtime/runtime.go
    ExtractResourcePerNodeFromRuntime; trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy.
    """
    if mapping(training.policy, "mpi").get("numProcPerNode") != 1 or "numProcPerNode" in training.trainer:
        return
    nodes = [job for job in _jobs(training.runtime, JOB_SET) if job.name == NODE or job.step == TRAINER]
    of_runtime = [(training.runtime, (*job.container.path, "resources")) for job in nodes if job.container]
    is_set = "resourcesPerNode" in training.trainer
    for manifest, path in [(training.job, FIELD)] if is_set else of_runtime[:1]:
        for key in AMOUNTS:
            if len(set(trainer.gpu_amounts(_at(manifest, path), key))) > 1:
                message = "several resources have `gpu` in their names, and Trainer counts processes by one at random"
                fix = "set `numProcPerNode` of the TrainJob"
                yield Fault(Origin(manifest, (*path, key)), message, fix, is_unknown=True)
