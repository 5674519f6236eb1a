"""quota/*: jobs that a queue never admits, or that lose tolerations when Kueue admits them.

Every namespace can use every ClusterTrainingRuntime. The rules skip such a runtime for a queue that covers none of
its devices, or that has no flavor for its nodes. They count no requests if Kueue's configuration has `multiplyBy`,
negative factors or `IgnoreUndeclared`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.objects import Objects, runtime_of
from generator.checks.quota.namespaces import find_host_limit
from generator.checks.quota.queues import KUEUE, RUNTIMES, TRAINER, CountedJob, Queues, quota_rows
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names
from generator.facts.defects import known
from generator.facts.names import MULTI_KUEUE
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, integer, mapping
from generator.objects.pods import JOB_SET
from generator.objects.queue import ClusterQueue, Flavor, FlavorResource, format_amount
from generator.objects.training import OnRuntime, queue_of
from generator.upstream.kubernetes.selectors import find_untolerated_taint, format_taint
from generator.upstream.kueue.job_limits import Largest, Limit
from generator.upstream.kueue.nodes import explain_flavor_mismatch, explain_oversize, find_missing_room
from generator.upstream.kueue.podsets import default_nodes

_NUM_NODES: Path = ("spec", "trainer", "numNodes")
_SMALLER_PODS = {
    Limit.QUOTA: "raise `nominalQuota` or `borrowingLimit`, or create a runtime whose pods request less",
    Limit.NODE: "create a runtime whose pods request less: no node is large enough, whatever the quota",
    Limit.NODES: "create a runtime whose pods request less, or add nodes",
    Limit.PLACE: "create a runtime whose pods request less, or with a wider topology domain for its pods",
}


@check("quota/uncovered", severity=ERROR, needs=Queues)
def uncovered(queues: Queues) -> Iterator[Breach]:
    """Report a runtime with a resource that its queue does not cover.

    Kueue never admits a job that requests a resource outside of `coveredResources`. The check applies
    `excludeResourcePrefixes` and `transformations` of Kueue's configuration. It skips a ClusterTrainingRuntime if the
    queue covers none of the runtime's devices or has no flavor for its nodes, because the queue is then for other jobs.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.assignFlavors
    """
    for name, jobs in sorted(queues.jobs.items()) if queues.settings.is_modelled else ():
        runtimes: dict[str, dict[str, None]] = {}
        for job in jobs:
            for resource in job.uncovered_by(queues.tree.queues[name]):
                runtimes.setdefault(resource, {})[f"runtime `{job.runtime.name}`"] = None
        for resource, names in sorted(runtimes.items()):
            yield Breach(
                ("spec", "resourceGroups"),
                f"ClusterQueue `{name}` does not cover `{resource}`, which jobs on {' and '.join(names)} request",
                "Kueue never admits a job that requests a resource that its queue does not cover",
                f"add `{resource}` to `coveredResources`, and add its quota, which can be 0, to each flavor of the "
                "group",
                queues.of("ClusterQueue")[name],
                at_key=True,
            )


@check("quota/too-large", severity=WARNING, needs=Queues)
def too_large(queues: Queues) -> Iterator[Breach]:
    """Report a runtime whose smallest job its queue never admits.

    Jobs on the runtime stay suspended, or their pods stay Pending. The smallest job has `numNodes: 1`, with MPI also a
    launcher pod. The check counts all quota that the queue can borrow. If annotations of the ResourceFlavor describe
    its nodes, the check also tests that a node holds each pod, and that pods with
    `kueue.x-k8s.io/podset-required-topology: kubernetes.io/hostname` fit on one node. The check skips a runtime
    with a resource for which the flavors of its pods have no quota at all, because the queue is then for other jobs. It
    also skips a queue that can borrow if the files have neither another queue of its cohort tree nor the root Cohort.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.assignFlavors; kueue v0.19.2
    pkg/cache/scheduler/resource_node.go potentialAvailable
    """
    for name, jobs in sorted(queues.jobs.items()) if queues.settings.is_modelled else ():
        queue, reported = queues.tree.queues[name], set()
        for job in jobs if jobs and queues.has_lenders(queue) else ():
            runtime = job.runtime
            limit, reason = (Limit.NOTHING, "") if runtime.identity in reported else explain_never(queues, queue, job)
            if not reason:
                continue
            reported.add(runtime.identity)
            is_node = limit in (Limit.NODE, Limit.NODES)
            never = "never scheduled" if is_node else "never admitted"
            yield Breach(
                ("spec", "resourceGroups"),
                f"even the smallest job on runtime `{runtime.name}` is {never}: {reason}",
                "Kueue may admit jobs on this runtime by quota, but their pods stay Pending"
                if is_node
                else "jobs on this runtime stay suspended, and only the status of the Workload shows why",
                _SMALLER_PODS.get(limit, "create a runtime whose pods request less"),
                queues.of("ClusterQueue")[name],
                at_key=True,
            )


def explain_never(queues: Queues, queue: ClusterQueue, job: CountedJob) -> tuple[Limit, str]:
    """Return (kind of limit, reason why a queue never admits a job on a runtime).

    The reason is empty if the queue admits such a job, or if it has no quota at all for a resource of the job.
    """
    if queues.has_quota(queue, job):
        return Limit.NOTHING, ""
    flavors = _flavors_with_quota(queues, queue, job)
    if len(flavors) != 1:
        largest = queues.largest(queue.name, job) if flavors else None
        return (largest.limit, largest.reason) if largest and largest.idle == 0 else (Limit.NOTHING, "")
    return _explain_shortage(queues.tree.flavors_of(queue)[min(flavors)], queues.most_of(queue.name), job, queue.name)


def _explain_shortage(
    flavor: Flavor, most: Mapping[FlavorResource, int], job: CountedJob, queue: str
) -> tuple[Limit, str]:
    """Return (kind of limit, reason) for a job that exceeds the quota or the nodes of its only usable flavor."""
    for pods in job.podsets:
        if reason := explain_oversize([flavor], pods):
            return Limit.NODE, reason
    for name in sorted(job.total, key=lambda resource: "/" not in resource):
        available, requested = most.get(FlavorResource(flavor.name, name), 0), job.total[name]
        if requested > available:
            amounts = [format_amount(name, amount) for amount in (requested, available)]
            request = f"its pods request {amounts[0]} {name} of flavor `{flavor.name}`"
            return Limit.QUOTA, f"{request}, but ClusterQueue `{queue}` never gets more than {amounts[1]}"
    room = find_missing_room(flavor, job.podsets)
    if room and room.is_one:
        return (
            Limit.PLACE,
            f"all its pods must share a node, and no node of flavor `{flavor.name}` has room for all of them",
        )
    return Limit.NODES, f"the nodes of flavor `{flavor.name}` have no room for its pods"


def _flavors_with_quota(queues: Queues, queue: ClusterQueue, job: CountedJob) -> set[str]:
    """Return the flavors with quota that a job can use; empty if one of its resources has quota in none of them."""
    most, usable = queues.most_of(queue.name), set()
    for pods, places in zip(job.podsets, job.flavors, strict=True):
        for resource in (name for name, amount in pods.counted.items() if amount):
            group = queue.group(resource)
            flavors = places.intersection(group.flavors) if group else ()
            with_quota = {name for name in flavors if most.get(FlavorResource(name, resource))}
            if not with_quota:
                return set()
            usable |= with_quota
    return usable


@check("quota/unmatched-flavor", severity=WARNING, needs=Queues)
def unmatched_flavor(queues: Queues) -> Iterator[Breach]:
    """Report quota of a flavor whose nodes no runtime can use.

    No training job can use the quota: in the namespaces of the queue, no runtime has pods that tolerate the taints of
    the flavor and select its nodes. The check reports nothing for a queue without any runtime in its namespaces.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.checkFlavorForPodSets
    """
    for name, jobs in sorted(queues.jobs.items()):
        unused = unmatched_flavors(queues, name)
        for row in quota_rows(queues.of("ClusterQueue")[name]) if unused else ():
            if row.key.flavor not in unused:
                continue
            unused.remove(row.key.flavor)
            flavor = queues.tree.flavors[row.key.flavor]
            reasons = dict.fromkeys(
                f"on runtime `{job.runtime.name}`, {explain_flavor_mismatch(pods, flavor)}"
                for job in jobs
                for pods in job.podsets[-1:]
            )
            yield Breach(
                (*row.path[:-2], "name"),
                f"no runtime can use this flavor: {'; '.join(list(reasons)[:2])}",
                "no training job can use the quota of this flavor",
                "add a runtime with the tolerations and the `nodeSelector` for the nodes of this flavor, or remove the "
                "flavor from the queue",
                queues.of("ClusterQueue")[name],
                value=flavor.name,
            )


def unmatched_flavors(queues: Queues, queue: str) -> set[str]:
    """Return the flavors with quota in a queue whose nodes no runtime can use; empty without any runtime.

    Args:
        queues: the queues.
        queue: the name of the ClusterQueue.
    """
    jobs = queues.jobs[queue]
    used = {flavor for job in jobs for places in job.flavors for flavor in places}
    return {key.flavor for key, amount in queues.most_of(queue).items() if amount} - used if jobs else set()


@check("quota/never-admitted", severity=ERROR, needs=Objects)
def never_admitted(objects: Objects) -> Iterator[Breach]:
    """Report a TrainJob that its queue never admits, or whose pods fit on no nodes of the queue.

    The job exceeds the quota or the nodes of its queue, requests a resource that the queue does not cover, or breaks a
    LimitRange of its namespace. The finding shows the largest `numNodes` that the queue can admit. The check needs the
    runtime, the LocalQueue, and the ClusterQueue with its flavors in the files. It skips jobs whose `runtimePatches`
    set tolerations or affinity, and jobs that MultiKueue sends to another cluster. If the queue can borrow, but the
    files have neither another queue of its cohort tree nor the root Cohort, the check reports only resources that the
    queue does not cover.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go FlavorAssigner.assignFlavors; kueue v0.19.2
    pkg/cache/scheduler/resource_node.go potentialAvailable
    """
    queues = objects.view(Queues.read)
    if queues is None or not queues.settings.is_modelled:
        return
    for manifest in objects.of(TRAINER, "TrainJob"):
        runtime = runtime_of(manifest, objects)
        local_queue = objects.one(KUEUE, "LocalQueue", queue_of(manifest), manifest.namespace)
        name = mapping(local_queue.body, "spec").get("clusterQueue") if local_queue else None
        queue = queues.tree.queues.get(str(name))
        if runtime and queue and queues.admits(queue, manifest.namespace) and not _has_other_nodes(manifest.body):
            pair = OnRuntime(manifest, runtime)
            job = queues.job(runtime, manifest.namespace, pair.amounts if pair.sets_amounts else None)
            if job:
                host_limit = find_host_limit(manifest.namespace, objects)
                yield from _never_admitted_job(manifest, job, queue, queues, host_limit)


def _has_other_nodes(body: Body) -> bool:
    """Return True if a TrainJob runs on another cluster, or if its patches change the nodes that its pods can use."""
    if mapping(body, "spec").get("managedBy") == MULTI_KUEUE:
        return True
    patches = indexed_mappings(mapping(body, "spec").get("runtimePatches"))
    lists = [mapping(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs") for _, patch in patches]
    pods = [mapping(job, "template", "spec", "template", "spec") for jobs in lists for _, job in indexed_mappings(jobs)]
    return any(field in pod for pod in pods for field in ("tolerations", "affinity"))


def _never_admitted_job(
    manifest: Manifest, job: CountedJob, queue: ClusterQueue, queues: Queues, host_limit: int | None
) -> Iterator[Breach]:
    why = "the job stays suspended, and only the status of its Workload shows why"
    if missing := [name for name in job.total if queue.group(name) is None]:
        names, target = format_names(missing), f"ClusterQueue `{queue.name}`"
        message = f"the job requests {names}, which {target} does not cover"
        fix = f"remove the request, or add {names} to the `coveredResources` of {target}"
        yield Breach(("spec", "trainer"), message, why, fix, manifest)
        return
    trainer = mapping(manifest.body, *map(str, _NUM_NODES[:-1]))
    nodes = integer(trainer.get("numNodes"), default_nodes(job.runtime.body)) if job.is_scalable else 1
    largest = queues.largest(queue.name, job) if queues.has_lenders(queue) else None
    if largest is None or largest.idle is None or nodes <= largest.idle:
        return
    is_node = largest.limit in (Limit.NODE, Limit.NODES)
    if is_node:
        why = "Kueue may admit the job by quota. Its pods then stay Pending, and the job holds the quota"
    if largest.idle:
        holds = "the nodes hold" if is_node else f"ClusterQueue `{queue.name}` admits"
        message = f"the job has {nodes} nodes, but {holds} at most {largest.idle}"
    else:
        message = "this job is never scheduled" if is_node else f"ClusterQueue `{queue.name}` never admits this job"
    message += f" on runtime `{job.runtime.name}`"
    most = largest.idle if host_limit is None else min(largest.idle, host_limit)
    if most > 0:
        fix = f"set `numNodes: {most}` or less{_format_guarantee(queues.guaranteed(queue.name, job), most)}"
    else:
        fix = _suggest_smaller_pods(largest.limit, trainer)
    path = _NUM_NODES if "numNodes" in trainer else ("spec", "runtimeRef")
    yield Breach(path, f"{message}: {largest.reason}", why, fix, manifest, value=nodes)


def _format_guarantee(largest: Largest | None, most: int) -> str:
    """Return text on the largest job that a queue always admits; empty if the queue always admits `most` nodes."""
    if largest is None or largest.reclaimable is None or largest.reclaimable >= most:
        return ""
    preemption = "" if largest.owned == largest.reclaimable else ", if necessary by preemption"
    nodes = f"at most {largest.reclaimable} nodes" if largest.reclaimable else "no such job"
    return f"; while other queues use all quota that they can get, Kueue admits {nodes}{preemption}"


def _suggest_smaller_pods(limit: Limit, trainer: Mapping[str, Any]) -> str:
    """Return a fix for a job that Kueue does not admit, or that the nodes do not hold, even with `numNodes: 1`."""
    if limit is Limit.NODE:
        fix = "request less in `resourcesPerNode`" if trainer.get("resourcesPerNode") else "use another runtime"
        return f"{fix}: no node is large enough"
    if limit is Limit.NODES:
        return "use another runtime, or ask an admin for more nodes"
    if limit is Limit.LIMIT_RANGE:
        return "request at most the maximum of the LimitRange, or ask an admin to change the LimitRange"
    return "ask an admin for more quota, or use another runtime"


_POD_SPEC = ("template", "spec", "template", "spec")


@check("quota/lost-tolerations", severity=ERROR, needs=Objects)
def lost_tolerations(objects: Objects) -> Iterator[Breach]:
    """Report tolerations of a runtime that the tolerations of a ResourceFlavor replace.

    Kueue writes the tolerations of the flavor into the TrainJob, where they replace the runtime's tolerations. Jobs
    that JobSet creates after admission (`dependsOn`) or recreates (`maxRestarts`) lose the runtime's tolerations. If a
    lost toleration is for a taint of the flavor, pods of these Jobs stay Pending: with `dependsOn`, the finding is an
    error. All other findings are warnings. The check skips queues with several resource groups, because a flavor of
    another group can add the toleration. mpigen writes flavors without tolerations.

    Source: kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go TrainJob.RunWithPodSetsInfo; trainer
    v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go PodSpecPatch: `tolerations` is an atomic list. Jobs that JobSet
    created
    before admission keep both lists: jobset v0.12.0 pkg/controllers/jobset_controller.go JobSetReconciler.resumeJob
    merges them.
    """
    queues = objects.view(Queues.read)
    if queues is None:
        return
    runtimes = {_location(runtime): runtime for runtime in objects.of(TRAINER, *RUNTIMES)}
    reported: set[tuple[object, Path]] = set()
    for name, jobs in sorted(queues.jobs.items()):
        for job in jobs:
            location = _location(job.runtime)
            job_set = mapping(job.runtime.body, *map(str, JOB_SET))
            restarts = mapping(job_set, "failurePolicy").get("maxRestarts") not in (None, 0)
            replicated_jobs = indexed_mappings(job_set.get("replicatedJobs"))
            for usable, (number, replicated_job) in zip(job.flavors, replicated_jobs, strict=False):
                is_late = bool(replicated_job.get("dependsOn"))
                flavors = _tolerating(queues, queues.tree.queues[name], usable) if is_late or restarts else []
                tolerations = indexed_mappings(mapping(replicated_job, *_POD_SPEC).get("tolerations"))
                for index, toleration in tolerations if flavors else ():
                    path = (*JOB_SET, "replicatedJobs", number, *_POD_SPEC, "tolerations", index)
                    flavor = next((flavor for flavor in flavors if not _keeps(flavor, toleration)), None)
                    if flavor and (location, path) not in reported:
                        reported.add((location, path))
                        yield _lost_toleration(runtimes[location], path, dict(toleration), flavor, is_late=is_late)


def _location(manifest: Manifest) -> tuple[str, int, Path]:
    """Return (file, number of the document in the file, path in the document) of an object."""
    return manifest.file, manifest.index, manifest.inside


def _keeps(flavor: Flavor, toleration: Mapping[str, Any]) -> bool:
    """Return True if the flavor has a toleration for at least the taints that `toleration` tolerates."""
    return any(_covers(wide, toleration) for wide in flavor.tolerations)


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Return True if the toleration `wide` tolerates at least the taints that `narrow` tolerates."""
    if wide.get("effect") not in (None, "", narrow.get("effect")):
        return False
    if wide.get("operator") == "Exists":
        return wide.get("key") in (None, "", narrow.get("key"))
    is_equal = all(wide.get(field) == narrow.get(field) for field in ("key", "value"))
    return is_equal and all(side.get("operator") in (None, "", "Equal") for side in (wide, narrow))


def _tolerating(queues: Queues, queue: ClusterQueue, usable: frozenset[str]) -> list[Flavor]:
    """Return the usable flavors of a queue that have tolerations; empty for a queue with several resource groups.

    With several groups, pods get a flavor of each group, so the flavor of another group can add the toleration.
    """
    if len(queue.groups) != 1:
        return []
    flavors = (queues.tree.flavors.get(name) for name in queue.flavors if name in usable)
    return [flavor for flavor in flavors if flavor and flavor.tolerations]


def _lost_toleration(
    runtime: Manifest, path: Path, toleration: dict[str, Any], flavor: Flavor, *, is_late: bool
) -> Breach:
    taint = find_untolerated_taint(flavor.taints, flavor.tolerations)
    effect, is_needed = "the pods of these Jobs cannot run on nodes with the tolerated taint", False
    if taint is not None and find_untolerated_taint((taint,), (toleration,)) is None:
        effect, is_needed = (
            f"the taint {format_taint(taint)} keeps the pods of these Jobs Pending while they hold quota",
            True,
        )
    jobs = "Jobs that JobSet creates after admission (`dependsOn`)" if is_late else "Jobs that JobSet restarts"
    fields = ", ".join(f"{field}: {value}" for field, value in toleration.items())
    return Breach(
        path,
        f"the runtime has the toleration `{fields}`, but ResourceFlavor `{flavor.name}` has only other tolerations",
        f"in {jobs}, the tolerations of the flavor replace the tolerations of the runtime: {effect} "
        f"({known('kueue-replaces-tolerations').note})",
        f"remove all tolerations of ResourceFlavor `{flavor.name}`, or add this toleration to the flavor",
        runtime,
        severity=ERROR if is_needed and is_late else WARNING,
        value=toleration,
    )
