"""trainjob/*: what Trainer rejects in a TrainJob, and what keeps its pods from ever starting.

Kueue admits a TrainJob by writing the whole object from the Go types of Trainer 2.2, which leave many empty values
out. kueue v0.18.3 and v0.19.2 go.mod; pkg/controller/jobs/trainjob/trainjob_controller.go RunWithPodSetsInfo
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.queues import RUNTIMES, TRAINER
from generator.checks.registry import ERROR, WARNING, check
from generator.checks.runtime import broken_values
from generator.checks.trainer import TrainJob, reference_of
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.facts import env
from generator.facts.names import QUEUE_NAME
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, mapping

_LONGEST = 63  # letters of a pod's name, as JobSet sees it
_POD_OF_LAUNCHER = len("-launcher-0-0-abcde")
_SHORTEST_POD = len("-x-0-0-abcde")
_GROUP = "trainer.kubeflow.org"
_KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")
_GENERATED = 5  # letters that the API server puts after `generateName`


@check("trainjob/name", severity=ERROR, needs=TrainJob)
def name(job: TrainJob) -> Iterator[Breach]:
    """Report a name that is too long for the names of its pods.

    JobSet rejects pod names with more than 63 letters. A TrainJob on an MPI runtime can have 44 letters, and a
    TrainJob on any runtime 51. Trainer accepts 63. The check does not read the runtime: 45 to 51 letters are a
    warning, more are an error.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go ValidateCreate, pkg/util/placement GenPodName
    """
    body = job.body
    metadata = mapping(body, "metadata")
    field, more = ("name", 0) if metadata.get("name") else ("generateName", _GENERATED)
    said = metadata.get(field)
    if not isinstance(said, str) or len(said) + more + _POD_OF_LAUNCHER <= _LONGEST:
        return
    length, is_always = len(said) + more, len(said) + more + _SHORTEST_POD > _LONGEST
    on = "any runtime" if is_always else "a runtime for MPI"
    yield Breach(
        ("metadata", field),
        "trainjob/name",
        f"the name has {length} letters",
        f"on {on} it never gets pods, whose names would have more than {_LONGEST}: an event is all that tells",
        f"write a name of at most {_LONGEST - _POD_OF_LAUNCHER - more} letters",
        Severity.ERROR if is_always else Severity.WARNING,
        value=said,
    )


@check("trainjob/runtime-kind", severity=ERROR, needs=TrainJob)
def runtime_kind(job: TrainJob) -> Iterator[Breach]:
    """Report a reference to a runtime of an unsupported kind.

    `runtimeRef` names another kind than ClusterTrainingRuntime and TrainingRuntime, or another API group. Trainer
    refuses the TrainJob.

    Source: trainer v2.3.0 pkg/webhooks/trainjob_webhook.go ValidateCreate, pkg/runtime/core/registry.go
    """
    body = job.body
    said = mapping(body, "spec", "runtimeRef")
    for field, known in (("apiGroup", (_GROUP,)), ("kind", _KINDS)):
        value = said.get(field, known[0])
        if isinstance(value, str) and value not in known:
            yield Breach(
                ("spec", "runtimeRef", field),
                "trainjob/runtime-kind",
                f"{format_value(value)} is no {field} of a runtime",
                "Trainer refuses the TrainJob: unsupported runtime",
                f"write {' or '.join(f'`{each}`' for each in known)}",
                value=value,
            )


@check("trainjob/reserved-variable", severity=ERROR, needs=TrainJob, since="trainer 2.3")
def reserved_variable(job: TrainJob) -> Iterator[Breach]:
    """Report a variable that Trainer sets itself.

    `trainer.env` sets a variable that Trainer 2.3 sets itself in MPI launchers, and so refuses.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go Validate
    """
    body = job.body
    for number, variable in indexed_mappings(mapping(body, "spec", "trainer").get("env")):
        if variable.get("name") in env.RESERVED_BY_TRAINER:
            yield Breach(
                ("spec", "trainer", "env", number),
                "trainjob/reserved-variable",
                f"`{variable['name']}` is set",
                "Trainer refuses the TrainJob: it sets the variable itself",
                "remove it",
                value=variable["name"],
            )


_UNCHANGED = ("initializer", "trainer")
_UNCHANGED_IN_PODS = ("volumes", "initContainers", "containers", "imagePullSecrets", "securityContext")
_LEFT_OUT: Mapping[str, object] = {
    **dict.fromkeys(
        ("apiVersion", "containerName", "fsType", "medium", "request", "subPath", "subPathExpr", "value"), ""
    ),
    "readOnly": False,
    "limits": {},
    "requests": {},
}
"""Beside empty lists: field → the value without which it is written."""
_EMPTY = {list: "an empty list", str: "an empty text", dict: "an empty mapping", bool: "`false`"}
_KEPT_LISTS = {"sources", "monitors"}
_KEPT_BELOW = "csi"
"""Its `readOnly` and `fsType` are pointers, which are written whatever they point to."""
_UNKNOWN = "terminationGracePeriodSeconds"
"""The one field of a TrainJob's spec that Trainer 2.3 has and 2.2 has not."""


@check("trainjob/empty-value", severity=ERROR, needs=TrainJob)
def empty_value(job: TrainJob) -> Iterator[Breach]:
    """Report an empty value that Kueue removes from an immutable field.

    A list, a text or a mapping without anything in it, such as `env: []` or a variable with `value: ""`, or
    `readOnly: false`. Kueue admits a TrainJob by writing all of it, and leaves such fields out; they are not to
    change, so the API server refuses it, and the TrainJob is suspended for ever. A warning where the TrainJob names
    no queue. (The Kubeflow SDK 0.5 writes `env: []` for a dataset initializer that is given a `storage_uri` and
    nothing else.)

    Source: trainer v2.2.1 pkg/apis/trainer/v1alpha1/trainjob_types.go (`omitempty`, and the rules `self ==
    oldSelf`); k8s.io/api v0.36.2 core/v1/types.go
    """
    body = job.body
    for path, value in _fixed(body):
        yield Breach(
            path,
            "trainjob/empty-value",
            f"{format_value(path[-1])} is {_EMPTY[type(value)]}",
            f"{_where(body)}Kueue admits the TrainJob by writing it without the field, "
            "which may not change: it stays suspended, and only Kueue's log tells",
            "remove the field",
            _severity(body),
            value=value,
        )


@check("trainjob/dropped-field", severity=WARNING, needs=TrainJob)
def dropped_field(job: TrainJob) -> Iterator[Breach]:
    """Report a field that Kueue removes when it admits the TrainJob.

    A patch in `runtimePatches` sets `terminationGracePeriodSeconds`, which came with Trainer 2.3. Kueue 0.18 and
    0.19 know the fields of Trainer 2.2: they admit the TrainJob without it, JobSet refuses pods that are not those
    that were queued, and the TrainJob holds its quota and never starts. A warning where it names no queue. In the
    runtime the field does what it should.

    Source: trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go PodSpecPatch; jobset v0.12.0
    pkg/webhooks/jobset_webhook.go ValidateUpdate
    """
    body = job.body
    for path, pod in _patched_pods(body):
        if pod.get(_UNKNOWN) is not None:
            yield Breach(
                (*path, _UNKNOWN),
                "trainjob/dropped-field",
                f"`{_UNKNOWN}` is in a patch",
                f"{_where(body)}Kueue admits the TrainJob by writing it without the field, which it does not know, and "
                "JobSet refuses the other pods: the TrainJob takes its quota and never starts",
                "write it in the pods of the runtime",
                _severity(body),
                value=pod[_UNKNOWN],
            )


def _is_queued(body: Body) -> bool:
    return QUEUE_NAME in mapping(body, "metadata", "labels")


def _where(body: Body) -> str:
    return "" if _is_queued(body) else "where it is queued, "


def _severity(body: Body) -> Severity:
    return Severity.ERROR if _is_queued(body) else Severity.WARNING


def _fixed(body: Body) -> Iterator[tuple[Path, object]]:
    """Where an empty value stands in a field that is not to change."""
    for field in _UNCHANGED:
        yield from _left_out(mapping(body, "spec").get(field), ("spec", field))
    for path, pod in _patched_pods(body):
        for field in _UNCHANGED_IN_PODS:
            yield from _left_out(pod.get(field), (*path, field))


def _patched_pods(body: Body) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Where each patch of pods stands, and what it says."""
    for number, patch in indexed_mappings(mapping(body, "spec").get("runtimePatches")):
        jobs = mapping(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs")
        for place, job in indexed_mappings(jobs):
            inside = ("trainingRuntimeSpec", "template", "spec", "replicatedJobs", place, "template", "spec")
            pod = mapping(job, "template", "spec", "template", "spec")
            yield ("spec", "runtimePatches", number, *inside, "template", "spec"), pod


def _left_out(node: object, path: Path) -> Iterator[tuple[Path, object]]:
    if isinstance(node, dict):
        for key, value in node.items():
            if _is_left_out(path[-1], key, value):
                yield (*path, key), value
            else:
                yield from _left_out(value, (*path, key))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from _left_out(value, (*path, number))


def _is_left_out(parent: str | int, key: str, value: object) -> bool:
    if isinstance(value, list):
        return not value and key not in _KEPT_LISTS
    if key not in _LEFT_OUT or parent == _KEPT_BELOW:
        return False
    return type(value) is type(_LEFT_OUT[key]) and value == _LEFT_OUT[key]


@check("trainjob/missing-runtime", severity=WARNING, needs=Objects)
def missing_runtime(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a reference to a runtime that is in no file.

    A TrainJob names a runtime that is in no file, while others of its kind are; a TrainingRuntime must be in its
    namespace. Or one of the other kind has the name: a `runtimeRef` without `kind` means a ClusterTrainingRuntime.
    The API server refuses the TrainJob.
    """
    for job in gathered.of(TRAINER, "TrainJob"):
        reference = reference_of(job)
        known = {kind: _names(kind, job.namespace, gathered) for kind in RUNTIMES}
        if reference and reference.kind in known and reference.name not in known[reference.kind]:
            fix = _fix(reference.kind, reference.name, known)
            if fix or any(gathered.names(TRAINER, reference.kind).values()):
                where = f" in `{job.namespace}`" if reference.kind == "TrainingRuntime" else ""
                breach = Breach(
                    ("spec", "runtimeRef", "name"),
                    "trainjob/missing-runtime",
                    f"no file holds the {reference.kind} `{reference.name}`{where}",
                    "the API server refuses the TrainJob until it exists",
                    fix or "add it",
                    Severity.WARNING,
                    value=reference.name,
                )
                yield job, breach


def _names(kind: str, namespace: str, gathered: Objects) -> AbstractSet[str]:
    """Those that a TrainJob can name; an object that says no namespace gets its TrainJob's."""
    found, homes = gathered.names(TRAINER, kind), {"", namespace if kind == "TrainingRuntime" else ""}
    return {name for home in homes for name in found.get(home, ())}


def _fix(kind: str, name: str, known: dict[str, AbstractSet[str]]) -> str:
    """What to write instead; empty where nothing is near."""
    (other,) = set(RUNTIMES) - {kind}
    if name in known[other]:
        return f"there is a {other} of this name: write `kind: {other}`"
    close = difflib.get_close_matches(name, known[kind], n=1)
    if close:
        return f"add it, or name `{close[0]}`, if that is meant"
    return f"add it, or name one of these: {', '.join(sorted(known[kind])[:5])}" if known[kind] else ""


@check("trainjob/broken-value", severity=ERROR, needs=TrainJob)
def broken_value(job: TrainJob) -> Iterator[Breach]:
    """Report a value of a TrainJob that the kubelet breaks at a `$`.

    The same in `spec.trainer` of a TrainJob.
    """
    yield from broken_values(mapping(job.body, "spec", "trainer"), ("spec", "trainer"), "trainjob/broken-value")
