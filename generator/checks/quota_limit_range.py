"""quota/limit-range: does a LimitRange give containers what they did not ask for, or refuse what the queue would admit?

kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem; kueue v0.19.2
pkg/util/limitrange/limitrange.go ValidatePodSpec, which looks at a job before it is admitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from generator.checks.counted_job import CountedJob
from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
from generator.checks.queued import Queued
from generator.checks.quota_runtimes import has_quota
from generator.documents.load import Path
from generator.errors import SimulationError
from generator.manifests import Manifest
from generator.objects.amounts import counted, shown
from generator.objects.fields import indexed_mappings, mapping
from generator.simulate.kueue.podsets import Bound, Refusal, bounds, refusals

_GIVEN = (("default", "max"), ("defaultRequest", "default", "max", "min"))
"""What a container without a limit, and one without a request of its own gets: the first of these that is written."""


def limit_range(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Devices and hugepages for everybody, and limits that the runtimes of the namespace exceed."""
    for manifest in gathered.of("", "LimitRange"):
        for number, item in indexed_mappings(mapping(manifest.body, "spec").get("limits")):
            path: Path = ("spec", "limits", number)
            if item.get("type") == "Container":
                yield from ((manifest, breach) for breach in _given(path, item))
        if queued := gathered.view(Queued.read):
            yield from ((manifest, breach) for breach in _refused(manifest, queued))


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


def _refused(manifest: Manifest, queued: Queued) -> Iterator[Breach]:
    """What the first job that a limit refuses asks for."""
    with suppress(SimulationError):  # where an amount is none, the jobs of the namespace are not known either
        if not any(bounds(manifest)):
            return
    seen: set[Bound] = set()
    for job in _jobs(queued, manifest.namespace):
        for found in refusals(job.runtime.body, job.around):
            if found.bound.limit_range == manifest.name and found.bound not in seen:
                seen.add(found.bound)
                yield _too_narrow(found, job.runtime.name, manifest)


def _too_narrow(found: Refusal, runtime: str, manifest: Manifest) -> Breach:
    bound = found.bound
    path: Path = ("spec", "limits", bound.item, bound.field, bound.resource)
    value = manifest.body["spec"]["limits"][bound.item][bound.field][bound.resource]
    words = "more" if bound.field == "max" else "less"
    what = f"{shown(bound.resource, found.amount)} {bound.resource}, {words} than {value}"
    return Breach(
        path,
        "quota/limit-range",
        f"a {bound.kind.lower()} of `{runtime}` asks for {what}",
        "Kueue never admits such a job, although there is quota for it",
        "widen the limit, or remove it: the quota of the queue limits what jobs ask for",
        value=value,
    )


def _amount(name: str, value: object) -> int | None:
    try:
        return counted(name, value, "")
    except SimulationError:
        return None
