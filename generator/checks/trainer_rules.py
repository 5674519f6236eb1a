"""mpi/*, runtime/* and trainjob/*: which rules read which objects of Kubeflow Trainer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from generator.checks import runtime
from generator.checks import runtime as expansion
from generator.checks.finding import Breach
from generator.checks.mpi import jobs, pods, startup
from generator.checks.trainer import MpiRuntime, mpi_runtime
from generator.checks.trainjob import spec
from generator.facts import defects
from generator.manifests import Body, Manifest

T = TypeVar("T")
Rules = Mapping[str, Callable[[T], Iterator[Breach]]]

KINDS = frozenset({"ClusterTrainingRuntime", "TrainingRuntime", "TrainJob"})
"""All others need not be shown to `breaches`."""

OF_RUNTIMES: Rules[MpiRuntime] = {
    "mpi/implementation": jobs.implementation,
    "mpi/processes": jobs.processes,
    "mpi/launchers": jobs.launchers,
    "mpi/jobs": jobs.jobs,
    "mpi/container": jobs.container,
    "mpi/image": jobs.image,
    "mpi/step-label": jobs.step_label,
    "mpi/replicas": jobs.replicas,
    "mpi/job-order": startup.job_order,
    "mpi/deadlock": startup.deadlock,
    "mpi/success-policy": startup.success_policy,
    "mpi/subdomain": startup.subdomain,
    "mpi/host-names": startup.host_names,
    "mpi/readiness": startup.readiness,
    "mpi/gang": startup.gang,
    "mpi/scheduler": startup.scheduler,
    "mpi/ssh-as-root": pods.ssh_as_root,
    "mpi/ssh-key-group": pods.ssh_key_group,
    "mpi/open-mpi-5": pods.open_mpi_5,
    "mpi/overridden-variable": pods.overridden_variable,
    "mpi/foreign-selector": jobs.foreign_selector,
    "mpi/launcher-resources": pods.launcher_resources,
    "mpi/guessed-processes": pods.guessed_processes,
    "mpi/sdk": pods.sdk,
}
OF_ALL_RUNTIMES: Rules[Body] = {
    "runtime/failed-job-reruns": runtime.failed_job_reruns,
    "runtime/grouped-placement": runtime.grouped_placement,
    "runtime/exclusive-placement": runtime.exclusive_placement,
    "runtime/broken-value": expansion.of_runtime,
}
OF_JOBS: Rules[Body] = {
    "trainjob/name": spec.name,
    "trainjob/runtime-kind": spec.runtime_kind,
    "trainjob/reserved-variable": spec.reserved_variable,
    "trainjob/empty-value": spec.empty_value,
    "trainjob/dropped-field": spec.dropped_field,
    "trainjob/broken-value": expansion.of_job,
}
CHECKS = (*OF_RUNTIMES, *OF_ALL_RUNTIMES, *OF_JOBS)
"""The ids of these families."""


_SINCE_2_3 = frozenset({"mpi/ssh-key-group", "trainjob/reserved-variable"})
"""Trainer 2.2 mounts a key that everybody may read, and lets the variables of a TrainJob win."""


def breaches(manifest: Manifest, targets: Mapping[str, str]) -> Iterator[Breach]:
    """What Trainer would make of a training runtime for MPI, or of a TrainJob; nothing of any other object.

    Args:
        manifest: what to judge.
        targets: component → the minor version that is judged for.
    """
    if manifest.group != "trainer.kubeflow.org":
        return
    passed = defects.silent(targets) | (_SINCE_2_3 if targets.get("trainer") == "2.2" else frozenset())
    if manifest.kind == "TrainJob":
        yield from _broken(OF_JOBS, manifest.body, passed)
        return
    yield from _broken(OF_ALL_RUNTIMES, manifest.body, passed)
    if of_mpi := mpi_runtime(manifest.body):
        yield from _broken(OF_RUNTIMES, of_mpi, passed)


def _broken(rules: Rules[T], subject: T, passed: frozenset[str]) -> Iterator[Breach]:
    for check, rule in rules.items():
        if check not in passed:
            yield from rule(subject)
