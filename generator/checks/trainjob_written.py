"""trainjob/*: what Kueue leaves out when it writes a TrainJob, and what then becomes of it.

Kueue admits a TrainJob by writing the whole of it from Go's types: those of Trainer 2.2, which leave many empty values
out. kueue v0.18.3 and v0.19.2 go.mod; pkg/controller/jobs/trainjob/trainjob_controller.go RunWithPodSetsInfo
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.documents.load import Path
from generator.documents.syntax import shown
from generator.facts.names import QUEUE_NAME
from generator.manifests import Body
from generator.objects.fields import indexed_mappings, mapping

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
            f"{shown(path[-1])} is {_EMPTY[type(value)]}",
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
