"""quota/limit-range: does a LimitRange give containers what they did not ask for, or refuse what the queue would admit?

kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem; kueue v0.19.2
pkg/util/limitrange/limitrange.go ValidatePodSpec, which looks at a job before it is admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from generator.checks.counted_job import CountedJob
from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import JOB_SET, mapping, mappings
from generator.checks.queued import Queued
from generator.checks.quota_runtimes import has_quota
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.simulate.amounts import SimulationError, counted, requested, shown

_Found = Iterator[tuple[Manifest, Breach]]
_GIVEN = (("default", "max"), ("defaultRequest", "default", "max", "min"))
"""What a container without a limit, and one without a request of its own gets: the first of these that is written."""
_Amounts = Mapping[str, int]


def limit_range(gathered: Gathered) -> _Found:
    """Devices and hugepages for everybody, and limits that the runtimes of the namespace exceed."""
    for manifest in gathered.of("", "LimitRange"):
        for number, item in mappings(mapping(manifest.body, "spec").get("limits")):
            path: Path = ("spec", "limits", number)
            if item.get("type") == "Container":
                yield from ((manifest, breach) for breach in _given(path, item))
            is_bound = item.get("type") in ("Container", "Pod") and (item.get("max") or item.get("min"))
            if gathered.queued and is_bound:
                jobs = _jobs(gathered.queued, manifest.namespace)
                yield from ((manifest, breach) for breach in _refused(path, item, jobs))


def _given(path: Path, item: Mapping[str, Any]) -> Iterator[Breach]:
    resources = dict.fromkeys(str(name) for fields in _GIVEN for field in fields for name in mapping(item, field))
    for name in (each for each in resources if "/" in each or each.startswith("hugepages-")):
        first = [next((field for field in fields if name in mapping(item, field)), "") for fields in _GIVEN]
        given = [field for field in first if field and _amount(name, mapping(item, field)[name])]
        if given:
            value = mapping(item, given[0])[name]
            yield Breach(
                (*path, given[0], name),
                "quota/limit-range",
                f"every container that does not ask for {name} gets {value}",
                "so do launchers and sidecars: they take devices from who needs them, or fit on no node",
                f"take {name} out of the LimitRange: the quota of the queue limits it",
                value=value,
            )


def _jobs(queued: Queued, namespace: str) -> list[CountedJob]:
    """The jobs of a namespace that its queues have quota for."""
    queues = [
        queued.tree.queues[name] for name in sorted(queued.queues.get(namespace, ())) if name in queued.tree.queues
    ]
    return [job for queue in queues for job in queued.jobs[queue.name] if has_quota(queued, queue, job)]


def _refused(path: Path, item: Mapping[str, Any], jobs: Iterable[CountedJob]) -> Iterator[Breach]:
    """What the first job that a limit refuses asks for."""
    bounds: tuple[tuple[str, Callable[[int, int], bool], str], ...] = (
        ("max", int.__gt__, "more"),
        ("min", int.__lt__, "less"),
    )
    for field, is_beyond, words in bounds:
        for name, value in mapping(item, field).items():
            limit = _amount(str(name), value)
            for job in jobs if limit is not None else ():
                amounts = [each[name] for each in _asked(item, job) if name in each]
                beyond = next((each for each in amounts if limit is not None and is_beyond(each, limit)), None)
                if beyond is not None:
                    what = f"{shown(str(name), beyond)} {name}, {words} than {value}"
                    yield _too_narrow(
                        (*path, field, name), f"a {str(item['type']).lower()} of `{job.runtime.name}`", what, value
                    )
                    break


def _too_narrow(path: Path, who: str, what: str, value: object) -> Breach:
    return Breach(
        path,
        "quota/limit-range",
        f"{who} asks for {what}",
        "Kueue never admits such a job, although there is quota for it",
        "widen the limit, or remove it: the quota of the queue limits what jobs ask for",
        value=value,
    )


def _asked(item: Mapping[str, Any], job: CountedJob) -> Iterator[_Amounts]:
    """What each pod asks for, or each container by its requests and limits."""
    if item.get("type") == "Pod":
        yield from (pods.requests for pods in job.pods)
        return
    for _, each in mappings(mapping(job.runtime.body, *map(str, JOB_SET)).get("replicatedJobs")):
        pod = mapping(each, "template", "spec", "template", "spec")
        for kind in ("initContainers", "containers"):
            for _, container in mappings(pod.get(kind)):
                for amounts in ("requests", "limits"):
                    yield requested(mapping(container, "resources", amounts), "")


def _amount(name: str, value: object) -> int | None:
    try:
        return counted(name, value, "")
    except SimulationError:
        return None
