"""runtime/limit-range: runtimes whose pods the API server rejects by a LimitRange after Kueue admits the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.checks.fabric.fabrics import likely_namespaces, namespaces_of
from generator.checks.objects import Objects
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.errors import SimulationError
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping
from generator.objects.pods import RUNTIMES, pod_templates
from generator.objects.training import GROUP
from generator.upstream.kubernetes.limit_range import LimitViolation, find_limit_violations
from generator.upstream.kueue.podsets import find_broken_bounds, read_pod_context

WHY = "Kueue admits the job, but the API server rejects its pods, and the job holds its quota without running"


@check("runtime/limit-range", severity=ERROR, needs=Objects)
def limit_range(objects: Objects) -> Iterator[Breach]:
    """Report a runtime whose pods a LimitRange rejects in the namespaces that use it.

    Kueue compares the amounts of containers, and the requests of pods, with `max` and `min`: `quota/limit-range`
    reports these. The API server also compares the limits of a whole pod, and the ratio of limit and request with
    `maxLimitRequestRatio`. The API server then rejects the pods, and the job holds its quota without running. The API
    server first applies the defaults of LimitRanges, and then rejects a request above a default limit.

    The check reads the same namespaces as `runtime/pod-security`. The finding is a warning if another namespace accepts
    the pods, or if TrainJobs can set the amounts by `resourcesPerNode`.

    Source: kubernetes v1.34.2 plugin/pkg/admission/limitranger/admission.go PodValidateLimitFunc
    """
    for runtime in objects.of(GROUP, *RUNTIMES):
        for pods in pod_templates(runtime):
            names = sorted(namespaces_of(pods, objects) | likely_namespaces(pods, objects))
            rejecting: list[tuple[str, LimitViolation]] = []
            known: dict[str, list[LimitViolation]] = {}  # most namespaces of a release have equal LimitRanges
            for name in names:
                ranges = ranges_of(name, objects)
                content = objects.view(_contents).get(name, "")
                if content not in known:
                    job_set = mapping(runtime.body, "spec", "template")
                    known[content] = find_late_violations({"spec": pods.spec}, job_set, runtime, ranges, objects, name)
                rejecting += [(name, violation) for violation in known[content][:1]]
            if rejecting:
                name, violation = rejecting[0]
                where = f"namespace `{name}`" if len(names) == 1 else f"{len(rejecting)} of {len(names)} namespaces"
                yield Breach(
                    (*pods.path, *violation.path, *(("resources",) if violation.path else ())),
                    f"a LimitRange of {where} rejects the pods `{pods.role}`: {violation}",
                    WHY,
                    "set requests and limits within the bounds of the LimitRange, or change the LimitRange",
                    runtime,
                    ERROR if len(rejecting) == len(names) and not _is_replaced(pods.role) else WARNING,
                )


def _is_replaced(role: str) -> bool:
    """Return True if `resourcesPerNode` of a TrainJob replaces the amounts of these pods."""
    return role == "node"


def ranges_of(namespace: str, objects: Objects) -> list[Manifest]:
    """Return the LimitRanges of a namespace."""
    return objects.view(_ranges).get(namespace, [])


def _ranges(objects: Objects) -> Mapping[str, list[Manifest]]:
    """Return namespace → its LimitRanges."""
    ranges: dict[str, list[Manifest]] = {}
    for item in objects.of("", "LimitRange"):
        ranges.setdefault(item.namespace, []).append(item)
    return ranges


def _contents(objects: Objects) -> Mapping[str, str]:
    """Return namespace → a text that is equal for namespaces with equal LimitRanges."""
    ranges = objects.view(_ranges).items()
    return {name: repr([(item.name, item.body.get("spec")) for item in items]) for name, items in ranges}


def find_late_violations(
    pod: Body, job_set: Body, owner: Manifest, ranges: Sequence[Manifest], objects: Objects, namespace: str = ""
) -> list[LimitViolation]:
    """Return the violations that only the API server finds, after Kueue has admitted the job.

    The result is empty if Kueue itself never admits the job because of a LimitRange, or if an amount is not a quantity.

    Args:
        pod: a pod of the job.
        job_set: the JobSet of the job, or `spec.template` of its runtime.
        owner: the TrainJob or the runtime.
        ranges: the LimitRanges of the namespace.
        objects: the objects in the files, for RuntimeClasses.
        namespace: the namespace of the job; empty for the namespace of `owner`.
    """
    if not ranges:
        return []
    near = [*ranges, *objects.of("node.k8s.io", "RuntimeClass")]
    try:
        template = {"kind": owner.kind, "metadata": owner.body.get("metadata", {}), "spec": {"template": job_set}}
        if any(find_broken_bounds(template, read_pod_context(near, namespace or owner.namespace))):
            return []
        return find_limit_violations(pod, ranges)
    except (SimulationError, ValueError):  # an amount that is not a quantity: a schema reports it
        return []
