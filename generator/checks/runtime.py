"""runtime/*: defects of the cluster's releases that hit a training runtime of any framework."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.mpi_runtime import JOB_SET
from generator.documents.load import Path
from generator.documents.syntax import shown
from generator.facts.defects import known
from generator.facts.names import PODSET_GROUP
from generator.manifests import Body
from generator.objects.fields import indexed_mappings, mapping

_EXPIRY = "ttlSecondsAfterFinished"
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_BY_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"


def failed_job_reruns(body: Body) -> Iterator[Breach]:
    """Report a runtime whose JobSets expire.

    A JobSet that completed is not created again: trainer v2.3.0 pkg/controller/trainjob_controller.go Reconcile.
    """
    job_set = mapping(body, *map(str, JOB_SET))
    if job_set.get(_EXPIRY) is not None:
        yield Breach(
            (*JOB_SET, _EXPIRY),
            "runtime/failed-job-reruns",
            f"`{_EXPIRY}` is {shown(job_set[_EXPIRY])}",
            "Trainer runs a failed TrainJob again as soon as its JobSet has expired, without an end. With Kueue its "
            f"pods start and are killed in turns, charged to no quota ({known('trainer-failed-jobs-run-again').note})",
            "remove the field, and delete TrainJobs that have finished",
            value=job_set[_EXPIRY],
        )


def grouped_placement(body: Body) -> Iterator[Breach]:
    """Report pods of several jobs that Kueue is to place together.

    kueue v0.18.3 pkg/cache/scheduler/tas_flavor_snapshot.go consumeWithLeadersGeneric, findBestFitDomainBy
    """
    named = list(_groups(body))
    members = Counter(name for _, name in named)
    for path, name in named:
        if members[name] > 1:
            defect = known("kueue-places-a-launcher-without-room")
            yield Breach(
                path,
                "runtime/grouped-placement",
                f"the group {shown(name)} holds the pods of {members[name]} jobs",
                f"Kueue may place a pod of each on a node that has room for only one of them ({defect.note})",
                f"update to {defect.update}, or remove the topology annotations of this runtime",
                Severity.WARNING,
                value=name,
            )
            return


def exclusive_placement(body: Body) -> Iterator[Breach]:
    """Report exclusive placement by JobSet's webhook.

    jobset v0.12.0 pkg/webhooks/pod_webhook.go ValidateCreate, leaderPodForFollower
    """
    of_job_set = ("spec", "template", "metadata", "annotations")
    jobs = indexed_mappings(mapping(body, *map(str, JOB_SET)).get("replicatedJobs"))
    of_jobs = [(*JOB_SET, "replicatedJobs", number, "template", "metadata", "annotations") for number, _ in jobs]
    places: list[Path] = [of_job_set, *of_jobs]
    written = [mapping(body, *of_job_set), *(mapping(job, "template", "metadata", "annotations") for _, job in jobs)]
    if _BY_SELECTOR in written[0]:
        return
    for path, values in zip(places, written, strict=True):
        if _EXCLUSIVE in values and _BY_SELECTOR not in values:
            yield Breach(
                (*path, _EXCLUSIVE),
                "runtime/exclusive-placement",
                f"`{_EXCLUSIVE}` is {shown(values[_EXCLUSIVE])}",
                "when a node rejects the first pod of a Job, JobSet refuses all further pods of the Job, so it neither "
                f"runs nor fails, and `maxRestarts` never applies ({known('jobset-counts-failed-leaders').note})",
                f"place jobs with Kueue's topology annotations, or label the nodes and add `{_BY_SELECTOR}`",
                Severity.WARNING,
                value=values[_EXCLUSIVE],
            )


def _groups(body: Body) -> Iterator[tuple[Path, str]]:
    """Yield where each job's pods name a group, and its name."""
    for number, job in indexed_mappings(mapping(body, *map(str, JOB_SET)).get("replicatedJobs")):
        inside = ("template", "spec", "template", "metadata", "annotations")
        annotations: Mapping[str, Any] = mapping(job, *inside)
        if isinstance(name := annotations.get(PODSET_GROUP), str):
            yield (*JOB_SET, "replicatedJobs", number, *inside, PODSET_GROUP), name
