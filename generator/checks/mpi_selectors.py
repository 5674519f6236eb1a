"""mpi/foreign-selector: do pods of a runtime choose their neighbours by labels that no pod of a TrainJob has?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.checks.finding import Breach, Severity
from generator.checks.mpi_runtime import MpiRuntime
from generator.documents.load import Path
from generator.objects.fields import indexed_mappings, mapping

_OF_MPI_JOBS = ("training.kubeflow.org/", "mpi-job-")
"""Of the pods of an MPIJob (mpi-operator pkg/apis/kubeflow/v2beta1/constants.go), or of those before it."""


def foreign_selector(runtime: MpiRuntime) -> Iterator[Breach]:
    """JobSet labels pods `jobset.sigs.k8s.io/…` (jobset v0.12.0 api/jobset/v1alpha2/jobset_types.go)."""
    for job in runtime.jobs:
        for path, selector in _selectors(job.pod_path, job.pod):
            if key := _foreign(selector):
                yield Breach(
                    path,
                    "mpi/foreign-selector",
                    f"pods of `{job.name}` are placed by the label `{key}`, as those of an MPIJob are",
                    "pods of a TrainJob have no such label: what this asks for is never the case, or always",
                    "select by `jobset.sigs.k8s.io/replicatedjob-name`, or let Kueue place the job (a topology)",
                    Severity.WARNING,
                )


def _selectors(path: Path, pod: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Those of affinity and of the spreading over domains."""
    for kind in ("podAffinity", "podAntiAffinity"):
        for field, said in mapping(pod, "affinity", kind).items():
            for number, term in indexed_mappings(said):
                inside = mapping(term, "podAffinityTerm") or term
                deeper: Path = ("podAffinityTerm",) if "podAffinityTerm" in term else ()
                place: Path = (*path, "affinity", kind, field, number, *deeper, "labelSelector")
                yield place, mapping(inside, "labelSelector")
    for number, each in indexed_mappings(pod.get("topologySpreadConstraints")):
        yield (*path, "topologySpreadConstraints", number, "labelSelector"), mapping(each, "labelSelector")


def _foreign(selector: Mapping[str, Any]) -> str:
    keys: list[object] = [*mapping(selector, "matchLabels")]
    keys += [each.get("key") for _, each in indexed_mappings(selector.get("matchExpressions"))]
    return next((key for key in keys if isinstance(key, str) and key.startswith(_OF_MPI_JOBS)), "")
