"""In which namespaces pods run: those of a runtime for all run wherever its jobs are."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from generator.checks.fabric.pods import PodTemplate
from generator.checks.gathered import Gathered
from generator.checks.queued import Queued
from generator.checks.quota_runtimes import has_quota, is_meant
from generator.checks.trainjob_runtime import reference_of
from generator.manifests import Manifest
from generator.objects.fields import mapping

_FOR_ALL = "ClusterTrainingRuntime"
_RUNTIMES = "mpigen.dev/runtimes"
"""Annotation of a Namespace: the runtimes that its jobs may be on, as `kind/name`."""


def homes(pods: PodTemplate, gathered: Gathered) -> AbstractSet[str]:
    """Those that the files tell; none where they tell none."""
    manifest = pods.manifest
    if manifest.kind != _FOR_ALL:
        return frozenset({manifest.namespace} - {""})
    return frozenset(_of_runtime(manifest, gathered))


def likely_homes(pods: PodTemplate, gathered: Gathered) -> AbstractSet[str]:
    """Namespaces beside these, where nothing names the runtimes, whose queue has quota for a job on this one."""
    queued, runtime = gathered.view(Queued.read), pods.manifest
    if queued is None or runtime.kind != _FOR_ALL:
        return frozenset()
    found: set[str] = set()
    for name, jobs in queued.jobs.items():
        mine = (job for job in jobs if job.runtime.identity == runtime.identity)
        if any(has_quota(queued, queued.tree.queues[name], job) for job in mine):
            found |= {door.namespace for door in queued.doors.get(name, ())}
    spaces = gathered.of("", "Namespace")
    told = {each.name for each in spaces if _RUNTIMES in mapping(each.body, "metadata", "annotations")}
    return found - told - homes(pods, gathered)


def _of_runtime(runtime: Manifest, gathered: Gathered) -> Iterator[str]:
    for namespace in gathered.of("", "Namespace"):
        said = mapping(namespace.body, "metadata", "annotations").get(_RUNTIMES)
        is_named = isinstance(said, str) and f"{_FOR_ALL}/{runtime.name}" in said.split(",")
        if is_named and _may_run(runtime, namespace.name, gathered):
            yield namespace.name
    for job in gathered.of("trainer.kubeflow.org", "TrainJob"):
        reference = reference_of(job)
        if reference and reference == (_FOR_ALL, runtime.name) and job.namespace:
            yield job.namespace


def _may_run(runtime: Manifest, namespace: str, gathered: Gathered) -> bool:
    """Whether a queue of the namespace is for jobs on a runtime, or nobody knows its queues."""
    queued = gathered.view(Queued.read)
    names = queued.queues.get(namespace, frozenset()) if queued else frozenset()
    job = queued.job(runtime, namespace) if queued and names else None
    if queued is None or job is None or not names <= queued.tree.queues.keys():
        return True
    found = [queued.tree.queues[name] for name in names]
    return any(is_meant(queue, job) and not queue.is_elsewhere for queue in found)
