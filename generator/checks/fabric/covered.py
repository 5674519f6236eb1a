"""fabric/not-covered: does any queue know the devices of a fabric that jobs ask for?

Of a queue that covers other devices of the same pods, quota/uncovered says it. But where a device of a fabric is all
that a runtime asks for beside CPU and memory, it takes the runtime for one that is not meant for the queue.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.checks.fabric.read import Fabrics
from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
from generator.checks.mpi_runtime import JOB_SET
from generator.checks.queued import TRAINER, Queued
from generator.checks.quota_runtimes import uncovered_by
from generator.manifests import Manifest


def not_covered(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """One finding for each runtime and device that no queue at all covers, if any queue takes such jobs.

    kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go assignFlavors
    """
    queued, fabrics = gathered.view(Queued.read), gathered.view(Fabrics.read)
    if queued is None or not queued.settings.is_modelled:
        return
    covered = {name for queue in queued.tree.queues.values() for group in queue.groups for name in group.resources}
    told: dict[tuple[str, str, str, str], str] = {}
    for queue_name, jobs in sorted(queued.jobs.items()):
        for job in jobs:
            missing = [name for name in job.total if "/" in name and name not in covered]
            if all(map(fabrics.is_device, missing)) and not uncovered_by(queued.tree.queues[queue_name], job):
                for name in missing:
                    told.setdefault((job.runtime.kind, job.runtime.name, job.runtime.namespace, name), queue_name)
    for (kind, runtime_name, namespace, name), queue_name in told.items():
        runtime = gathered.one(TRAINER, kind, runtime_name, namespace)
        if runtime:
            yield runtime, _told(name, queue_name)


def _told(name: str, queue: str) -> Breach:
    return Breach(
        JOB_SET,
        "fabric/not-covered",
        f"its pods ask for `{name}`, which no ClusterQueue covers: neither `{queue}` nor another",
        "Kueue never admits a job that asks for a resource that its queue does not cover",
        f"add `{name}` to `coveredResources` of `{queue}`, and to each flavor there with the quota that it has",
        at_key=True,
        value=name,
    )
