"""The pods of a TrainJob in two versions of Trainer, as JobSet compares them.

While a TrainJob or its JobSet is suspended, and when the TrainJob is suspended or resumed, Trainer applies the whole
JobSet again (trainer v2.3.0 pkg/runtime/framework/plugins/jobset/jobset.go JobSet.Build). For a JobSet that is
suspended or gets suspended, the webhook of JobSet accepts a change only of labels, annotations, the node selector,
tolerations and scheduling gates of the pods (jobset v0.12.0 pkg/webhooks/jobset_webhook.go
jobSetWebhook.ValidateUpdate). The apply is atomic, so JobSet then rejects the change of `suspend` too. Trainer does not
touch a running JobSet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from generator.documents.load import Path
from generator.errors import MpigenError
from generator.facts.names import LAST_APPLIED
from generator.manifests import Body, Manifest, read
from generator.objects.fields import mapping, mappings
from generator.objects.pods import NODE, RUNTIMES
from generator.objects.training import LAUNCHER
from generator.upgrade.jobs import Jobs
from generator.upstream.compile import Fault, compile_job, find_faults, find_runtime
from generator.upstream.trainer.apply import upsert
from generator.upstream.trainer.runtime import POD, containers, in_container

_MUTABLE: tuple[Path, ...] = (
    *((*POD[:-1], "metadata", name) for name in ("annotations", "labels")),
    *((*POD, name) for name in ("nodeSelector", "tolerations", "schedulingGates")),
)
"""The fields of a replicated job that the webhook lets Trainer change."""


def runtime_of(job: Manifest, objects: list[Manifest], jobs: Jobs) -> Manifest | Fault:
    """Return the runtime from which Trainer computes the pods of a TrainJob: its snapshot, or else the present runtime.

    Args:
        job: the TrainJob.
        objects: the objects of the cluster and of the release.
        jobs: the jobs of the export.
    """
    kept = _read_runtime(jobs.snapshots.get((job.namespace, job.name), ""), job.file)
    return kept or find_runtime(job, objects)


@cache  # the snapshots of many jobs have the same text
def _read_runtime(text: str, file: str) -> Manifest | None:
    try:
        return next((item for item in read(text, file) if item.kind in RUNTIMES), None)
    except MpigenError:
        return None


def find_changed_pods(
    job: Manifest, runtime: Manifest, before: Mapping[str, str], after: Mapping[str, str]
) -> list[str]:
    """Return the fields of the pods that change between two versions, such as `launcher: env[PRTE_MCA_plm_ssh_args]`.

    Args:
        job: the TrainJob.
        runtime: its runtime.
        before: the versions before the step.
        after: the versions after it.

    Raises:
        SimulationError: Trainer rejects the TrainJob or its runtime in one of the versions.
        NotModelledError: mpigen does not simulate a field of the TrainJob or its runtime.
    """
    job = _as_created(job)
    old, new = (
        _replicated_jobs(compile_job(job, _as_created(runtime), targets).job_set) for targets in (before, after)
    )
    return [*dict.fromkeys(map(_describe, _differences(old, new)))]


def find_variables(
    job: Manifest, runtime: Manifest, before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables for which a TrainJob has the same pods in both versions, if its runtime sets them.

    The result is empty if other fields change too. It holds for a TrainJob that is created after its runtime changes:
    Trainer keeps the runtime of the creation (trainer v2.3.0 pkg/runtime/core/snapshot.go).

    Args:
        job: the TrainJob.
        runtime: its runtime, with which the pods change.
        before: the versions before the step.
        after: the versions after it.

    Raises:
        SimulationError: as for `find_changed_pods`.
        NotModelledError: as for `find_changed_pods`.
    """
    job, runtime = _as_created(job), _as_created(runtime)
    launchers = [
        container
        for replicated in mappings(compile_job(job, runtime, after).job_set["spec"].get("replicatedJobs"))
        if replicated.get("name") == LAUNCHER
        for container in containers(replicated, NODE)
    ]
    fields = find_changed_pods(job, runtime, before, after)
    changed = {name.rstrip("]") for _, mark, name in (field.partition("env[") for field in fields) if mark}
    added = [item for item in mappings(launchers[0].get("env")) if item.get("name") in changed] if launchers else []
    spec = mapping(runtime.body, "spec")
    template = mapping(spec, "template")
    job_set = upsert(mapping(template, "spec"), in_container({"name": LAUNCHER}, NODE, {"env": added}))
    body = {**runtime.body, "spec": {**spec, "template": {**template, "spec": job_set}}}
    if not added or find_changed_pods(job, replace(runtime, body=body), before, after):
        return {}
    return {str(item["name"]): str(item.get("value", "")) for item in added}


def find_new_rejections(
    job: Manifest, runtime: Manifest, before: Mapping[str, str], after: Mapping[str, str]
) -> list[str]:
    """Return why the webhooks reject the TrainJob after a step, if they accept it before.

    Args:
        job: the TrainJob.
        runtime: its runtime.
        before: the versions before the step.
        after: the versions after it.
    """
    job, runtime = _as_created(job), _as_created(runtime)
    old, new = (
        [fault.message for fault in find_faults(job, runtime, targets) if fault.is_at_creation and not fault.is_unknown]
        for targets in (before, after)
    )
    return [message for message in new if message not in old]


def with_general_name(job: Manifest) -> Manifest:
    """Return a TrainJob as Trainer reads it, with `a` for each letter and `0` for each digit of its name.

    The rules for names depend on the length and on the kinds of characters, which stay the same.
    """
    metadata = mapping(job.body, "metadata")
    annotations = {key: value for key, value in mapping(metadata, "annotations").items() if key != LAST_APPLIED}
    general = {
        "name": re.sub("[a-z]", "a", re.sub("[0-9]", "0", job.name)),
        "namespace": job.namespace,
        "labels": mapping(metadata, "labels"),
        "annotations": annotations,
    }
    return replace(job, body={**{k: v for k, v in job.body.items() if k != "status"}, "metadata": general})


def _as_created(item: Manifest) -> Manifest:
    """Return an object without the fields that only servers set."""
    metadata = {key: value for key, value in mapping(item.body, "metadata").items() if key != "managedFields"}
    return replace(item, body={**{k: v for k, v in item.body.items() if k != "status"}, "metadata": metadata})


def _replicated_jobs(job_set: Body) -> list[Body]:
    return [_without_mutable(item) for item in mappings(mapping(job_set, "spec").get("replicatedJobs"))]


def _without_mutable(job: Body) -> Body:
    for path in _MUTABLE:
        job = _without(job, path)
    return job


def _without(value: Any, path: Path) -> Any:
    if not isinstance(value, dict) or path[0] not in value:
        return value
    if len(path) == 1:
        return {key: item for key, item in value.items() if key != path[0]}
    return {**value, path[0]: _without(value[path[0]], path[1:])}


def _differences(old: Any, new: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each field that differs. An item of a list with names is one step: `env[HOME]`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), (*path, key))
    elif old != new:
        was, now = _by_name(old), _by_name(new)
        *parents, last = path or ("",)
        inside = [
            item
            for name in {**was, **now}
            for item in _differences(was.get(name), now.get(name), (*parents, f"{last}[{name}]"))
        ]
        yield from inside or [path]


def _by_name(value: object) -> dict[str, Any]:
    """Return name → item of a list whose items all have names; empty for another value."""
    items = mappings(value)
    named = {name: item for item in items if isinstance(name := item.get("name"), str)}
    return named if isinstance(value, list) and len(named) == len(value) else {}


def _describe(path: tuple[str, ...]) -> str:
    """Return the replicated job and the field below its last named item, such as `launcher: env[HOME]`."""
    job, *rest = path or ("",)
    at = max((number for number, step in enumerate(rest) if step.endswith("]")), default=0)
    field = rest[at : at + 1] if rest[at : at + 1] and rest[at].startswith("env[") else rest[at:]
    return f"{job.strip('[]')}: {'.'.join(field)}" if field else job.strip("[]")
