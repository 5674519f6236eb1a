"""quota/*: jobs that a queue never admits, and jobs with more hosts than a namespace allows.

Every namespace has every ClusterTrainingRuntime. A runtime is not reported for a queue that does not cover its
devices, or that has none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.queues import KUEUE, RUNTIMES, TRAINER, CountedJob, Queues, rows
from generator.checks.registry import ERROR, WARNING, check
from generator.checks.trainer import OnRuntime, queue_of, runtime_of
from generator.documents.load import Path
from generator.facts.names import MULTI_KUEUE
from generator.manifests import Body, Manifest
from generator.objects.amounts import FlavorResource, format_amount
from generator.objects.fields import indexed_mappings, integer, mapping
from generator.objects.namespace import ANNOTATION, read_host_limit
from generator.objects.queue import ClusterQueue, Flavor
from generator.simulate.kueue.fit import explain_flavor_mismatch, explain_oversize, find_missing_room
from generator.simulate.kueue.largest import Largest
from generator.simulate.kueue.podsets import default_nodes
from generator.simulate.kueue.search import Limit

_NO_QUOTA = "is ever admitted", "whoever trains on it waits for ever, and only the status of the Workload says why"
_NO_NODE = (
    "ever runs",
    "whoever trains on it waits for ever: where Kueue admits the job by its quota, no node takes its pods",
)
_ADVICE = {
    Limit.QUOTA: "raise the quota or the borrowingLimit, or make a runtime with smaller hosts",
    Limit.NODE: "make a runtime with smaller hosts: no node is that large, whatever the quota",
    Limit.NODES: "make a runtime with smaller hosts, or add nodes",
    Limit.PLACE: "make a runtime with smaller hosts, or one whose pods may be further apart",
}


@check("quota/uncovered", severity=ERROR, needs=Objects)
def uncovered(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a runtime with a resource that its queue does not cover.

    A runtime asks for a resource that the queue of a namespace does not cover, so that no job on it is ever
    admitted. Of a ClusterTrainingRuntime, which every namespace has, nothing is said where the queue covers none of
    its devices: it is not meant for this team. Kueue's `excludeResourcePrefixes` and `transformations` are heeded;
    with `multiplyBy`, factors below zero or `IgnoreUndeclared` nothing is said, here and in the next two.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go assignFlavors
    """
    queued = gathered.view(Queues.read)
    if queued is None or not queued.settings.is_modelled:
        return
    for name, jobs in sorted(queued.jobs.items()):
        lacking: dict[str, dict[str, None]] = {}
        for job in jobs:
            for resource in uncovered_by(queued.tree.queues[name], job):
                lacking.setdefault(resource, {})[f"`{job.runtime.name}`"] = None
        for resource, runtimes in sorted(lacking.items()):
            yield (
                queued.of("ClusterQueue")[name],
                Breach(
                    ("spec", "resourceGroups"),
                    "quota/uncovered",
                    f"covers no {resource}, which jobs on {' and '.join(runtimes)} ask for",
                    "Kueue never admits a job that asks for a resource that its queue does not cover",
                    f"add {resource} to `coveredResources`, and to each flavor with the quota that it has, be it 0",
                    at_key=True,
                ),
            )


def uncovered_by(queue: ClusterQueue, job: CountedJob) -> list[str]:
    """What a job asks for that a queue says nothing of; nothing of a job that is not meant for the queue."""
    return [name for name in job.total if queue.group(name) is None] if is_meant(queue, job) else []


def is_meant(queue: ClusterQueue, job: CountedJob) -> bool:
    """Whether a queue is for such jobs, whatever it says of what they ask for.

    Of a runtime that everybody has it is not where it knows none of its devices, or none of the nodes that its pods
    may go to: the team has no part in that pool.
    """
    if job.runtime.kind != "ClusterTrainingRuntime":
        return True
    devices = [name for name in job.total if "/" in name]
    is_known = any(queue.group(name) for name in devices or job.total)
    return is_known and not any(
        flavors.isdisjoint(group.flavors)
        for pods, flavors in zip(job.pods, job.places, strict=True)
        for group in queue.groups
        if any(pods.counted.get(name) for name in group.resources)
    )


@check("quota/too-large", severity=WARNING, needs=Objects)
def too_large(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a runtime whose smallest job its queue never admits.

    Not even the smallest job on a runtime is ever admitted, or finds room, though the queue has something of all
    that it asks for. With MPI that is two hosts, or one host and the launcher beside it. All that the queue can
    borrow counts, and where nodes are known, the room on them: that no pod is larger than a node, and that what
    must be on one node (`kueue.x-k8s.io/podset-required-topology: kubernetes.io/hostname`) has room there. Of a
    queue that may borrow nothing is said where it is the only one of its cohorts among the files, and their root is
    no object there: who lends to it may be elsewhere. The same holds for the next check.
    """
    queued = gathered.view(Queues.read)
    if queued is None or not queued.settings.is_modelled:
        return
    for name, jobs in sorted(queued.jobs.items()):
        queue, told = queued.tree.queues[name], set()
        for job in jobs if jobs and queued.knows_lenders(queue) else ():
            limit, reason = (Limit.NOTHING, "") if job.runtime.identity in told else _never(queued, queue, job)
            if reason:
                told.add(job.runtime.identity)
                yield queued.of("ClusterQueue")[name], _too_large(job.runtime, limit, reason)


def _too_large(runtime: Manifest, limit: Limit, reason: str) -> Breach:
    never, why = _NO_NODE if limit in (Limit.NODE, Limit.NODES) else _NO_QUOTA
    return Breach(
        ("spec", "resourceGroups"),
        "quota/too-large",
        f"not even the smallest job on `{runtime.name}` {never}: {reason}",
        why,
        _ADVICE.get(limit, "make a runtime with smaller hosts"),
        Severity.WARNING,
        at_key=True,
    )


def has_quota(queued: Queues, queue: ClusterQueue, job: CountedJob) -> bool:
    """Whether one flavor of each group has quota for all pods: mostly one has, and nothing else need be computed."""
    most, found = queued.most[queue.name], 0
    homes = job.common if queue.is_multi_kueue else job.homes
    for group in queue.groups:
        asked = {name: job.total[name] for name in group.resources if name in job.total}
        found += len(asked)
        flavors = [name for name in group.flavors if name in homes]
        if asked and not any(
            all(amount <= most.get(FlavorResource(name, each), 0) for each, amount in asked.items()) for name in flavors
        ):
            return False
    return found == len(job.total)


def _never(queued: Queues, queue: ClusterQueue, job: CountedJob) -> tuple[Limit, str]:
    """Why a job is never admitted, nor any other on its runtime; empty if it is, or is not meant for this queue."""
    if has_quota(queued, queue, job):
        return Limit.NOTHING, ""
    flavors = _with_some(queued, queue, job)
    if len(flavors) != 1:
        largest = queued.largest(queue.name, job) if flavors else None
        return (largest.limit, largest.reason) if largest and largest.idle == 0 else (Limit.NOTHING, "")
    return _lack(queued.tree.flavors_of(queue)[min(flavors)], queued.most[queue.name], job, queue.name)


def _lack(flavor: Flavor, most: Mapping[FlavorResource, int], job: CountedJob, queue: str) -> tuple[Limit, str]:
    """What the only flavor that is meant for a job has too little of."""
    for pods in job.pods:
        if words := explain_oversize([flavor], pods):
            return Limit.NODE, words
    for name in sorted(job.total, key=lambda each: "/" not in each):
        has, takes = most.get(FlavorResource(flavor.name, name), 0), job.total[name]
        if takes > has:
            what = f"its pods take {format_amount(name, takes)} {name} of flavor `{flavor.name}`"
            return Limit.QUOTA, f"{what}, and `{queue}` never gets more than {format_amount(name, has)}"
    lack = find_missing_room(flavor, job.pods)
    if lack and lack.is_one:
        return Limit.PLACE, f"its pods have no room on one node of flavor `{flavor.name}`, where all of them must be"
    return Limit.NODES, f"its pods have no room on the nodes of flavor `{flavor.name}`"


def _with_some(queued: Queues, queue: ClusterQueue, job: CountedJob) -> set[str]:
    """The flavors that pods may go to and have something of; none if there is nothing of a resource that they need."""
    most, found = queued.most[queue.name], set()
    for pods, places in zip(job.pods, job.places, strict=True):
        for resource in (name for name, amount in pods.counted.items() if amount):
            group = queue.group(resource)
            flavors = places.intersection(group.flavors) if group else ()
            some = {name for name in flavors if most.get(FlavorResource(name, resource))}
            if not some:
                return set()
            found |= some
    return found


@check("quota/unmatched-flavor", severity=WARNING, needs=Objects)
def unmatched_flavor(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report quota of a flavor whose nodes no runtime can use.

    A queue has quota of a flavor, and no pod of any runtime of its namespaces may go to its nodes, because of their
    taints or of what the pods select.
    """
    queued = gathered.view(Queues.read)
    if queued is None:
        return
    for name, jobs in sorted(queued.jobs.items()):
        used = {flavor for job in jobs for places in job.places for flavor in places}
        owned = {key.flavor for key, amount in queued.most[name].items() if amount} if jobs else set()
        told = set(used)
        for row in rows(queued.of("ClusterQueue")[name]) if owned - used else ():
            flavor = row.key.flavor
            if flavor in owned - told:
                told.add(flavor)
                breach = _unmatched((*row.path[:-2], "name"), queued.tree.flavors[flavor], jobs)
                yield queued.of("ClusterQueue")[name], breach


def _unmatched(path: tuple[str | int, ...], flavor: Flavor, jobs: Sequence[CountedJob]) -> Breach:
    reasons = dict.fromkeys(
        f"`{job.runtime.name}`: {explain_flavor_mismatch(pods, flavor)}" for job in jobs for pods in job.pods[-1:]
    )
    return Breach(
        path,
        "quota/unmatched-flavor",
        f"no runtime can use it: {'; '.join(list(reasons)[:2])}",
        "the quota is there, and no training job can have any of it",
        "give a runtime the tolerations and the nodeSelector of these nodes, or take the flavor out of the queue",
        Severity.WARNING,
        value=flavor.name,
    )


_NODES: Path = ("spec", "trainer", "numNodes")
_UNSEEN = "no policy sees the hosts of a runtime: such a job is taken, and is larger than it may be"


def allowed(namespace: str, gathered: Objects) -> int | None:
    """The largest `numNodes` that the API server takes in a namespace; None where no limit is known."""
    home = gathered.one("", "Namespace", namespace)
    return read_host_limit(home) if home else None


@check("quota/too-many-hosts", severity=ERROR, needs=Objects)
def too_many_hosts(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a TrainJob with more hosts than its namespace allows.

    A TrainJob has more hosts than its Namespace allows (the annotation `mpigen.dev/hosts-per-job`). If it says so
    itself (`numNodes`), the API server refuses it. If it leaves that to its runtime, it is taken and runs: no
    admission policy sees a runtime. (A policy that refused the JobSet would come too late: Kueue has admitted the
    job by then, so that it keeps its quota and never runs.)
    """
    for job in gathered.of(TRAINER, "TrainJob"):
        most = allowed(job.namespace, gathered)
        if most is not None:
            yield from ((job, breach) for breach in _judge_hosts(job, most, gathered))


def _judge_hosts(job: Manifest, most: int, gathered: Objects) -> Iterator[Breach]:
    trainer = mapping(job.body, *map(str, _NODES[:-1]))
    limit, fix = f"a job of `{job.namespace}` has at most {most}", f"write `numNodes: {most}` or less"
    nodes, check = integer(trainer.get("numNodes"), 0), "quota/too-many-hosts"
    if nodes > most:
        why = "the API server refuses the TrainJob"
        yield Breach(_NODES, check, f"asks for {nodes} hosts, and {limit}", why, fix, value=nodes)
    runtime = None if "numNodes" in trainer else runtime_of(job, gathered)
    if runtime and (usual := default_nodes(runtime.body)) > most:
        message = f"names no number of hosts, so that it has the {usual} of `{runtime.name}`, and {limit}"
        yield Breach(("spec", "runtimeRef"), check, message, _UNSEEN, fix, value=runtime.name)


@check("quota/default-hosts", severity=WARNING, needs=Objects)
def default_hosts(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a runtime whose default job has more hosts than a namespace allows.

    A runtime that the namespace has quota for gives jobs that name no hosts more than are allowed. With MPI those
    are the pods of `node`, and the launcher if it is one of the hosts (`runLauncherAsNode`). `mpigen job new`
    always names them.
    """
    for home in gathered.of("", "Namespace"):
        most = allowed(home.name, gathered)
        if most is None:
            continue
        large = [each for each in gathered.of(TRAINER, *RUNTIMES) if default_nodes(each.body) > most]
        used = [each for each in large if _is_used(each, home.name, gathered.view(Queues.read))]
        if used:
            usual = " and ".join(sorted({f"{default_nodes(each.body)} on `{each.name}`" for each in used}))
            breach = Breach(
                ("metadata", "annotations", ANNOTATION),
                "quota/default-hosts",
                f"a job of `{home.name}` has at most {most} hosts, and one that names none has {usual}",
                _UNSEEN,
                f"give the runtimes {most} nodes or less, or raise the limit; or see that jobs name their hosts",
                Severity.WARNING,
                value=most,
            )
            yield home, breach


def _is_used(runtime: Manifest, namespace: str, queued: Queues | None) -> bool:
    """Whether a namespace has a runtime, and quota for a job on it."""
    if runtime.kind == "TrainingRuntime" and runtime.namespace != namespace:
        return False
    names = queued.queues.get(namespace, frozenset()) if queued else frozenset()
    job = queued.job(runtime, namespace) if queued else None
    if queued is None or job is None or not names or not names <= queued.tree.queues.keys():
        return True
    queues = [queued.tree.queues[name] for name in names]
    return any(queued.admits(queue, namespace) and has_quota(queued, queue, job) for queue in queues)


_NUM_NODES: Path = ("spec", "trainer", "numNodes")
_PLACING = ("tolerations", "affinity")


@check("quota/never-admitted", severity=ERROR, needs=Objects)
def never_admitted(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a TrainJob that its queue never admits.

    A TrainJob has more nodes, or asks for other resources, than its queue is ever admitted, or than a LimitRange of
    its namespace lets it ask for. The finding says how many nodes it could have. Its runtime, its LocalQueue and
    the ClusterQueue with its flavors are to be among the files. Nothing is said of jobs whose `runtimePatches`
    change where pods may go, or that another cluster runs.
    """
    queued = gathered.view(Queues.read)
    if queued is None or not queued.settings.is_modelled:
        return
    for manifest in gathered.of(TRAINER, "TrainJob"):
        runtime, queue = runtime_of(manifest, gathered), _queue_of(manifest, gathered, queued)
        if runtime is None or queue is None or _is_elsewhere(manifest.body):
            continue
        pair = OnRuntime(manifest, runtime)
        job = queued.job(runtime, manifest.namespace, pair.said if pair.names_amounts else None)
        if job:
            taken = allowed(manifest.namespace, gathered)
            yield from ((manifest, breach) for breach in _judge_job(manifest, job, queue, queued, taken))


def _queue_of(manifest: Manifest, gathered: Objects, queued: Queues) -> ClusterQueue | None:
    """The ClusterQueue that a TrainJob comes to, if that admits anything from its namespace."""
    door = gathered.one(KUEUE, "LocalQueue", queue_of(manifest), manifest.namespace)
    queue = queued.tree.queues.get(str(mapping(door.body, "spec").get("clusterQueue"))) if door else None
    return queue if queue and queued.admits(queue, manifest.namespace) else None


def _is_elsewhere(body: Body) -> bool:
    """Whether another cluster runs it, or patches let its pods go to other nodes than the runtime says."""
    if mapping(body, "spec").get("managedBy") == MULTI_KUEUE:
        return True
    patches = indexed_mappings(mapping(body, "spec").get("runtimePatches"))
    jobs = [mapping(patch, "trainingRuntimeSpec", "template", "spec").get("replicatedJobs") for _, patch in patches]
    pods = [mapping(job, "template", "spec", "template", "spec") for each in jobs for _, job in indexed_mappings(each)]
    return any(field in pod for pod in pods for field in _PLACING)


def _judge_job(
    manifest: Manifest, job: CountedJob, queue: ClusterQueue, queued: Queues, taken: int | None
) -> Iterator[Breach]:
    missing = [name for name in job.total if queue.group(name) is None]
    why = "it stays suspended for ever, and only the status of its Workload says why"
    if missing:
        message = f"asks for {' and '.join(missing)}, which `{queue.name}` does not cover"
        fix = f"ask for none of it, or have {missing[0]} added to the `coveredResources` of `{queue.name}`"
        yield Breach(("spec", "trainer"), "quota/never-admitted", message, why, fix)
        return
    trainer = mapping(manifest.body, *map(str, _NUM_NODES[:-1]))
    nodes = integer(trainer.get("numNodes"), default_nodes(job.runtime.body)) if job.grows else 1
    largest = queued.largest(queue.name, job) if queued.knows_lenders(queue) else None
    if largest is None or largest.idle is None or nodes <= largest.idle:
        return
    path = _NUM_NODES if "numNodes" in trainer else ("spec", "runtimeRef")
    message = f"`{queue.name}` never admits {nodes} nodes of `{job.runtime.name}`, and at most {largest.idle}"
    if not largest.idle:
        message = f"`{queue.name}` never admits such a job on `{job.runtime.name}`"
    most = largest.idle if taken is None else min(largest.idle, taken)
    sure = _sure(queued.guaranteed(queue.name, job), most) if most > 0 else ""
    fix = f"write `numNodes: {most}` or less{sure}" if most > 0 else _advice(largest.limit, trainer)
    yield Breach(path, "quota/never-admitted", f"{message}: {largest.reason}", why, fix, value=nodes)


def _sure(found: Largest | None, most: int) -> str:
    """Return what Kueue admits whatever the other queues use, if it is less than the largest job."""
    if found is None or found.reclaimable is None or found.reclaimable >= most:
        return ""
    how = "" if found.owned == found.reclaimable else ", if need be after preemption"
    nodes = "no job" if not found.reclaimable else f"{found.reclaimable} nodes"
    return f"; while other queues use all that they can, Kueue admits {nodes}{how}"


def _advice(limit: Limit, trainer: Mapping[str, Any]) -> str:
    """What to do where no job of any size is admitted."""
    if limit is Limit.NODE:
        is_said = trainer.get("resourcesPerNode")
        return f"{'ask for less in `resourcesPerNode`' if is_said else 'take another runtime'}: no node is that large"
    if limit is Limit.LIMIT_RANGE:
        return "ask for as much as the LimitRange allows, or have it changed"
    return "have the quota raised, or take another runtime"
