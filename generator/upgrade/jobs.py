"""The states of the jobs in the export of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from generator.facts.names import QUEUE_NAME
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string
from generator.objects.training import GROUP, KUEUE

_KUBEFLOW = "kubeflow.org"
_OLD_KINDS = ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
_ENDS = {"Complete", "Failed", "Finished", "Succeeded"}
"""The conditions of jobs and Workloads that have ended.

Source: trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go; mpi-operator v0.8.2
pkg/apis/kubeflow/v2beta1/types.go; kueue v0.19.2 apis/kueue/v1beta2/workload_types.go
"""


def is_job(manifest: Manifest) -> bool:
    """Return True for a TrainJob, a Workload, and a job of the MPI Operator or the Training Operator."""
    kind = (manifest.group, manifest.kind)
    return kind in ((GROUP, "TrainJob"), (KUEUE, "Workload")) or (kind[0] == _KUBEFLOW and kind[1] in _OLD_KINDS)


@dataclass(frozen=True)
class Jobs:
    """The jobs of an export.

    Attributes:
        workloads: (group, kind, namespace, name) of a job → its Workload.
        job_sets: (namespace, name) of the JobSets.
        snapshots: (namespace, name of the TrainJob) → the text of its runtime that Trainer keeps.
    """

    workloads: Mapping[tuple[str, str, str, str], Manifest]
    job_sets: frozenset[tuple[str, str]]
    snapshots: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, export: Iterable[Manifest]) -> Jobs:
        """Return the jobs of an export."""
        workloads: dict[tuple[str, str, str, str], Manifest] = {}
        job_sets: set[tuple[str, str]] = set()
        snapshots: dict[tuple[str, str], str] = {}
        for item in export:
            if (item.group, item.kind) == (KUEUE, "Workload"):
                for owner in mappings(mapping(item.body, "metadata").get("ownerReferences")):
                    group = string(owner.get("apiVersion")).rpartition("/")[0]
                    workloads[group, string(owner.get("kind")), item.namespace, string(owner.get("name"))] = item
            elif (item.group, item.kind) == ("jobset.x-k8s.io", "JobSet"):
                job_sets.add((item.namespace, item.name))
            elif item.kind == "ConfigMap" and item.name.endswith(SNAPSHOT):
                text = string(mapping(item.body, "data").get("runtime"))
                snapshots[item.namespace, item.name.removesuffix(SNAPSHOT)] = text
        return cls(workloads, frozenset(job_sets), snapshots)

    def find_state(self, job: Manifest) -> str:
        """Return `running`, `pending` or `suspended`; empty for a job that has ended.

        A suspended job is pending if Kueue will resume it.
        """
        if job.kind == "Workload":
            return "" if _is_true(job, *_ENDS) else _state_of(job)
        if _is_true(job, *_ENDS):
            return ""
        holder = mapping(job.body, "spec") if job.kind == "TrainJob" else mapping(job.body, "spec", "runPolicy")
        if holder.get("suspend") is not True:
            return "running"
        workload = self.workloads.get(job.identity)
        if workload is None:
            return "pending" if job.labels.get(QUEUE_NAME) else "suspended"
        return "suspended" if mapping(workload.body, "spec").get("active") is False else "pending"

    def has_job_set(self, job: Manifest) -> bool:
        """Return True if a TrainJob has a JobSet, or if the export has no JobSets at all."""
        return not self.job_sets or (job.namespace, job.name) in self.job_sets


SNAPSHOT = "-runtime-snapshot"
"""The end of the name of the ConfigMap with the runtime of a TrainJob (trainer v2.3.0 pkg/runtime/core/snapshot.go)."""


def _state_of(workload: Manifest) -> str:
    if mapping(workload.body, "spec").get("active") is False:
        return "suspended"
    return "running" if _is_true(workload, "Admitted") else "pending"


def _is_true(item: Manifest, *names: str) -> bool:
    conditions = mappings(mapping(item.body, "status").get("conditions"))
    return any(condition.get("type") in names and condition.get("status") == "True" for condition in conditions)


def count_states(states: Sequence[str]) -> str:
    """Return the number of jobs in each state, such as `1 pending and 2 suspended`."""
    parts = [f"{states.count(name)} {name}" for name in ("running", "pending", "suspended") if name in states]
    return ", ".join(parts)
