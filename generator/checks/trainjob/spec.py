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
from generator.checks.trainer import reference_of
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


def name(body: Body) -> Iterator[Breach]:
    """The pods of a JobSet are named after it, their job and their numbers, and are to fit a label.

    jobset v0.12.0 pkg/webhooks/jobset_webhook.go ValidateCreate, pkg/util/placement GenPodName
    """
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


def runtime_kind(body: Body) -> Iterator[Breach]:
    """Trainer knows two kinds of runtimes, and looks them up as they are written.

    trainer v2.3.0 pkg/webhooks/trainjob_webhook.go ValidateCreate, pkg/runtime/core/registry.go
    """
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


def reserved_variable(body: Body) -> Iterator[Breach]:
    """What Trainer sets in the launcher nobody else may.

    trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go Validate
    """
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


def empty_value(body: Body) -> Iterator[Breach]:
    """The API server refuses what Kueue writes if it changes a field that is not to change.

    trainer v2.2.1 pkg/apis/trainer/v1alpha1/trainjob_types.go (`omitempty`, and the rules `self == oldSelf`);
    k8s.io/api v0.36.2 core/v1/types.go
    """
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


def dropped_field(body: Body) -> Iterator[Breach]:
    """JobSet refuses other pods than those that the TrainJob was queued with.

    trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go PodSpecPatch; jobset v0.12.0
    pkg/webhooks/jobset_webhook.go ValidateUpdate
    """
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


def missing_runtime(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Judged where the files hold a runtime of that kind, or one of another kind by that name."""
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
