"""change/*: updated and removed runtimes, namespaces and priorities that TrainJobs depend on.

mpigen's Application prunes: Argo CD deletes the objects that a release no longer has, as `kubectl delete` would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generator import quantities
from generator.checks.change.immutable import next_name
from generator.checks.finding import Breach, Severity
from generator.checks.objects import Change, ChangedObject
from generator.checks.quota.queues import KUEUE
from generator.checks.registry import WARNING, check
from generator.checks.trainer import JOB_SET
from generator.documents.load import Path
from generator.facts.names import STEP, SUPPORT
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping

_Steps = tuple[str, ...]

_RUNTIMES = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})
_POLICY: _Steps = ("spec", "mlPolicy")
_JOBS: _Steps = ("spec", "template", "spec", "replicatedJobs")
_POD: _Steps = (*_JOBS, "template", "spec", "template")
_CONTAINERS = ("initContainers", "containers")
# kueue v0.19.2 pkg/util/equality/podset.go ComparePodSets, pkg/controller/jobframework/reconciler.go ensureOneWorkload,
# pkg/controller/jobs/trainjob/trainjob_controller.go getChildJobSet: pods are compared by number, and by containers.
_COUNTED: tuple[_Steps, ...] = (
    (*_POLICY, "numNodes"),
    (*_POLICY, "mpi", "runLauncherAsNode"),
    (*_JOBS, "replicas"),
    (*_JOBS, "template", "metadata", "labels", STEP),
    (*_JOBS, "template", "spec", "parallelism"),
    *((*_POD, "spec", kind) for kind in _CONTAINERS),
)
# jobset v0.11.1 pkg/webhooks/jobset_webhook.go ValidateUpdate: what a suspended JobSet takes.
_TAKEN: tuple[_Steps, ...] = (
    (*_POD, "metadata"),
    *((*_POD, "spec", field) for field in ("nodeSelector", "tolerations", "schedulingGates")),
)


@check("change/runtime-in-use", severity=WARNING, needs=ChangedObject)
def runtime_in_use(change: ChangedObject) -> Iterator[Breach]:
    """Report an update of a runtime that stops or strands its TrainJobs.

    What Kueue counts of a runtime changes, which is how many pods there are, and everything in their containers,
    down to a variable. Kueue stops the TrainJobs that run on it, as they are not what it admitted, and queues them
    anew. That may be hours later: nothing tells Kueue that a runtime has changed, so it notices when something else
    happens to the job, or when it is restarted itself. Trainer 2.3 then makes the pods of the old runtime again, as
    a TrainJob keeps the runtime that it began with, while Kueue counts those of the new one.

    Trainer 2.2 remembers no runtime, and JobSet refuses any other pods than it has. So there every change of
    `mlPolicy` or of a job is told, but for labels, annotations, node selectors, tolerations and scheduling gates of
    its pods: jobs that wait never start, and those that run cannot be suspended.

    Source: Those of Trainer 2.3 keep their pods: trainer v2.3.0 pkg/runtime/core/snapshot.go.
    """
    old, new, targets = change.old, change.new, change.targets
    if new.group != "trainer.kubeflow.org" or new.kind not in _RUNTIMES:
        return
    is_remembered = targets.get("trainer") != "2.2"
    changes = [path for path in _changes(old.body, new.body) if (_counts if is_remembered else _is_refused)(path)]
    if not changes:
        return
    why = (
        "Kueue stops the jobs that run on it the next time that it looks, as they are not what it admitted; they start"
        " again with the pods of the old runtime, while Kueue counts those of the new one"
        if is_remembered
        else "JobSet refuses the new pods for the jobs that are there: those that wait never start, and those that run"
        " can no longer be stopped by Kueue"
    )
    yield Breach(
        changes[0],
        "change/runtime-in-use",
        f"{_words(changes, new.body)}: `{new.name}` changes, and its jobs do not follow",
        why,
        f"write a new runtime, such as `{next_name(new.name)}`, and deprecate this one, or wait until it has no jobs",
        Severity.WARNING,
    )


def _steps(path: Path) -> _Steps:
    """Without the numbers of items."""
    return tuple(step for step in path if isinstance(step, str))


def _counts(path: Path) -> bool:
    return any(_touches(_steps(path), counted) for counted in _COUNTED)


def _is_refused(path: Path) -> bool:
    steps = _steps(path)
    return not any(steps[: len(taken)] == taken for taken in _TAKEN)


def _touches(one: _Steps, other: _Steps) -> bool:
    """Whether one is inside the other, or the same."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _words(changes: list[Path], body: object) -> str:
    """`image` (node, launcher), `numNodes`."""
    jobs = {
        number: str(job.get("name"))
        for number, job in indexed_mappings(mapping(body, *map(str, JOB_SET)).get(_JOBS[-1]))
    }
    named: dict[str, dict[str, None]] = {}
    for path in changes:
        number = path[len(_JOBS)] if len(path) > len(_JOBS) and path[: len(_JOBS)] == _JOBS else None
        named.setdefault(_field(path), {})[jobs[number] if isinstance(number, int) else ""] = None
    return ", ".join(
        f"`{field}` ({', '.join(names)})" if any(names) else f"`{field}`" for field, names in named.items()
    )


def _field(path: Path) -> str:
    """Of a container its field, else the last step."""
    steps = _steps(path)
    return next((steps[steps.index(kind) + 1] for kind in _CONTAINERS if kind in steps[:-1]), steps[-1])


def _changes(old: object, new: object) -> Iterator[Path]:
    """Where the policy or the jobs differ, as deep as can be told."""
    yield from _differences(_POLICY, _policy(old), _policy(new))
    was, now = (_jobs(body) for body in (old, new))
    if [job.get("name") for job in was] != [job.get("name") for job in now]:
        yield _JOBS
    else:
        yield from _differences(_JOBS, was, now)


def _policy(body: object) -> object:
    policy = mapping(body, *_POLICY)
    mpi = policy.get("mpi")
    whole = {"numNodes": 1, **policy, **({"mpi": {"runLauncherAsNode": False, **mpi}} if isinstance(mpi, dict) else {})}
    return _normal(whole)


def _jobs(body: object) -> list[Any]:
    found = mapping(body, *map(str, JOB_SET)).get(_JOBS[-1])
    return [_normal(_job(job)) if isinstance(job, dict) else {} for job in (found if isinstance(found, list) else ())]


def _job(job: Mapping[str, Any]) -> dict[str, Any]:
    """With what is counted where nothing is said."""
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
    """A value as the API server reads it: empty is the same as not there, and 1 the same as 1000m."""
    if isinstance(value, dict):
        parts = {key: _normal(item, is_amount=key in ("limits", "requests")) for key, item in value.items()}
        return {key: _amount(part) if is_amount else part for key, part in parts.items() if part not in (None, [], {})}
    return [_normal(item) for item in value] if isinstance(value, list) else value


def _amount(value: object) -> object:
    try:
        return quantities.parse(str(value)).value
    except ValueError:
        return value


_TRAINER = "trainer.kubeflow.org"
_RUNTIME_KINDS = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})


@check("change/runtime-removed", severity=WARNING, needs=Change)
def runtime_removed(change: Change) -> Iterator[tuple[Manifest, Breach]]:
    """Report a removed runtime that was not deprecated before.

    A runtime goes that was not deprecated in the release before. Kueue and Trainer's webhook need the runtime as
    long as there are TrainJobs on it: without it those that wait never start, nobody can suspend those that run,
    and they keep their quota when they have ended, until they are deleted or the runtime is back. Trainer 2.2 keeps
    the runtime, from a second after its first TrainJob until its last is deleted, and takes new ones meanwhile.

    Source: trainer v2.3.0 pkg/webhooks/trainjob_webhook.go ValidateUpdate wants it at every update of a TrainJob,
    and so does kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go getRuntimeSpec. trainer v2.2.0
    pkg/controller/clustertrainingruntime_controller.go Reconcile keeps it with a finalizer.
    """
    old, new, targets = change.old, change.new, change.targets
    gone = [manifest for manifest in _gone(old, new) if manifest.group == _TRAINER and manifest.kind in _RUNTIME_KINDS]
    ended = {manifest.name for manifest in _gone_namespaces(old, new)}
    for manifest in gone:
        is_deprecated = mapping(manifest.body, "metadata", "labels").get(SUPPORT) == "deprecated"
        if not is_deprecated and manifest.namespace not in ended:
            yield manifest, _runtime(manifest, is_kept=targets.get("trainer") == "2.2")


def _runtime(manifest: Manifest, *, is_kept: bool) -> Breach:
    why = (
        "Kueue cannot start, stop or end a TrainJob without its runtime: those that wait never run, and those that run"
        " keep their quota when they have ended"
    )
    if is_kept:
        why = "Trainer 2.2 lets it go only when its last TrainJob is deleted, and takes new ones until then"
    return Breach(
        ("metadata", "name"),
        "change/runtime-removed",
        f"`{manifest.name}` is in the next release no more",
        why,
        "keep it, deprecated, until no TrainJob names it, and remove it in a later release",
        Severity.WARNING,
        value=manifest.name,
    )


@check("change/tenant-removed", severity=WARNING, needs=Change)
def tenant_removed(change: Change) -> Iterator[tuple[Manifest, Breach]]:
    """Report a removed namespace.

    A namespace goes. mpigen's Application prunes, so Argo CD deletes it, and Kubernetes everything in it: jobs that
    run, volume claims, secrets.

    Source: kubernetes v1.34.2 pkg/controller/namespace/deletion/namespaced_resources_deleter.go deleteAllContent
    """
    old, new = change.old, change.new
    for manifest in _gone_namespaces(old, new):
        yield (
            manifest,
            Breach(
                ("metadata", "name"),
                "change/tenant-removed",
                f"`{manifest.name}` is in the next release no more",
                "Argo CD prunes it, and with the namespace go its running jobs, its volume claims and all else in it",
                "first let its people end their jobs and save their data",
                Severity.WARNING,
                value=manifest.name,
            ),
        )


@check("change/priority-removed", severity=WARNING, needs=Change)
def priority_removed(change: Change) -> Iterator[tuple[Manifest, Breach]]:
    """Report a removed WorkloadPriorityClass.

    A WorkloadPriorityClass goes. Jobs that are queued or run keep its value. A job that names it afterwards gets no
    Workload: it stays suspended until the priority is back, no event says why, and only Kueue's log does.

    Source: kueue v0.19.2 pkg/controller/jobframework/reconciler.go prepareWorkload: without it there is no
    Workload, and no event says so; tests/cluster/test_changed_flavors.py.
    """
    old, new = change.old, change.new
    for manifest in _gone(old, new):
        if (manifest.group, manifest.kind) == (KUEUE, "WorkloadPriorityClass"):
            yield (
                manifest,
                Breach(
                    ("metadata", "name"),
                    "change/priority-removed",
                    f"`{manifest.name}` is in the next release no more",
                    "a job that names it from now on is never queued, and only Kueue's log says why; jobs that wait"
                    " or run keep its value",
                    f"first let nobody name it in the label `{KUEUE}/priority-class`",
                    Severity.WARNING,
                    value=manifest.name,
                ),
            )


def _gone_namespaces(old: Sequence[Manifest], new: Sequence[Manifest]) -> list[Manifest]:
    return [manifest for manifest in _gone(old, new) if (manifest.group, manifest.kind) == ("", "Namespace")]


def _gone(old: Sequence[Manifest], new: Sequence[Manifest]) -> list[Manifest]:
    kept = {manifest.identity for manifest in new}
    return [manifest for manifest in old if manifest.name and manifest.identity not in kept]
