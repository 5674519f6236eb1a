"""quota/no-candidates, quota/lost-tolerations, quota/runs-twice: known defects of Kueue and Trainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.objects import Objects
from generator.checks.quota.queues import KUEUE, RUNTIMES, TRAINER, Queues
from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.facts.defects import known
from generator.facts.names import MULTI_KUEUE
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.pods import JOB_SET
from generator.objects.queue import ClusterQueue, Flavor
from generator.objects.selectors import find_untolerated_taint, format_taint

_POD_SPEC = ("template", "spec", "template", "spec")


@check("quota/no-candidates", severity=WARNING, needs=Objects)
def no_candidates(objects: Objects) -> Iterator[Breach]:
    """Report a flavor preference that keeps jobs pending while quota is free.

    With `flavorFungibility.preference: PreemptionOverBorrowing`, Kueue before 0.18.5, and 0.19.0, can choose
    a flavor in which it finds no workload to preempt. The job then stays pending although it would fit into another
    flavor by borrowing. The check needs a queue with several flavors in one resource group.

    Source: kueue v0.18.3 pkg/scheduler/flavorassigner/flavorassigner.go isPreferred
    """
    for queue in objects.of(KUEUE, "ClusterQueue"):
        spec = mapping(queue.body, "spec")
        groups = indexed_mappings(spec.get("resourceGroups"))
        has_choice = any(len(indexed_mappings(group.get("flavors"))) > 1 for _, group in groups)
        if mapping(spec, "flavorFungibility").get("preference") == "PreemptionOverBorrowing" and has_choice:
            defect = known("kueue-waits-without-preemption-candidates")
            yield Breach(
                ("spec", "flavorFungibility", "preference"),
                "`preference` is `PreemptionOverBorrowing`, and the queue has several flavors",
                "Kueue can choose a flavor in which it finds no workload to preempt, over a flavor in which the job "
                f"fits by borrowing: the job stays pending while quota is free ({defect.note})",
                f"update to {defect.update}, or remove `preference`",
                queue,
                value="PreemptionOverBorrowing",
            )


@check("quota/lost-tolerations", severity=ERROR, needs=Objects)
def lost_tolerations(objects: Objects) -> Iterator[Breach]:
    """Report tolerations of a runtime that the tolerations of a ResourceFlavor replace.

    Kueue writes the tolerations of the flavor into the TrainJob, where they replace the runtime's tolerations. Jobs
    that JobSet creates after admission (`dependsOn`) or recreates (`maxRestarts`) lose the runtime's tolerations. If
    they lose the toleration of a taint of the flavor, their pods stay Pending. With `dependsOn` this is an error, else
    a warning. mpigen writes flavors without tolerations.

    Source: kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go RunWithPodSetsInfo; trainer v2.3.0
    pkg/apis/trainer/v1alpha1/trainjob_types.go PodSpecPatch: `tolerations` is an atomic list. Jobs that JobSet created
    before admission keep both lists: jobset v0.12.0 pkg/controllers/jobset_controller.go resumeJob merges them.
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
            for usable, (number, replicated_job) in zip(job.places, replicated_jobs, strict=False):
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
    """Return the file, the document, and the path in the document."""
    return manifest.file, manifest.index, manifest.inside


def _keeps(flavor: Flavor, toleration: Mapping[str, Any]) -> bool:
    """Return True if one toleration of the flavor tolerates at least the same taints."""
    return any(_covers(wide, toleration) for wide in flavor.tolerations)


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Return True if one toleration tolerates at least the taints that the other tolerates."""
    if wide.get("effect") not in (None, "", narrow.get("effect")):
        return False
    if wide.get("operator") == "Exists":
        return wide.get("key") in (None, "", narrow.get("key"))
    is_equal = all(wide.get(field) == narrow.get(field) for field in ("key", "value"))
    return narrow.get("operator", "Equal") == "Equal" and is_equal


def _tolerating(queues: Queues, queue: ClusterQueue, usable: frozenset[str]) -> list[Flavor]:
    """Return the usable flavors of a queue that have tolerations.

    With several resource groups, pods get a flavor of each group, and another flavor can add a toleration. The list is
    then empty.
    """
    if len(queue.groups) != 1:
        return []
    flavors = (queues.tree.flavors.get(name) for name in queue.flavors if name in usable)
    return [flavor for flavor in flavors if flavor and flavor.tolerations]


def _lost_toleration(
    runtime: Manifest, path: Path, toleration: dict[str, Any], flavor: Flavor, *, is_late: bool
) -> Breach:
    taint = find_untolerated_taint(flavor.taints, flavor.tolerations)
    effect, is_needed = "their pods cannot run on nodes with that taint", False
    if taint is not None and find_untolerated_taint((taint,), (toleration,)) is None:
        effect, is_needed = f"the taint {format_taint(taint)} keeps their pods Pending while they hold quota", True
    jobs = "Jobs that JobSet creates after admission (`dependsOn`)" if is_late else "Jobs that JobSet restarts"
    return Breach(
        path,
        f"ResourceFlavor `{flavor.name}` has tolerations, and this one is not among them",
        f"in {jobs}, the tolerations of the flavor replace the runtime's: {effect} "
        f"({known('kueue-replaces-tolerations').note})",
        f"remove the tolerations of `{flavor.name}`, or add this one to them",
        runtime,
        severity=ERROR if is_needed and is_late else WARNING,
        value=toleration,
    )


@check("quota/runs-twice", severity=WARNING, needs=Objects)
def runs_twice(objects: Objects) -> Iterator[Breach]:
    """Report TrainJobs that run here and on a worker cluster of MultiKueue.

    Trainer 2.2 ignores `managedBy`. It runs a TrainJob here although MultiKueue sent it to a worker cluster, and the
    job occupies nodes twice.

    Source: trainer v2.2.0 pkg/controller/trainjob_controller.go Reconcile, which never reads `spec.managedBy`
    """
    for admission_check in objects.of(KUEUE, "AdmissionCheck"):
        if mapping(admission_check.body, "spec").get("controllerName") == MULTI_KUEUE:
            defect = known("trainer-runs-jobs-of-multi-kueue")
            yield Breach(
                ("spec", "controllerName"),
                f"`controllerName` is `{MULTI_KUEUE}`, but Trainer of this cluster ignores `managedBy`",
                "a TrainJob that a worker cluster has admitted runs here too, and the worker's quota does not count it "
                f"({defect.note})",
                f"update to {defect.update} before you send TrainJobs to other clusters",
                admission_check,
                value=MULTI_KUEUE,
            )
