"""quota/*: ResourceQuotas and LimitRanges that conflict with Kueue, or enforce nothing.

Kueue reads no ResourceQuota. A job that Kueue admits and the API server then rejects has no pods and keeps its quota.
kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go, pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem;
kueue v0.19.2 pkg/util/limitrange/limitrange.go ValidatePodSpec
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.jobs import has_quota
from generator.checks.quota.queues import CountedJob, Queues
from generator.checks.registry import ERROR, WARNING, check
from generator.documents.load import Path
from generator.documents.messages import format_value as quoted
from generator.errors import SimulationError
from generator.manifests import Manifest
from generator.objects.amounts import format_amount, parse_amount
from generator.objects.fields import indexed_mappings, mapping
from generator.simulate.kueue.podsets import Bound, BoundBreach, find_broken_bounds, read_bounds

_PLAIN = ("cpu", "memory", "ephemeral-storage")
_COUNTED_ELSEWHERE = (
    ".storageclass.storage.k8s.io/",
    ".deviceclass.resource.k8s.io/",
    "kubernetes.io/",
    "openshift.io/",
)
"""Names with a domain that other evaluators than that of pods count: of volumes, of device claims, of OpenShift's."""


@check("quota/double-counted", severity=ERROR, needs=Objects)
def double_counted(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a ResourceQuota that is lower than the quota of Kueue.

    A ResourceQuota, in a namespace with a LocalQueue, allows less of a resource than Kueue can admit there. Kueue
    does not look at it: it admits, the API server refuses the pods, and the job holds its quota without running.
    """
    queued = gathered.view(Queues.read)
    if queued is None:
        return
    for manifest in gathered.of("", "ResourceQuota"):
        spec, admitted = mapping(manifest.body, "spec"), _admitted(queued, manifest.namespace)
        if not admitted or spec.get("scopes") or spec.get("scopeSelector"):
            continue
        for key, value in mapping(spec, "hard").items():
            resource = _resource(str(key))
            most, hard = admitted.get(resource, 0), _amount(resource, value)
            if hard is not None and hard < most:
                yield manifest, _double_counted(str(key), value, format_amount(resource, most))


def _double_counted(key: str, value: object, most: str) -> Breach:
    return Breach(
        ("spec", "hard", key),
        "quota/double-counted",
        f"{quoted(value)} is less than the {most} that Kueue can admit here",
        "Kueue admits the job, the API server refuses its pods, and the job holds its quota without them",
        f"raise it to {most}, or remove it: Kueue counts it already",
        value=value,
    )


def _resource(key: str) -> str:
    """The resource of which a key of a ResourceQuota counts what pods request; empty if it counts something else."""
    if key.startswith("requests."):
        return key.removeprefix("requests.")
    name = key.removeprefix("limits.")  # no pod requests more than its limit
    if name in _PLAIN:
        return name
    return "pods" if key in ("pods", "count/pods") else key if key.startswith("hugepages-") else ""


def _admitted(queued: Queues, namespace: str) -> Mapping[str, int]:
    """Resource → the most that Kueue can admit in a namespace at a time, of all flavors together.

    What a queue sends to other clusters has no pods here.
    """
    sums: dict[str, int] = {}
    for name in queued.queues.get(namespace, frozenset()) & queued.most.keys():
        for key, amount in queued.most[name].items() if not queued.tree.queues[name].is_multi_kueue else ():
            sums[key.resource] = sums.get(key.resource, 0) + amount
    return sums


@check("quota/unenforced", severity=WARNING, needs=Objects)
def unenforced(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a ResourceQuota of a device that the API server does not count.

    A ResourceQuota names a device without `requests.`. The API server takes it and counts nothing.
    """
    for manifest in gathered.of("", "ResourceQuota"):
        for key, value in mapping(manifest.body, "spec", "hard").items():
            name = str(key).removeprefix("limits.")
            is_device = "/" in name and not name.startswith(("requests.", "count/"))
            if is_device and not any(part in name for part in _COUNTED_ELSEWHERE):
                yield (
                    manifest,
                    Breach(
                        ("spec", "hard", key),
                        "quota/unenforced",
                        f"{quoted(key)} counts nothing",
                        "the API server takes it and enforces nothing: of devices it counts requests alone",
                        f"write `requests.{name}`, or leave it out: Kueue counts devices",
                        Severity.WARNING,
                        at_key=True,
                        value=value,
                    ),
                )


def _amount(resource: str, value: object) -> int | None:
    try:
        return parse_amount(resource, value, "") if resource else None
    except SimulationError:
        return None


_GIVEN = (("default", "max"), ("defaultRequest", "default", "max", "min"))
"""What a container without a limit, and one without a request of its own gets: the first of these that is written."""


@check("quota/limit-range", severity=ERROR, needs=Objects)
def limit_range(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a LimitRange that gives devices to every container, or rejects jobs that have quota.

    A LimitRange gives devices or huge pages to every container that does not ask for them: a `max` is also the
    default. Or it allows less than a runtime asks for, for which the queue has quota: Kueue never admits such jobs.
    """
    for manifest in gathered.of("", "LimitRange"):
        for number, item in indexed_mappings(mapping(manifest.body, "spec").get("limits")):
            path: Path = ("spec", "limits", number)
            if item.get("type") == "Container":
                yield from ((manifest, breach) for breach in _given(path, item))
        if queued := gathered.view(Queues.read):
            yield from ((manifest, breach) for breach in _refused(manifest, queued))


def _given(path: Path, item: Mapping[str, Any]) -> Iterator[Breach]:
    resources = dict.fromkeys(str(name) for fields in _GIVEN for field in fields for name in mapping(item, field))
    for name in (each for each in resources if "/" in each or each.startswith("hugepages-")):
        first = [next((field for field in fields if name in mapping(item, field)), "") for fields in _GIVEN]
        given = [field for field in first if field and _amount_of(name, mapping(item, field)[name])]
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


def _jobs(queued: Queues, namespace: str) -> list[CountedJob]:
    """The jobs of a namespace that its queues have quota for."""
    queues = [
        queued.tree.queues[name] for name in sorted(queued.queues.get(namespace, ())) if name in queued.tree.queues
    ]
    return [job for queue in queues for job in queued.jobs[queue.name] if has_quota(queued, queue, job)]


def _refused(manifest: Manifest, queued: Queues) -> Iterator[Breach]:
    """What the first job that a limit refuses asks for."""
    with suppress(SimulationError):  # where an amount is none, the jobs of the namespace are not known either
        if not any(read_bounds(manifest)):
            return
    seen: set[Bound] = set()
    for job in _jobs(queued, manifest.namespace):
        for found in find_broken_bounds(job.runtime.body, job.around):
            if found.bound.limit_range == manifest.name and found.bound not in seen:
                seen.add(found.bound)
                yield _too_narrow(found, job.runtime.name, manifest)


def _too_narrow(found: BoundBreach, runtime: str, manifest: Manifest) -> Breach:
    bound = found.bound
    path: Path = ("spec", "limits", bound.item, bound.field, bound.resource)
    value = manifest.body["spec"]["limits"][bound.item][bound.field][bound.resource]
    words = "more" if bound.field == "max" else "less"
    what = f"{format_amount(bound.resource, found.amount)} {bound.resource}, {words} than {value}"
    return Breach(
        path,
        "quota/limit-range",
        f"a {bound.kind.lower()} of `{runtime}` asks for {what}",
        "Kueue never admits such a job, although there is quota for it",
        "widen the limit, or remove it: the quota of the queue limits what jobs ask for",
        value=value,
    )


def _amount_of(name: str, value: object) -> int | None:
    try:
        return parse_amount(name, value, "")
    except SimulationError:
        return None
