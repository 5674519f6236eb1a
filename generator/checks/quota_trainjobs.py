"""quota/never-admitted: a TrainJob that its queue never admits, however empty the cluster is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.counted_job import CountedJob
from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
from generator.checks.queued import KUEUE, TRAINER, Queued
from generator.checks.quota_job_size import allowed
from generator.checks.trainjob_runtime import OnRuntime, queue_of, runtime_of
from generator.documents.load import Path
from generator.facts.names import MULTI_KUEUE
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, integer, mapping
from generator.simulate.kueue.largest import Largest
from generator.simulate.kueue.podsets import usual_nodes
from generator.simulate.kueue.queues import ClusterQueue
from generator.simulate.kueue.search import Limit

_NODES: Path = ("spec", "trainer", "numNodes")
_PLACING = ("tolerations", "affinity")


def never_admitted(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Judged where the files hold the runtime, the LocalQueue, and the ClusterQueue with its flavors.

    A patch of the pods' tolerations or affinity opens other nodes to them: of such a job nothing is said.
    """
    queued = gathered.view(Queued.read)
    if queued is None or not queued.settings.is_modelled:
        return
    for manifest in gathered.of(TRAINER, "TrainJob"):
        runtime, queue = runtime_of(manifest, gathered), _queue(manifest, gathered, queued)
        if runtime is None or queue is None or _is_elsewhere(manifest.body):
            continue
        pair = OnRuntime(manifest, runtime)
        job = queued.job(runtime, manifest.namespace, pair.said if pair.names_amounts else None)
        if job:
            taken = allowed(manifest.namespace, gathered)
            yield from ((manifest, breach) for breach in _judged(manifest, job, queue, queued, taken))


def _queue(manifest: Manifest, gathered: Gathered, queued: Queued) -> ClusterQueue | None:
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


def _judged(
    manifest: Manifest, job: CountedJob, queue: ClusterQueue, queued: Queued, taken: int | None
) -> Iterator[Breach]:
    missing = [name for name in job.total if queue.group(name) is None]
    why = "it stays suspended for ever, and only the status of its Workload says why"
    if missing:
        message = f"asks for {' and '.join(missing)}, which `{queue.name}` does not cover"
        fix = f"ask for none of it, or have {missing[0]} added to the `coveredResources` of `{queue.name}`"
        yield Breach(("spec", "trainer"), "quota/never-admitted", message, why, fix)
        return
    trainer = mapping(manifest.body, *map(str, _NODES[:-1]))
    nodes = integer(trainer.get("numNodes"), usual_nodes(job.runtime.body)) if job.grows else 1
    largest = queued.largest(queue.name, job) if queued.knows_lenders(queue) else None
    if largest is None or largest.idle is None or nodes <= largest.idle:
        return
    path = _NODES if "numNodes" in trainer else ("spec", "runtimeRef")
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
