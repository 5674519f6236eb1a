"""quota/*: limits of a namespace: ResourceQuotas, LimitRanges, and the largest `numNodes` of a job.

Kueue does not read ResourceQuotas. If the API server rejects the pods of an admitted job, the job keeps its quota.

Source: kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go podComputeUsageHelper; kubernetes v1.34.2
pkg/apis/core/v1/defaults.go
SetDefaults_LimitRangeItem; kueue v0.19.2 pkg/util/limitrange/limitrange.go Summary.ValidatePodSpec
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from generator.checks.objects import Objects, runtime_of
from generator.checks.quota.queues import RUNTIMES, TRAINER, Queues
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_value
from generator.errors import SimulationError
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, integer, mapping
from generator.objects.namespace import ANNOTATION, read_host_limit
from generator.objects.queue import FlavorResource, format_amount, parse_amount
from generator.upstream.kueue.podsets import (
    Bound,
    BoundBreach,
    PodContext,
    default_nodes,
    find_broken_bounds,
    read_bounds,
)
from generator.upstream.kueue.queues import Node, build_quota_tree

_NUM_NODES: Path = ("spec", "trainer", "numNodes")
_RUNTIME_IS_UNCHECKED = (
    "no admission policy reads `numNodes` of a runtime, so the job runs with more nodes than allowed"
)
_WITHOUT_DOMAIN = ("cpu", "memory", "ephemeral-storage")
_NOT_OF_PODS = (
    ".storageclass.storage.k8s.io/",
    ".deviceclass.resource.k8s.io/",
    "kubernetes.io/",
    "openshift.io/",
)
"""Parts of resource names that evaluators of other objects count: volumes, device claims, OpenShift's objects."""
_DEFAULTING = (("default", "max"), ("defaultRequest", "default", "max", "min"))
"""Fields of a LimitRange that set the limit, and the request, of a container without one. The first field wins."""


@check("quota/double-counted", severity=ERROR, needs=Queues)
def double_counted(queues: Queues) -> Iterator[Breach]:
    """Report a ResourceQuota that is lower than Kueue's quota for the namespace.

    Kueue does not read ResourceQuotas. It admits a job, the API server rejects the pods, and the job holds its quota
    without running. The check reads ResourceQuotas without scopes, in namespaces with a LocalQueue. It counts the quota
    that the queues of the namespace can borrow, and no quota of MultiKueue queues.

    Source: kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go podComputeUsageHelper; Kueue does not read
    ResourceQuotas
    """
    for manifest in queues.manifests:
        spec = mapping(manifest.body, "spec")
        is_quota = (manifest.group, manifest.kind) == ("", "ResourceQuota")
        if not is_quota or spec.get("scopes") or spec.get("scopeSelector"):
            continue
        admissible = _admissible_amounts(queues, manifest.namespace)
        for key, value in mapping(spec, "hard").items() if admissible else ():
            resource = _requested_resource(str(key))
            hard, most = _read_amount(resource, value), admissible.get(resource, 0)
            if hard is not None and hard < most:
                amount = f"{format_amount(resource, most)} {resource}"
                yield Breach(
                    ("spec", "hard", key),
                    f"{format_value(value)} is less than the {amount} that Kueue can admit in this namespace",
                    "Kueue admits a job, the API server rejects its pods, and the job holds its quota without running",
                    f"set {format_amount(resource, most)} or more, or remove the key: Kueue's quota already limits "
                    "the resource",
                    manifest,
                    value=value,
                )


def _requested_resource(key: str) -> str:
    """Return the resource whose requests a ResourceQuota key limits: `requests.cpu` → `cpu`; else empty."""
    if key.startswith("requests."):
        return key.removeprefix("requests.")
    name = key.removeprefix("limits.")  # no pod requests more than its limit
    if name in _WITHOUT_DOMAIN:
        return name
    return "pods" if key in ("pods", "count/pods") else key if key.startswith("hugepages-") else ""


def _admissible_amounts(queues: Queues, namespace: str) -> Mapping[str, int]:
    """Return resource → the most that Kueue can admit in a namespace at a time, over all flavors.

    Queues of one cohort share its quota, so each queue gets what the queues before it leave. A MultiKueue queue adds
    nothing, because its pods run on other clusters.
    """
    known = sorted(queues.of_namespaces.get(namespace, frozenset()) & queues.most.keys())
    names = [name for name in known if not queues.tree.queues[name].is_multi_kueue]
    if len(names) == 1:
        amounts = list(queues.most[names[0]].items())
    else:
        amounts = list(_shared_amounts(build_quota_tree(queues.tree), names))
    sums: dict[str, int] = {}
    for key, amount in amounts:
        sums[key.resource] = sums.get(key.resource, 0) + amount
    return sums


def _shared_amounts(nodes: Mapping[str, Node], names: Iterable[str]) -> Iterator[tuple[FlavorResource, int]]:
    """Yield the quota that each ClusterQueue gets, one after the other, while all other queues are idle."""
    for name in names:
        for key in nodes[name].quotas:
            amount = max(0, nodes[name].available(key))
            nodes[name].add(key, amount)
            yield key, amount


def _read_amount(resource: str, value: object) -> int | None:
    try:
        return parse_amount(resource, value, "") if resource else None
    except SimulationError:
        return None


@check("quota/unenforced", severity=WARNING, needs=Objects)
def unenforced(objects: Objects) -> Iterator[Breach]:
    """Report a key of a ResourceQuota that names a device but limits nothing.

    The API server counts devices only by the key `requests.<device>`. It accepts a key without `requests.`, such as
    `nvidia.com/gpu`, but does not enforce it.

    Source: kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go isExtendedResourceNameForQuota
    """
    for manifest in objects.of("", "ResourceQuota"):
        for key, value in mapping(manifest.body, "spec", "hard").items():
            name = str(key).removeprefix("limits.")
            is_device = "/" in name and not name.startswith(("requests.", "count/"))
            if is_device and not any(part in name for part in _NOT_OF_PODS):
                yield Breach(
                    ("spec", "hard", key),
                    f"the key {format_value(key)} limits nothing",
                    "the API server accepts the key and enforces nothing, because it counts devices only by keys with "
                    "`requests.`",
                    f"write `requests.{name}`, or remove the key if Kueue limits the device",
                    manifest,
                    at_key=True,
                    value=value,
                )


@check("quota/limit-range", severity=ERROR, needs=Objects)
def limit_range(objects: Objects) -> Iterator[Breach]:
    """Report a LimitRange that gives devices to every container, or rejects jobs that have quota.

    A `max` is also the default limit of containers that set no limit. So a `max` for devices or huge pages gives them
    to every launcher and sidecar container, and so does a `default` or `defaultRequest`. If the pods of a runtime break
    a bound of the LimitRange, Kueue never admits jobs on this runtime, although their queue has quota.

    Source: kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem; kueue v0.19.2
    pkg/util/limitrange/limitrange.go Summary.ValidatePodSpec
    """
    queues = objects.view(Queues.read)
    known: _Known = {}
    for manifest in objects.of("", "LimitRange"):
        for number, item in indexed_mappings(mapping(manifest.body, "spec").get("limits")):
            if item.get("type") == "Container":
                yield from _default_devices(manifest, ("spec", "limits", number), item)
        if queues:
            yield from _broken_bounds(manifest, queues, known)


def _default_devices(manifest: Manifest, path: Path, item: Mapping[str, Any]) -> Iterator[Breach]:
    resources = dict.fromkeys(str(name) for fields in _DEFAULTING for field in fields for name in mapping(item, field))
    for name in (name for name in resources if "/" in name or name.startswith("hugepages-")):
        first = [next((field for field in fields if name in mapping(item, field)), "") for fields in _DEFAULTING]
        effective = [field for field in first if field and _read_amount(name, mapping(item, field)[name])]
        if effective:
            value = mapping(item, effective[0])[name]
            yield Breach(
                (*path, effective[0], name),
                f"every container that requests no `{name}` gets {value} by default",
                f"launcher and sidecar containers get {name}: their pods take it from worker pods, or fit on no node",
                f"remove {name} from the LimitRange: the quota of the queue already limits it",
                manifest,
                value=value,
            )


_Known = dict[int, tuple[PodContext, tuple[BoundBreach, ...]]]
"""The id of a runtime's body → the last settings of a namespace, and the bounds that pods of the runtime break there.

Most namespaces of a platform have equal settings.
"""


def _broken_bounds(manifest: Manifest, queues: Queues, known: _Known) -> Iterator[Breach]:
    """Yield one breach for each bound of a LimitRange that runtimes with quota break, with the first such runtime."""
    with suppress(SimulationError):  # an invalid quantity also keeps the jobs of the namespace from being counted
        if not any(read_bounds(manifest)):
            return
    names = sorted(queues.of_namespaces.get(manifest.namespace, frozenset()) & queues.tree.queues.keys())
    reported: set[Bound] = set()
    for queue, job in ((queues.tree.queues[name], job) for name in names for job in queues.jobs[name]):
        if not queues.has_quota(queue, job):
            continue
        context, breaches = known.get(id(job.runtime.body), (None, ()))
        if context != job.context:
            breaches = tuple(find_broken_bounds(job.runtime.body, job.context))
            known[id(job.runtime.body)] = job.context, breaches
        for breach in breaches:
            bound = breach.bound
            if bound.limit_range != manifest.name or bound in reported:
                continue
            reported.add(bound)
            value = manifest.body["spec"]["limits"][bound.item][bound.field][bound.resource]
            comparison = "more than the maximum" if bound.field == "max" else "less than the minimum"
            amount = f"{format_amount(bound.resource, breach.amount)} {bound.resource}"
            yield Breach(
                ("spec", "limits", bound.item, bound.field, bound.resource),
                f"a {bound.kind.lower()} of runtime `{job.runtime.name}` requests {amount}, {comparison} of {value}",
                "Kueue never admits a job on this runtime, although the queue has quota",
                f"change `{bound.field}`, or remove it: the quota of the queue limits what jobs request",
                manifest,
                value=value,
            )


def find_host_limit(namespace: str, objects: Objects) -> int | None:
    """Return the largest `numNodes` that the API server accepts in a namespace; None if no file sets a limit."""
    manifest = objects.one("", "Namespace", namespace)
    return read_host_limit(manifest) if manifest else None


@check("quota/too-many-hosts", severity=ERROR, needs=Objects)
def too_many_hosts(objects: Objects) -> Iterator[Breach]:
    """Report a TrainJob with more nodes (`numNodes`) than its namespace allows.

    The annotation `mpigen.dev/hosts-per-job` of the Namespace sets the limit, and an admission policy of mpigen rejects
    a TrainJob with a larger `numNodes`. The policy accepts a TrainJob without `numNodes`, because it does not read the
    `numNodes` of the runtime. A policy that rejects the JobSet would act too late: Kueue has admitted the job by then,
    so the job keeps its quota and never runs.

    Source: mpigen: it defines the annotation, and writes the admission policy
    """
    for job in objects.of(TRAINER, "TrainJob"):
        most = find_host_limit(job.namespace, objects)
        if most is None:
            continue
        trainer = mapping(job.body, *map(str, _NUM_NODES[:-1]))
        nodes = integer(trainer.get("numNodes"), 0)
        limit = f"namespace `{job.namespace}` allows at most {most} (`{ANNOTATION}`)"
        fix = f"set `numNodes: {most}` or less"
        if nodes > most:
            message = f"`numNodes` is {nodes}, but {limit}"
            yield Breach(_NUM_NODES, message, "the API server rejects the TrainJob", fix, job, value=nodes)
        runtime = None if "numNodes" in trainer else runtime_of(job, objects)
        if runtime and (default := default_nodes(runtime.body)) > most:
            message = f"the job has no `numNodes` and gets {default} nodes from runtime `{runtime.name}`, but {limit}"
            yield Breach(("spec", "runtimeRef"), message, _RUNTIME_IS_UNCHECKED, fix, job, value=runtime.name)


@check("quota/default-hosts", severity=WARNING, needs=Objects)
def default_hosts(objects: Objects) -> Iterator[Breach]:
    """Report a runtime whose default `numNodes` is larger than a namespace allows.

    A TrainJob without `numNodes` gets its number of nodes from its runtime, and no admission policy rejects such a job.
    On an MPI runtime, `numNodes` defaults to the pods of the job `node`, plus 1 if `runLauncherAsNode` is true. The
    check reads runtimes for which the queues of the namespace have quota, or all runtimes if the files lack a queue of
    the namespace.
    `mpigen job new` always sets `numNodes`.

    Source: trainer v2.3.0 pkg/runtime/core/trainingruntime.go TrainingRuntime.newRuntimeInfo; mpigen defines the
    annotation
    """
    for namespace in objects.of("", "Namespace"):
        most = find_host_limit(namespace.name, objects)
        if most is None:
            continue
        large = [runtime for runtime in objects.of(TRAINER, *RUNTIMES) if default_nodes(runtime.body) > most]
        used = [runtime for runtime in large if _is_usable(runtime, namespace.name, objects.view(Queues.read))]
        if used:
            defaults = " and ".join(
                sorted({f"{default_nodes(runtime.body)} nodes on runtime `{runtime.name}`" for runtime in used})
            )
            yield Breach(
                ("metadata", "annotations", ANNOTATION),
                f"namespace `{namespace.name}` allows at most {most} nodes per job, but a job without `numNodes` "
                f"has {defaults}",
                _RUNTIME_IS_UNCHECKED,
                f"set at most {most} nodes in the runtimes, raise this limit, or set `numNodes` in every job",
                namespace,
                value=most,
            )


def _is_usable(runtime: Manifest, namespace: str, queues: Queues | None) -> bool:
    """Return True if jobs in a namespace can use a runtime and have quota for it, or if the quota is unknown."""
    if runtime.kind == "TrainingRuntime" and runtime.namespace != namespace:
        return False
    names = queues.of_namespaces.get(namespace, frozenset()) if queues else frozenset()
    job = queues.job(runtime, namespace) if queues else None
    if queues is None or job is None or not names or not names <= queues.tree.queues.keys():
        return True
    namespace_queues = (queues.tree.queues[name] for name in names)
    return any(queues.admits(queue, namespace) and queues.has_quota(queue, job) for queue in namespace_queues)
