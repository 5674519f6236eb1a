"""Compile a TrainJob: compute the objects that Trainer, JobSet and the Job controller create for it.

`trainer.runtime` computes the JobSet, the ssh key and the hostfile; `jobset.jobs` computes the Service, the Jobs and
the Pods. The objects have no defaults of the API server, and no values of a cluster: see `UNKNOWN_UID`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.errors import NotModelledError, SimulationError, suggest
from generator.manifests import Body, Manifest
from generator.objects.pods import RUNTIMES
from generator.objects.training import reference_of
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.schemas.updates import normalize_custom
from generator.upstream.jobset import jobs as job_set
from generator.upstream.kueue import webhook as kueue
from generator.upstream.trainer import runtime as trainer
from generator.upstream.trainer.faults import find_training_faults
from generator.upstream.trainer.runtime import Fault, Origin, Training
from generator.upstream.trainer.webhook import find_rejections

__all__ = ["Compiled", "Fault", "Origin", "compile_job", "find_faults", "find_runtime", "read_priorities"]


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
    if engine.violations(job.body) is None:
        message = f"{format_value(job.api_version)} is not the apiVersion of a TrainJob"
        yield Fault(Origin(job, ("apiVersion",)), message, "write `apiVersion: trainer.kubeflow.org/v1alpha1`")
        return
    invalid = [(one, broken) for one in (job, runtime) for broken in engine.violations(one.body) or ()]
    yield from (Fault(Origin(one, broken.path), broken.message, broken.fix) for one, broken in invalid)
    if not invalid:
        yield from find_training_faults(_training(job, runtime, targets))
        yield from find_rejections(job, runtime, targets.get("trainer", ""))
        yield from kueue.find_rejections(job)


@cache
def _engine(version: str) -> Engine:
    return Engine(Catalog.bundled({"trainer": version}))
