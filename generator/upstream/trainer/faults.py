"""TrainJobs for which Trainer creates no objects, or objects that mpigen cannot compute."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.errors import suggest
from generator.facts.names import EXCLUSIVE_TOPOLOGY, TRAINER_MANAGER
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import JOB_SET, NODE
from generator.objects.training import AMOUNTS, FIELD, TRAINER, ReplicatedJob
from generator.upstream.trainer.runtime import (
    INITIALIZERS,
    OLD,
    PATCH,
    Fault,
    Origin,
    Training,
    containers,
    gpu_amounts,
)

_MOST_PODS = 50_000  # no cluster has so many nodes, and the hostfile no longer fits into a ConfigMap of 1 MiB
_NOT_MODELLED: Mapping[Path, object] = {
    ("spec", "managedBy"): TRAINER_MANAGER,
    ("spec", "podGroupPolicy"): None,
    **{("spec", "mlPolicy", name): None for name in ("flux", "jax", "xgboost")},
    (*JOB_SET, "managedBy"): "jobset.sigs.k8s.io/jobset-controller",
    (*JOB_SET, "volumeClaimPolicies"): [],
}
"""Fields of a runtime or TrainJob with values that need other controllers or plugins → a value that needs none."""


def find_training_faults(training: Training) -> Iterator[Fault]:
    """Yield the reasons why Trainer creates no objects for a TrainJob, or why mpigen cannot compute them."""
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
            containers(dict(job.body), name) for job in located
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
            if len(set(gpu_amounts(_at(manifest, path), key))) > 1:
                message = "several resources have `gpu` in their names, and Trainer counts processes by one at random"
                fix = "set `numProcPerNode` of the TrainJob"
                yield Fault(Origin(manifest, (*path, key)), message, fix, is_unknown=True)
