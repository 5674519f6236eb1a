"""trainjob/*: what Trainer rejects in a TrainJob, and what prevents its pods from ever starting."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from generator.checks.finding import Severity
from generator.checks.objects import Objects
from generator.checks.quota.queues import RUNTIMES
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.checks.runtime import broken_values
from generator.checks.trainer import GROUP, TrainJob, reference_of
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts import env
from generator.facts.names import QUEUE_NAME
from generator.manifests import Body
from generator.objects.fields import indexed_mappings, mapping

_LONGEST = 63  # characters of a pod's name that JobSet accepts
_LAUNCHER_SUFFIX = len("-launcher-0-0-abcde")
_SHORTEST_SUFFIX = len("-x-0-0-abcde")
_GENERATED = 5  # characters that the API server appends to `generateName`


@check("trainjob/name", severity=ERROR, needs=TrainJob)
def name(job: TrainJob) -> Iterator[Breach]:
    """Report a name that is too long for the names of its pods.

    JobSet rejects pod names with more than 63 characters. A TrainJob on an MPI runtime can have 44, and on any runtime
    51. Trainer accepts 63. The check does not read the runtime: 45 to 51 characters are a warning, more are an error.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go ValidateCreate, pkg/util/placement GenPodName
    """
    metadata = mapping(job.body, "metadata")
    field, more = ("name", 0) if metadata.get("name") else ("generateName", _GENERATED)
    value = metadata.get(field)
    if not isinstance(value, str) or len(value) + more + _LAUNCHER_SUFFIX <= _LONGEST:
        return
    length = len(value) + more
    is_always = length + _SHORTEST_SUFFIX > _LONGEST
    yield Breach(
        ("metadata", field),
        f"the name has {length} characters",
        f"on {'any runtime' if is_always else 'an MPI runtime'} JobSet rejects the pod names, which exceed {_LONGEST} "
        "characters. The TrainJob never gets pods, and only an event reports the error",
        f"use a name of at most {_LONGEST - _LAUNCHER_SUFFIX - more} characters",
        severity=ERROR if is_always else WARNING,
        value=value,
    )


@check("trainjob/runtime-kind", severity=ERROR, needs=TrainJob)
def runtime_kind(job: TrainJob) -> Iterator[Breach]:
    """Report a reference to a runtime of an unsupported kind.

    Trainer supports ClusterTrainingRuntime and TrainingRuntime of its own API group, and compares the text exactly.
    It rejects a TrainJob whose `runtimeRef` has another kind or group.

    Source: trainer v2.3.0 pkg/webhooks/trainjob_webhook.go ValidateCreate, pkg/runtime/core/registry.go
    """
    reference = mapping(job.body, "spec", "runtimeRef")
    for field, supported in (("apiGroup", (GROUP,)), ("kind", ("ClusterTrainingRuntime", "TrainingRuntime"))):
        value = reference.get(field, supported[0])
        if isinstance(value, str) and value not in supported:
            yield Breach(
                ("spec", "runtimeRef", field),
                f"{format_value(value)} is no {field} of a runtime",
                "Trainer rejects the TrainJob: unsupported runtime",
                f"set {' or '.join(f'`{text}`' for text in supported)}",
                value=value,
            )


@check("trainjob/reserved-variable", severity=ERROR, needs=TrainJob, since="trainer 2.3")
def reserved_variable(job: TrainJob) -> Iterator[Breach]:
    """Report a variable that Trainer sets itself.

    Trainer 2.3 sets some variables in MPI launchers, and rejects a TrainJob that sets one in `trainer.env`.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go Validate
    """
    for number, variable in indexed_mappings(mapping(job.body, "spec", "trainer").get("env")):
        if variable.get("name") in env.RESERVED_BY_TRAINER:
            yield Breach(
                ("spec", "trainer", "env", number),
                f"`{variable['name']}` is set",
                "Trainer sets the variable itself, and rejects the TrainJob",
                "remove it",
                value=variable["name"],
            )


_IMMUTABLE = ("initializer", "trainer")
_IMMUTABLE_IN_PODS = ("volumes", "initContainers", "containers", "imagePullSecrets", "securityContext")
_OMITTED: Mapping[str, object] = {
    **dict.fromkeys(
        ("apiVersion", "containerName", "fsType", "medium", "request", "subPath", "subPathExpr", "value"), ""
    ),
    "readOnly": False,
    "limits": {},
    "requests": {},
}
"""Field → the empty value that Kueue omits, as it omits most empty lists."""
_EMPTY = {list: "an empty list", str: "an empty string", dict: "an empty mapping", bool: "`false`"}
_KEPT_LISTS = {"sources", "monitors"}
_UNKNOWN = "terminationGracePeriodSeconds"
"""The only field of a TrainJob's spec that Trainer 2.3 has and 2.2 does not have."""


@check("trainjob/empty-value", severity=ERROR, needs=TrainJob)
def empty_value(job: TrainJob) -> Iterator[Breach]:
    """Report an empty value that Kueue removes from an immutable field.

    Kueue admits a TrainJob by an update of the whole object from the Go types of Trainer 2.2. They omit empty values
    such as `env: []`, a variable with `value: ""`, or `readOnly: false`. The API server rejects the change of an
    immutable field, so the TrainJob stays suspended. Without a queue the breach is a warning.

    The Kubeflow SDK 0.5 writes `env: []` for a dataset initializer with only a `storage_uri`.

    Source: kueue v0.18.3 and v0.19.2 go.mod, pkg/controller/jobs/trainjob/trainjob_controller.go RunWithPodSetsInfo;
    trainer v2.2.1 pkg/apis/trainer/v1alpha1/trainjob_types.go (`omitempty`, and the rules `self == oldSelf`);
    k8s.io/api v0.36.2 core/v1/types.go
    """
    places: list[tuple[object, Path]] = [
        (mapping(job.body, "spec").get(field), ("spec", field)) for field in _IMMUTABLE
    ]
    places += [
        (pod.get(field), (*path, field)) for path, pod in _patched_pods(job.body) for field in _IMMUTABLE_IN_PODS
    ]
    severity, condition = _queued(job.body)
    for node, place in places:
        for path, value in _omitted_values(node, place):
            yield Breach(
                path,
                f"{format_value(path[-1])} is {_EMPTY[type(value)]}",
                f"{condition}Kueue admits the TrainJob by an update without the field, which is immutable: the "
                "TrainJob stays suspended, and only Kueue's log has the error",
                "remove the field",
                severity=severity,
                value=value,
            )


@check("trainjob/dropped-field", severity=WARNING, needs=TrainJob)
def dropped_field(job: TrainJob) -> Iterator[Breach]:
    """Report a field that Kueue removes when it admits the TrainJob.

    `terminationGracePeriodSeconds` in `runtimePatches` is new in Trainer 2.3. Kueue 0.18 and 0.19 use the types of
    Trainer 2.2, so they admit the TrainJob without the field. JobSet rejects the update of the pods, and the TrainJob
    holds its quota and never starts. Without a queue the breach is a warning. The field works in the runtime.

    Source: trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go PodSpecPatch; jobset v0.12.0
    pkg/webhooks/jobset_webhook.go ValidateUpdate
    """
    severity, condition = _queued(job.body)
    for path, pod in _patched_pods(job.body):
        if pod.get(_UNKNOWN) is not None:
            yield Breach(
                (*path, _UNKNOWN),
                f"`{_UNKNOWN}` is in a patch",
                f"{condition}Kueue admits the TrainJob by an update without the field, which its types do not have. "
                "JobSet rejects the changed pods: the TrainJob holds its quota and never starts",
                "set it in the pods of the runtime",
                severity=severity,
                value=pod[_UNKNOWN],
            )


def _queued(body: Body) -> tuple[Severity, str]:
    """Return the severity for an effect of Kueue, and the condition in the message, which is empty with a queue."""
    has_queue = QUEUE_NAME in mapping(body, "metadata", "labels")
    return (ERROR, "") if has_queue else (WARNING, "if it is queued, ")


def _patched_pods(body: Body) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the paths and the pod specs in `runtimePatches`."""
    for number, patch in indexed_mappings(mapping(body, "spec").get("runtimePatches")):
        jobs = mapping(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs")
        for place, job in indexed_mappings(jobs):
            inside = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs", place, "template", "spec")
            pod = mapping(job, "template", "spec", "template", "spec")
            yield ("spec", "runtimePatches", number, *inside, "template", "spec"), pod


def _omitted_values(node: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield the paths and values below a node that Kueue omits."""
    if isinstance(node, dict):
        for key, value in node.items():
            if _is_omitted(path[-1], key, value):
                yield (*path, key), value
            else:
                yield from _omitted_values(value, (*path, key))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from _omitted_values(value, (*path, number))


def _is_omitted(parent: str | int, key: str, value: object) -> bool:
    """Return True if Kueue omits the value. `readOnly` and `fsType` of `csi` are pointers, which Go always writes."""
    if isinstance(value, list):
        return not value and key not in _KEPT_LISTS
    if key not in _OMITTED or parent == "csi":
        return False
    return type(value) is type(_OMITTED[key]) and value == _OMITTED[key]


@check("trainjob/missing-runtime", severity=WARNING, needs=Objects)
def missing_runtime(objects: Objects) -> Iterator[Breach]:
    """Report a reference to a runtime that is in no file.

    The API server rejects the TrainJob until the runtime exists. A TrainingRuntime must be in the TrainJob's namespace.
    A `runtimeRef` without `kind` references a ClusterTrainingRuntime.

    The check needs a runtime of that kind in the files, or a runtime of the other kind with the name.
    """
    for job in objects.of(GROUP, "TrainJob"):
        reference = reference_of(job)
        names = {kind: _names(kind, job.namespace, objects) for kind in RUNTIMES}
        if reference and reference.kind in names and reference.name not in names[reference.kind]:
            fix = _fix(reference.kind, reference.name, names)
            if fix or any(objects.names(GROUP, reference.kind).values()):
                where = f" in `{job.namespace}`" if reference.kind == "TrainingRuntime" else ""
                yield Breach(
                    ("spec", "runtimeRef", "name"),
                    f"the {reference.kind} `{reference.name}`{where} is in no file",
                    "the API server rejects the TrainJob until the runtime exists",
                    fix or "add the runtime",
                    job,
                    value=reference.name,
                )


def _names(kind: str, namespace: str, objects: Objects) -> AbstractSet[str]:
    """Return the runtimes that a TrainJob can name. A runtime without a namespace gets that of the TrainJob."""
    names, namespaces = objects.names(GROUP, kind), {"", namespace if kind == "TrainingRuntime" else ""}
    return {name for some in namespaces for name in names.get(some, ())}


def _fix(kind: str, name: str, names: Mapping[str, AbstractSet[str]]) -> str:
    """Return the fix of a dangling reference; empty if no runtime is similar."""
    (other,) = set(RUNTIMES) - {kind}
    if name in names[other]:
        return f"set `kind: {other}`: a {other} has this name"
    if close := difflib.get_close_matches(name, names[kind], n=1):
        return f"add the runtime, or correct the name to `{close[0]}`"
    return f"add the runtime, or use one of these: {', '.join(sorted(names[kind])[:5])}" if names[kind] else ""


@check("trainjob/broken-value", severity=ERROR, needs=TrainJob)
def broken_value(job: TrainJob) -> Iterator[Breach]:
    """Report a value of a TrainJob that the kubelet breaks at a `$`.

    The check reads the variables, command and arguments in `spec.trainer`. `runtime/broken-value` describes the defect.
    """
    yield from broken_values(mapping(job.body, "spec", "trainer"), ("spec", "trainer"))
