"""The pods of a TrainJob: their number, the ready ones, and the reasons why a pod waits or failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generator.facts.names import REPLICATED_JOB_LABEL
from generator.facts.phases import Reason, find_reason
from generator.jobs.status.export import JobObjects, label_of
from generator.manifests import Manifest
from generator.objects.conditions import conditions_of
from generator.objects.fields import integer, mapping, mappings, string
from generator.objects.training import LAUNCHER

_RESTART = "jobset.sigs.k8s.io/restart-attempt"
"""Label of a pod: the number of restarts of its JobSet (jobset v0.12.0 pkg/constants/constants.go RestartsKey)."""
_PREPARING = ("ContainerCreating", "PodInitializing")
"""Reasons of containers that start as usual."""


@dataclass(frozen=True, slots=True)
class PodFault:
    """The reason why a pod waits or failed.

    Attributes:
        pod: the name of the pod.
        container: the name of its container; empty if the reason is about the pod.
        reason: the reason as Kubernetes writes it, such as ImagePullBackOff.
        message: the message of Kubernetes; empty if absent.
        row: the row of the table of reasons; None if the table has none.
        exit_code: the exit code of a container that ended; None if the container did not end.
        time: the time at which the container ended; empty if unknown.
        role: the replicated job of the pod, such as launcher; empty if unknown.
    """

    pod: str
    container: str
    reason: str
    message: str
    row: Reason | None
    exit_code: int | None = None
    time: str = ""
    role: str = ""

    @property
    def is_usual(self) -> bool:
        """Return True if the pod only starts as usual."""
        return self.reason in _PREPARING


@dataclass(frozen=True, slots=True)
class PodCount:
    """The number of ready pods of a job, and of all its pods. A pod that ended successfully counts as ready.

    Attributes:
        ready: the number of ready pods.
        expected: the number of pods of the job; None if unknown.
    """

    ready: int
    expected: int | None


def current_pods(objects: JobObjects) -> list[Manifest]:
    """Return the pods of a job since its last restart."""
    attempts = {label_of(pod, _RESTART) for pod in objects.pods}
    newest = max(attempts, key=lambda attempt: (len(attempt), attempt), default="")
    return [pod for pod in objects.pods if label_of(pod, _RESTART) == newest]


def count_pods(objects: JobObjects) -> PodCount | None:
    """Return the numbers of ready and of all pods; None if the export has no pod of the job."""
    pods = current_pods(objects)
    return PodCount(sum(map(_is_ready, pods)), _expected(objects)) if pods else None


def find_waiting(objects: JobObjects) -> list[PodFault]:
    """Return the reasons why pods are not ready: unusual ones first, one for each pod."""
    faults = [fault for pod in current_pods(objects) if not _is_ready(pod) for fault in [_waiting(pod)] if fault]
    return sorted(faults, key=lambda fault: (fault.is_usual, fault.role != LAUNCHER, fault.pod))


def find_failed(objects: JobObjects) -> list[PodFault]:
    """Return the reasons why pods failed, in the order of their ends, one for each pod."""
    faults = [fault for pod in objects.pods for fault in [_failed(pod)] if fault]
    return sorted(faults, key=lambda fault: (fault.time or "~", fault.role != LAUNCHER, fault.pod))


def _expected(objects: JobObjects) -> int | None:
    """Return the number of pods of a job, by its JobSet or else by its Workload; None if the export has neither."""
    if objects.job_set:
        jobs = mappings(mapping(objects.job_set.body, "spec").get("replicatedJobs"))
        return sum(
            integer(job.get("replicas"), 1) * integer(mapping(job, "template", "spec").get("parallelism"), 1)
            for job in jobs
        )
    if objects.workload:
        return sum(
            integer(pods.get("count"), 1) for pods in mappings(mapping(objects.workload.body, "spec").get("podSets"))
        )
    return None


def _is_ready(pod: Manifest) -> bool:
    if mapping(pod.body, "status").get("phase") == "Succeeded":
        return True
    ready = conditions_of(pod).get("Ready")
    return ready is not None and ready.status == "True"


def _containers(pod: Manifest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (name, state) of each container, init containers first."""
    status = mapping(pod.body, "status")
    for key in ("initContainerStatuses", "containerStatuses"):
        for item in mappings(status.get(key)):
            yield string(item.get("name")), mapping(item, "state")


def _waiting(pod: Manifest) -> PodFault | None:
    """Return the reason why a pod is not ready, or why it failed; None if the pod only has not passed its probe yet."""
    role = label_of(pod, REPLICATED_JOB_LABEL)
    if failed := _failed(pod):
        return failed
    faults = []
    for name, state in _containers(pod):
        waiting = mapping(state, "waiting")
        if reason := string(waiting.get("reason")):
            message = string(waiting.get("message"))
            row = find_reason("Container", "waiting", reason=reason, message=message)
            faults.append(PodFault(pod.name, name, reason, message, row, role=role))
    if faults:
        return min(faults, key=lambda fault: fault.is_usual)
    scheduled = conditions_of(pod).get("PodScheduled")
    if scheduled and scheduled.status == "False":
        row = find_reason("Pod", "PodScheduled", *scheduled[1:4])
        return PodFault(pod.name, "", scheduled.reason, scheduled.message, row, role=role)
    return None


def _failed(pod: Manifest) -> PodFault | None:
    """Return the reason why a pod failed; None if it did not fail."""
    role = label_of(pod, REPLICATED_JOB_LABEL)
    status = mapping(pod.body, "status")
    ended = []
    for name, state in _containers(pod):
        terminated = mapping(state, "terminated")
        code = integer(terminated.get("exitCode"), 0)
        if code:
            reason, message = string(terminated.get("reason")), string(terminated.get("message"))
            row = find_reason("Container", "terminated", reason=reason, message=message)
            time = string(terminated.get("finishedAt"))
            ended.append(PodFault(pod.name, name, reason, message, row, code, time, role))
    disrupted = conditions_of(pod).get("DisruptionTarget")
    if disrupted and disrupted.status == "True":
        row = find_reason("Pod", "DisruptionTarget", *disrupted[1:4])
        return PodFault(pod.name, "", disrupted.reason, disrupted.message, row, None, disrupted.since, role)
    reason = string(status.get("reason"))
    if status.get("phase") == "Failed" and reason:
        message = string(status.get("message"))
        row = find_reason("Pod", "phase", "Failed", reason, message)
        return PodFault(pod.name, "", reason, message, row, None, _end(ended), role)
    return min(ended, key=lambda fault: fault.time or "~", default=None)


def _end(ended: Sequence[PodFault]) -> str:
    return min((fault.time for fault in ended if fault.time), default="")
