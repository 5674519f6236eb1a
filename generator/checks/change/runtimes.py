"""change/*: runtimes that jobs use, and that an update changes or removes.

The Argo CD Applications of mpigen prune: Argo CD deletes the objects that a release no longer has, as `kubectl delete`
would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator import quantities
from generator.checks.change.immutable import next_name
from generator.checks.objects import Change, ChangedObject
from generator.checks.registry import WARNING, Breach, check
from generator.documents.load import Path
from generator.facts.names import STEP, SUPPORT
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import JOB_SET

_Steps = tuple[str, ...]

TRAINER = "trainer.kubeflow.org"
RUNTIMES = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})
_POLICY: _Steps = ("spec", "mlPolicy")
_JOBS: _Steps = ("spec", "template", "spec", "replicatedJobs")
_POD: _Steps = (*_JOBS, "template", "spec", "template")
_CONTAINERS = ("initContainers", "containers")
# kueue v0.19.2 pkg/util/equality/podset.go ComparePodSets; kueue v0.19.2 pkg/controller/jobframework/reconciler.go
# JobReconciler.ensureOneWorkload; kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go getChildJobSet:
# Kueue compares the pods' number and containers.
_COMPARED: tuple[_Steps, ...] = (
    (*_POLICY, "numNodes"),
    (*_POLICY, "mpi", "runLauncherAsNode"),
    (*_JOBS, "replicas"),
    (*_JOBS, "template", "metadata", "labels", STEP),
    (*_JOBS, "template", "spec", "parallelism"),
    *((*_POD, "spec", kind) for kind in _CONTAINERS),
)
# jobset v0.11.1 pkg/webhooks/jobset_webhook.go jobSetWebhook.ValidateUpdate: fields that may change in a suspended
# JobSet.
_ACCEPTED: tuple[_Steps, ...] = (
    (*_POD, "metadata"),
    *((*_POD, "spec", field) for field in ("nodeSelector", "tolerations", "schedulingGates")),
)


@check("change/runtime-in-use", severity=WARNING, needs=ChangedObject)
def runtime_in_use(change: ChangedObject) -> Iterator[Breach]:
    """Report an update of a runtime that stops its running TrainJobs or keeps pending ones from starting.

    The update changes the number of pods, or a field of their containers such as `env`. Running TrainJobs then no
    longer match their Workloads, so Kueue suspends the TrainJobs and queues them again. This may happen hours later:
    Kueue does not watch runtimes, and compares a TrainJob with its Workload only when the TrainJob changes or Kueue
    restarts. Trainer 2.3 creates the old pods again, because a TrainJob keeps a copy of its first runtime. But Kueue
    counts the pods of the changed runtime.

    Trainer 2.2 keeps no copy of the runtime, and JobSet rejects changed pods. For Trainer 2.2 the check reports every
    change of `mlPolicy` and of a job, except labels, annotations, node selectors, tolerations and scheduling gates of
    its pods: pending jobs never start, and Kueue cannot suspend running jobs.

    Source: trainer v2.3.0 pkg/runtime/core/snapshot.go; kueue v0.19.2 pkg/util/equality/podset.go ComparePodSets; kueue
    v0.19.2 pkg/controller/jobframework/reconciler.go JobReconciler.ensureOneWorkload; jobset v0.11.1
    pkg/webhooks/jobset_webhook.go jobSetWebhook.ValidateUpdate
    """
    old, new = change.old, change.new
    if new.group != TRAINER or new.kind not in RUNTIMES:
        return
    keeps_runtime = change.targets.get("trainer") != "2.2"
    changes = [path for path in _changes(old.body, new.body) if (_is_compared if keeps_runtime else _is_rejected)(path)]
    if changes:
        yield Breach(
            changes[0],
            f"the update changes {_format_changes(changes, new.body)} of runtime `{new.name}`, but existing TrainJobs "
            "keep their old pods",
            "Kueue later suspends the running TrainJobs of this runtime, because they no longer match their Workloads. "
            "The TrainJobs start again with their old pods, but Kueue counts the pods of the changed runtime"
            if keeps_runtime
            else "JobSet rejects the new pods of existing TrainJobs: pending TrainJobs never start, and Kueue cannot "
            "suspend running TrainJobs",
            f"add a new runtime, such as `{next_name(new.name)}`, and deprecate this runtime; or apply the update when "
            "no TrainJob uses the runtime",
        )


def _steps(path: Path) -> _Steps:
    """Return the names in a path, without the indexes of list items."""
    return tuple(step for step in path if isinstance(step, str))


def _is_compared(path: Path) -> bool:
    """Return True if Kueue compares this field of a runtime with the Workloads of TrainJobs on the runtime."""
    return any(_touches(_steps(path), compared) for compared in _COMPARED)


def _is_rejected(path: Path) -> bool:
    """Return True if JobSet rejects a change of this field of a runtime, even while the JobSet is suspended."""
    steps = _steps(path)
    return not any(steps[: len(field)] == field for field in _ACCEPTED)


def _touches(one: _Steps, other: _Steps) -> bool:
    """Return True if two paths are equal, or if one path is a parent of the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _format_changes(changes: list[Path], body: object) -> str:
    """Format the changed fields and their jobs: `image` (job `node`, job `launcher`), `numNodes`."""
    jobs = {
        number: str(job.get("name"))
        for number, job in indexed_mappings(mapping(body, *map(str, JOB_SET)).get(_JOBS[-1]))
    }
    jobs_of: dict[str, dict[str, None]] = {}
    for path in changes:
        number = path[len(_JOBS)] if len(path) > len(_JOBS) and path[: len(_JOBS)] == _JOBS else None
        jobs_of.setdefault(_field(path), {})[f"job `{jobs[number]}`" if isinstance(number, int) else ""] = None
    return ", ".join(
        f"`{field}` ({', '.join(names)})" if any(names) else f"`{field}`" for field, names in jobs_of.items()
    )


def _field(path: Path) -> str:
    """Return the field that a message names: the field of a container, or else the last field of the path."""
    steps = _steps(path)
    return next((steps[steps.index(kind) + 1] for kind in _CONTAINERS if kind in steps[:-1]), steps[-1])


def _changes(old: object, new: object) -> Iterator[Path]:
    """Yield the paths of changed fields in the ML policy and in the replicated jobs of a runtime."""
    yield from _differences(_POLICY, normalized_policy(old), normalized_policy(new))
    was, now = (normalized_jobs(body) for body in (old, new))
    if [job.get("name") for job in was] != [job.get("name") for job in now]:
        yield _JOBS
    else:
        yield from _differences(_JOBS, was, now)


def normalized_policy(body: object) -> object:
    """Return the ML policy of a runtime with defaults set, in the form of `normalized_jobs`."""
    policy = mapping(body, *_POLICY)
    mpi = policy.get("mpi")
    whole = {"numNodes": 1, **policy, **({"mpi": {"runLauncherAsNode": False, **mpi}} if isinstance(mpi, dict) else {})}
    return _normal(whole)


def normalized_jobs(body: object) -> list[Any]:
    """Return the replicated jobs of a runtime with defaults set, quantities as numbers, and without empty fields."""
    jobs = mapping(body, *map(str, JOB_SET)).get(_JOBS[-1])
    return [_normal(_job(job)) if isinstance(job, dict) else {} for job in (jobs if isinstance(jobs, list) else ())]


def _job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a replicated job with the defaults of `replicas` and `parallelism` set."""
    spec = {"parallelism": 1, **mapping(job, "template", "spec")}
    return {"replicas": 1, **job, "template": {**mapping(job, "template"), "spec": spec}}


def _differences(path: Path, old: Any, new: Any) -> Iterator[Path]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys(), key=str):
            yield from _differences((*path, str(key)), old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _differences((*path, number), before, after)
    elif old != new:
        yield path


def _normal(value: object, *, is_amount: bool = False) -> Any:
    """Return a value without empty fields and with quantities as numbers, so that only real changes differ."""
    if isinstance(value, dict):
        parts = {key: _normal(item, is_amount=key in ("limits", "requests")) for key, item in value.items()}
        left = {key: part for key, part in parts.items() if part not in (None, [], {})}
        if is_amount:
            amounts = {key: quantities.amount_of(part) for key, part in left.items()}
            return {key: part if amounts[key] is None else amounts[key] for key, part in left.items()}
        return left
    return [_normal(item) for item in value] if isinstance(value, list) else value


@check("change/runtime-removed", severity=WARNING, needs=Change)
def runtime_removed(change: Change) -> Iterator[Breach]:
    """Report a removed runtime that was not deprecated before.

    Kueue and Trainer's webhook read the runtime of every TrainJob. Without the runtime, pending TrainJobs never start,
    and Kueue cannot suspend running TrainJobs. TrainJobs that end hold their quota until you delete them or add the
    runtime again. Trainer 2.2 keeps the runtime until its last TrainJob is deleted, and accepts new TrainJobs
    meanwhile. The check skips runtimes of a namespace that is removed too: `change/tenant-removed` reports it.

    Source: trainer v2.3.0 pkg/webhooks/trainjob_webhook.go TrainJobValidator.ValidateUpdate; kueue v0.19.2
    pkg/controller/jobs/trainjob/trainjob_controller.go getRuntimeSpec; trainer v2.2.0
    pkg/controller/clustertrainingruntime_controller.go ClusterTrainingRuntimeReconciler.Reconcile (finalizer)
    """
    namespaces = {namespace.name for namespace in change.removed("", "Namespace")}
    for manifest in change.removed(TRAINER, *RUNTIMES):
        is_deprecated = mapping(manifest.body, "metadata", "labels").get(SUPPORT) == "deprecated"
        if not is_deprecated and manifest.namespace not in namespaces:
            yield Breach(
                ("metadata", "name"),
                f"runtime `{manifest.name}` is removed in the next release",
                "Trainer 2.2 deletes the runtime only after its last TrainJob, and accepts new TrainJobs until then"
                if change.targets.get("trainer") == "2.2"
                else "Kueue needs the runtime of a TrainJob: without it, pending TrainJobs never start, and running"
                " TrainJobs hold their quota even after they end",
                f"deprecate the runtime first (label `{SUPPORT}: deprecated`), and remove the runtime in a later "
                "release, when no TrainJob uses it",
                manifest,
                value=manifest.name,
            )
