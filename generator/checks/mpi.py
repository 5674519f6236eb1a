"""mpi/*, runtime/* and trainjob/*: which rules read which objects of Kubeflow Trainer.

Trainer accepts many runtimes of which it makes nothing, or jobs that hang, or run on one host and report success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from generator.checks import (
    expansion,
    mpi_course,
    mpi_jobs,
    mpi_pods,
    mpi_resources,
    mpi_selectors,
    runtime,
    trainjob_written,
    trainjobs,
)
from generator.checks.finding import Breach
from generator.checks.mpi_runtime import MpiRuntime, mpi_runtime
from generator.facts import defects
from generator.manifests import Body, Manifest

T = TypeVar("T")
Rules = Mapping[str, Callable[[T], Iterator[Breach]]]

KINDS = frozenset({"ClusterTrainingRuntime", "TrainingRuntime", "TrainJob"})
"""All others need not be shown to `breaches`."""

OF_RUNTIMES: Rules[MpiRuntime] = {
    "mpi/implementation": mpi_jobs.implementation,
    "mpi/processes": mpi_jobs.processes,
    "mpi/launchers": mpi_jobs.launchers,
    "mpi/jobs": mpi_jobs.jobs,
    "mpi/container": mpi_jobs.container,
    "mpi/image": mpi_jobs.image,
    "mpi/step-label": mpi_jobs.step_label,
    "mpi/replicas": mpi_jobs.replicas,
    "mpi/job-order": mpi_course.job_order,
    "mpi/deadlock": mpi_course.deadlock,
    "mpi/success-policy": mpi_course.success_policy,
    "mpi/subdomain": mpi_course.subdomain,
    "mpi/host-names": mpi_course.host_names,
    "mpi/readiness": mpi_course.readiness,
    "mpi/gang": mpi_course.gang,
    "mpi/scheduler": mpi_course.scheduler,
    "mpi/ssh-as-root": mpi_pods.ssh_as_root,
    "mpi/ssh-key-group": mpi_pods.ssh_key_group,
    "mpi/open-mpi-5": mpi_pods.open_mpi_5,
    "mpi/overridden-variable": mpi_pods.overridden_variable,
    "mpi/foreign-selector": mpi_selectors.foreign_selector,
    "mpi/launcher-resources": mpi_resources.launcher_resources,
    "mpi/guessed-processes": mpi_resources.guessed_processes,
    "mpi/sdk": mpi_resources.sdk,
}
OF_ALL_RUNTIMES: Rules[Body] = {
    "runtime/failed-job-reruns": runtime.failed_job_reruns,
    "runtime/grouped-placement": runtime.grouped_placement,
    "runtime/exclusive-placement": runtime.exclusive_placement,
    "runtime/broken-value": expansion.of_runtime,
}
OF_JOBS: Rules[Body] = {
    "trainjob/name": trainjobs.name,
    "trainjob/runtime-kind": trainjobs.runtime_kind,
    "trainjob/reserved-variable": trainjobs.reserved_variable,
    "trainjob/empty-value": trainjob_written.empty_value,
    "trainjob/dropped-field": trainjob_written.dropped_field,
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
