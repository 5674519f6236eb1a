"""change/runtime-removed, change/tenant-removed, change/priority-removed: what goes with an object that goes.

mpigen's Application prunes: argo-cd deletes what a release no longer has, as `kubectl delete` would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from generator.checks.finding import Breach, Severity
from generator.checks.queued import KUEUE
from generator.facts.names import SUPPORT
from generator.manifests import Manifest
from generator.objects.fields import mapping

_GROUP = "trainer.kubeflow.org"
_RUNTIMES = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})


def runtimes(
    old: Sequence[Manifest], new: Sequence[Manifest], targets: Mapping[str, str]
) -> Iterator[tuple[Manifest, Breach]]:
    """A runtime goes under which TrainJobs may run or wait; nothing of one that was deprecated before.

    trainer v2.3.0 pkg/webhooks/trainjob_webhook.go ValidateUpdate wants it at every update of a TrainJob, and so does
    kueue v0.19.2 pkg/controller/jobs/trainjob/trainjob_controller.go getRuntimeSpec. trainer v2.2.0
    pkg/controller/clustertrainingruntime_controller.go Reconcile keeps it with a finalizer.
    """
    gone = [manifest for manifest in _gone(old, new) if manifest.group == _GROUP and manifest.kind in _RUNTIMES]
    ended = {manifest.name for manifest in _gone_namespaces(old, new)}
    for manifest in gone:
        is_deprecated = mapping(manifest.body, "metadata", "labels").get(SUPPORT) == "deprecated"
        if not is_deprecated and manifest.namespace not in ended:
            yield manifest, _runtime(manifest, is_kept=targets.get("trainer") == "2.2")


def _runtime(manifest: Manifest, *, is_kept: bool) -> Breach:
    why = (
        "Kueue cannot start, stop or end a TrainJob without its runtime: those that wait never run, and those that run"
        " keep their quota when they have ended"
    )
    if is_kept:
        why = "Trainer 2.2 lets it go only when its last TrainJob is deleted, and takes new ones until then"
    return Breach(
        ("metadata", "name"),
        "change/runtime-removed",
        f"`{manifest.name}` is in the next release no more",
        why,
        "keep it, deprecated, until no TrainJob names it, and remove it in a later release",
        Severity.WARNING,
        value=manifest.name,
    )


def namespaces(
    old: Sequence[Manifest], new: Sequence[Manifest], _targets: Mapping[str, str]
) -> Iterator[tuple[Manifest, Breach]]:
    """A namespace goes, with everything in it, whoever made it.

    kubernetes v1.34.2 pkg/controller/namespace/deletion/namespaced_resources_deleter.go deleteAllContent
    """
    for manifest in _gone_namespaces(old, new):
        yield (
            manifest,
            Breach(
                ("metadata", "name"),
                "change/tenant-removed",
                f"`{manifest.name}` is in the next release no more",
                "Argo CD prunes it, and with the namespace go its running jobs, its volume claims and all else in it",
                "first let its people end their jobs and save their data",
                Severity.WARNING,
                value=manifest.name,
            ),
        )


def priorities(
    old: Sequence[Manifest], new: Sequence[Manifest], _targets: Mapping[str, str]
) -> Iterator[tuple[Manifest, Breach]]:
    """A priority goes that jobs may name. What is queued has its value already.

    kueue v0.19.2 pkg/controller/jobframework/reconciler.go prepareWorkload: without it there is no Workload, and no
    event says so; tests/cluster/test_changed_flavors.py.
    """
    for manifest in _gone(old, new):
        if (manifest.group, manifest.kind) == (KUEUE, "WorkloadPriorityClass"):
            yield (
                manifest,
                Breach(
                    ("metadata", "name"),
                    "change/priority-removed",
                    f"`{manifest.name}` is in the next release no more",
                    "a job that names it from now on is never queued, and only Kueue's log says why; jobs that wait"
                    " or run keep its value",
                    f"first let nobody name it in the label `{KUEUE}/priority-class`",
                    Severity.WARNING,
                    value=manifest.name,
                ),
            )


def _gone_namespaces(old: Sequence[Manifest], new: Sequence[Manifest]) -> list[Manifest]:
    return [manifest for manifest in _gone(old, new) if (manifest.group, manifest.kind) == ("", "Namespace")]


def _gone(old: Sequence[Manifest], new: Sequence[Manifest]) -> list[Manifest]:
    kept = {manifest.identity for manifest in new}
    return [manifest for manifest in old if manifest.name and manifest.identity not in kept]
