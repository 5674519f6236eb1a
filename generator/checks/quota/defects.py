"""quota/no-candidates, quota/lost-tolerations, quota/runs-twice: defects of Kueue, and of Trainer with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.queues import KUEUE, RUNTIMES, TRAINER, Queues
from generator.checks.registry import ERROR, WARNING, check
from generator.checks.trainer import JOB_SET
from generator.documents.load import Path
from generator.facts.defects import known
from generator.facts.names import MULTI_KUEUE
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, mapping
from generator.objects.queue import ClusterQueue, Flavor
from generator.objects.selectors import find_untolerated_taint, format_taint

_Toleration = tuple[Path, dict[str, Any]]
_LATER = "where JobSet makes the Job after the admission, as with `dependsOn`"
_RESTARTED = "when JobSet restarts the job"
_Place = tuple[str, int, Path]
"""File, document and path in it."""


@check("quota/no-candidates", severity=WARNING, needs=Objects)
def no_candidates(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a preference that keeps jobs pending while quota is free.

    `flavorFungibility.preference` is `PreemptionOverBorrowing` in a queue with several flavors. Kueue before 0.18.5
    may choose a flavor in which it can preempt nothing, and the job waits although another flavor has room.

    Source: kueue v0.18.3 pkg/scheduler/flavorassigner/flavorassigner.go isPreferred
    """
    for queue in gathered.of(KUEUE, "ClusterQueue"):
        spec = mapping(queue.body, "spec")
        groups = indexed_mappings(spec.get("resourceGroups"))
        has_choice = any(len(indexed_mappings(group.get("flavors"))) > 1 for _, group in groups)
        if mapping(spec, "flavorFungibility").get("preference") == "PreemptionOverBorrowing" and has_choice:
            defect = known("kueue-waits-without-preemption-candidates")
            yield (
                queue,
                Breach(
                    ("spec", "flavorFungibility", "preference"),
                    "quota/no-candidates",
                    "`preference` is `PreemptionOverBorrowing`, and the queue has several flavors",
                    "Kueue may choose a flavor in which no workload can be preempted over one that fits by borrowing: "
                    f"the job stays pending while quota is free ({defect.note})",
                    f"update to {defect.update}, or remove the field",
                    Severity.WARNING,
                    value="PreemptionOverBorrowing",
                ),
            )


@check("quota/lost-tolerations", severity=ERROR, needs=Objects)
def lost_tolerations(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report tolerations of a runtime that those of a flavor replace.

    A ResourceFlavor has tolerations. Kueue writes them into the TrainJob, where they replace the tolerations of the
    runtime. Jobs that start later (`dependsOn`) or again (`maxRestarts`) lose those, and a lost toleration of a
    taint that the flavor names keeps their pods Pending. Only that in a Job with `dependsOn` is an error. Flavors
    of mpigen have no tolerations.

    Source: kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go RunWithPodSetsInfo; trainer v2.3.0
    pkg/apis/trainer/v1alpha1/trainjob_types.go PodSpecPatch: `tolerations` is an atomic list. Jobs that JobSet made
    before the admission keep both, as jobset v0.12.0 pkg/controllers/jobset_controller.go resumeJob merges them.
    """
    queued = gathered.view(Queues.read)
    if queued is None:
        return
    runtimes = {_place(each): each for each in gathered.of(TRAINER, *RUNTIMES)}
    reported: set[tuple[_Place, Path]] = set()
    for name, jobs in sorted(queued.jobs.items()):
        for job in jobs:
            place = _place(job.runtime)
            for places, (when, tolerations) in zip(job.places, _tolerations(job.runtime), strict=False):
                flavors = _replacing(queued, queued.tree.queues[name], places) if when else []
                for path, toleration in tolerations:
                    flavor = next((each for each in flavors if not _is_kept(toleration, each)), None)
                    if flavor and (place, path) not in reported:
                        reported.add((place, path))
                        yield runtimes[place], _lost(path, toleration, flavor, when)


def _place(manifest: Manifest) -> _Place:
    return manifest.file, manifest.index, manifest.inside


def _is_kept(toleration: Mapping[str, Any], flavor: Flavor) -> bool:
    """Return True if a toleration of the flavor covers at least the same taints."""
    return any(_covers(each, toleration) for each in flavor.tolerations)


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    if wide.get("effect") not in (None, "", narrow.get("effect")):
        return False
    if wide.get("operator") == "Exists":
        return wide.get("key") in (None, "", narrow.get("key"))
    same = ("key", "value")
    return narrow.get("operator", "Equal") == "Equal" and all(wide.get(each) == narrow.get(each) for each in same)


def _tolerations(runtime: Manifest) -> Iterator[tuple[str, list[_Toleration]]]:
    """Yield when the Jobs of each replicated job lose tolerations (empty for never), and the tolerations with paths."""
    job_set = mapping(runtime.body, *map(str, JOB_SET))
    restarts = mapping(job_set, "failurePolicy").get("maxRestarts")
    for number, job in indexed_mappings(job_set.get("replicatedJobs")):
        inside = ("template", "spec", "template", "spec")
        path = (*JOB_SET, "replicatedJobs", number, *inside, "tolerations")
        when = _LATER if job.get("dependsOn") else _RESTARTED if restarts not in (None, 0) else ""
        yield (
            when,
            [
                ((*path, index), dict(each))
                for index, each in indexed_mappings(mapping(job, *inside).get("tolerations"))
            ],
        )


def _replacing(queued: Queues, queue: ClusterQueue, places: frozenset[str]) -> list[Flavor]:
    """Return the flavors of a queue that pods may get and that bring tolerations of their own.

    With several resource groups the pods get a flavor of each, so a toleration may come from another: none then.
    """
    if len(queue.groups) != 1:
        return []
    flavors = [queued.tree.flavors[name] for name in queue.flavors if name in places and name in queued.tree.flavors]
    return [each for each in flavors if each.tolerations]


def _lost(path: Path, toleration: dict[str, Any], flavor: Flavor, when: str) -> Breach:
    defect, taint = known("kueue-replaces-tolerations"), find_untolerated_taint(flavor.taints, flavor.tolerations)
    is_needed = taint is not None and find_untolerated_taint((taint,), (toleration,)) is None
    effect = (
        f"the taint {format_taint(taint)} of this flavor then keeps them Pending while they hold quota"
        if is_needed and taint is not None
        else "nodes with that taint then never take them"
    )
    return Breach(
        path,
        "quota/lost-tolerations",
        f"ResourceFlavor `{flavor.name}` has tolerations, and this one is not among them",
        f"Kueue replaces the tolerations of the pods by those of the flavor {when}: {effect} ({defect.note})",
        f"remove the tolerations of `{flavor.name}`, or add this one to them",
        Severity.ERROR if is_needed and when == _LATER else Severity.WARNING,
        value=toleration,
    )


@check("quota/runs-twice", severity=WARNING, needs=Objects)
def runs_twice(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report TrainJobs that run here and on a worker cluster of MultiKueue.

    An AdmissionCheck of MultiKueue beside Trainer 2.2, which also runs the TrainJobs that MultiKueue sends to other
    clusters.

    Source: trainer v2.2.0 pkg/controller/trainjob_controller.go Reconcile, which never reads `spec.managedBy`
    """
    for admission_check in gathered.of(KUEUE, "AdmissionCheck"):
        if mapping(admission_check.body, "spec").get("controllerName") == MULTI_KUEUE:
            defect = known("trainer-runs-jobs-of-multi-kueue")
            yield (
                admission_check,
                Breach(
                    ("spec", "controllerName"),
                    "quota/runs-twice",
                    f"`controllerName` is `{MULTI_KUEUE}`",
                    "Trainer of this cluster ignores `managedBy`: once a worker cluster has taken a TrainJob, it runs "
                    f"here too, outside of the worker's quota ({defect.note})",
                    f"update to {defect.update} before you send TrainJobs to other clusters",
                    Severity.WARNING,
                    value=MULTI_KUEUE,
                ),
            )
