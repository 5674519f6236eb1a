"""change/runtime-in-use: does an update of a runtime stop the TrainJobs that run on it?

Kueue works out again and again what it counts for a TrainJob, from the runtime as it is now. If that is not what it has
admitted, it stops the job. Trainer 2.3 starts it again with the pods of the runtime that it remembers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator import quantities
from generator.checks.finding import Breach, Severity
from generator.checks.mpi_runtime import JOB_SET, STEP, mapping, mappings, texts_and_all
from generator.documents.load import Path
from generator.manifests import Manifest

_RUNTIMES = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})
_Change = tuple[Path, str, str]
"""Where it is, of what, and of which job; of none if it is about all of them."""


def in_use(old: Manifest, new: Manifest, targets: Mapping[str, str]) -> Iterator[Breach]:
    """How many pods there are, and what their containers are; nothing else of a pod counts.

    kueue v0.19.2 pkg/util/equality/podset.go ComparePodSetSlices, pkg/controller/jobframework/reconciler.go
    ensureOneWorkload, pkg/controller/jobs/trainjob/trainjob_controller.go getChildJobSet; trainer v2.3.0
    pkg/runtime/core/snapshot.go.
    """
    if new.group != "trainer.kubeflow.org" or new.kind not in _RUNTIMES:
        return
    changes = [*_policy(old.body, new.body), *_jobs(old.body, new.body)]
    if not changes:
        return
    kept = (
        "on the new runtime"
        if targets.get("trainer") == "2.2"
        else "with the pods of the old runtime, while Kueue counts those of the new one"
    )
    yield Breach(
        changes[0][0],
        "change/runtime-in-use",
        f"{_words(changes)} of `{new.name}` changes under the jobs that run on it",
        f"they are no longer what Kueue admitted: it stops them, and they start again {kept}",
        "give the changed runtime a new name and deprecate this one, or wait until nothing runs on it",
        Severity.WARNING,
    )


def _words(changes: list[_Change]) -> str:
    """`image` (node, launcher), `numNodes`."""
    jobs: dict[str, list[str]] = {}
    for _, field, job in changes:
        jobs.setdefault(field, []).append(job)
    return ", ".join(
        f"`{field}` ({', '.join(dict.fromkeys(names))})" if any(names) else f"`{field}`"
        for field, names in jobs.items()
    )


def _policy(old: object, new: object) -> Iterator[_Change]:
    for steps, default in ((("numNodes",), 1), (("mpi", "runLauncherAsNode"), False)):
        was, now = (_or(mapping(body, "spec", "mlPolicy", *steps[:-1]).get(steps[-1]), default) for body in (old, new))
        if was != now:
            yield ("spec", "mlPolicy", *steps), steps[-1], ""


def _jobs(old: object, new: object) -> Iterator[_Change]:
    path: Path = (*JOB_SET, "replicatedJobs")
    was, now = (mappings(mapping(body, *map(str, JOB_SET)).get("replicatedJobs")) for body in (old, new))
    if [job.get("name") for _, job in was] != [job.get("name") for _, job in now]:
        yield path, "replicatedJobs", ""
        return
    for (_, before), (number, after) in zip(was, now, strict=True):
        yield from _job((*path, number), before, after)


def _job(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[_Change]:
    name = str(new.get("name"))
    for steps in (("replicas",), ("template", "spec", "parallelism")):
        was, now = (_or(mapping(job, *steps[:-1]).get(steps[-1]), 1) for job in (old, new))
        if was != now:
            yield (*path, *steps), steps[-1], name
    was, now = (mapping(job, "template", "metadata", "labels").get(STEP) for job in (old, new))
    if was != now:
        yield (*path, "template", "metadata", "labels", STEP), STEP, name
    pod = ("template", "spec", "template", "spec")
    for kind in ("initContainers", "containers"):
        lists = [texts_and_all(mapping(job, *pod).get(kind)) for job in (old, new)]
        yield from _containers((*path, *pod, kind), name, *map(list, lists))


def _containers(path: Path, job: str, old: list[object], new: list[object]) -> Iterator[_Change]:
    if len(old) != len(new):
        yield path, str(path[-1]), job
        return
    for number, (before, after) in enumerate(zip(old, new, strict=True)):
        was, now = _counted(before), _counted(after)
        if isinstance(was, dict) and isinstance(now, dict):
            for key in sorted(was.keys() | now.keys()):
                if was.get(key) != now.get(key):
                    yield (*path, number, key), key, job


def _counted(value: object, *, is_amount: bool = False) -> object:
    """A value as the API server reads it: empty is the same as not there, and 1 the same as 1000m."""
    if isinstance(value, dict):
        parts = {key: _counted(item, is_amount=key in ("limits", "requests")) for key, item in value.items()}
        return {key: _amount(part) if is_amount else part for key, part in parts.items() if part not in (None, [], {})}
    return [_counted(item) for item in value] if isinstance(value, list) else value


def _amount(value: object) -> object:
    try:
        return quantities.parse(str(value)).value
    except ValueError:
        return value


def _or(value: object, default: object) -> object:
    return default if value is None else value
