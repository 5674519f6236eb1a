"""quota/uncovered, quota/too-large, quota/unmatched-flavor: can jobs on the runtimes that a team has be admitted?

Every namespace has every ClusterTrainingRuntime, whether it is meant for it or not. So of a runtime whose devices a
queue does not cover, or of which it has nothing, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.checks.counted_job import CountedJob
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.queued import Queued, rows
from generator.manifests import Manifest
from generator.objects.amounts import FlavorResource, shown
from generator.simulate.kueue.fit import mismatch, no_room, oversize
from generator.simulate.kueue.queues import ClusterQueue, Flavor
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


def uncovered(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A resource that a runtime asks for, and of which the queue says nothing, not even that there is none.

    kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go assignFlavors
    """
    queued = gathered.view(Queued.read)
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


def too_large(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """The smallest job on a runtime asks for more than the queue can ever have, though it has some of all."""
    queued = gathered.view(Queued.read)
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


def has_quota(queued: Queued, queue: ClusterQueue, job: CountedJob) -> bool:
    """Whether one flavor of each group has quota for all pods: mostly one has, and nothing else need be computed."""
    most, found = queued.most[queue.name], 0
    homes = job.common if queue.is_elsewhere else job.homes
    for group in queue.groups:
        asked = {name: job.total[name] for name in group.resources if name in job.total}
        found += len(asked)
        flavors = [name for name in group.flavors if name in homes]
        if asked and not any(
            all(amount <= most.get(FlavorResource(name, each), 0) for each, amount in asked.items()) for name in flavors
        ):
            return False
    return found == len(job.total)


def _never(queued: Queued, queue: ClusterQueue, job: CountedJob) -> tuple[Limit, str]:
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
        if words := oversize([flavor], pods):
            return Limit.NODE, words
    for name in sorted(job.total, key=lambda each: "/" not in each):
        has, takes = most.get(FlavorResource(flavor.name, name), 0), job.total[name]
        if takes > has:
            what = f"its pods take {shown(name, takes)} {name} of flavor `{flavor.name}`"
            return Limit.QUOTA, f"{what}, and `{queue}` never gets more than {shown(name, has)}"
    lack = no_room(flavor, job.pods)
    if lack and lack.is_one:
        return Limit.PLACE, f"its pods have no room on one node of flavor `{flavor.name}`, where all of them must be"
    return Limit.NODES, f"its pods have no room on the nodes of flavor `{flavor.name}`"


def _with_some(queued: Queued, queue: ClusterQueue, job: CountedJob) -> set[str]:
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


def unmatched_flavor(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Quota of a flavor whose nodes no pod of any runtime may go to: it tolerates no taint, or selects other nodes."""
    queued = gathered.view(Queued.read)
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
    reasons = dict.fromkeys(f"`{job.runtime.name}`: {mismatch(pods, flavor)}" for job in jobs for pods in job.pods[-1:])
    return Breach(
        path,
        "quota/unmatched-flavor",
        f"no runtime can use it: {'; '.join(list(reasons)[:2])}",
        "the quota is there, and no training job can have any of it",
        "give a runtime the tolerations and the nodeSelector of these nodes, or take the flavor out of the queue",
        Severity.WARNING,
        value=flavor.name,
    )
