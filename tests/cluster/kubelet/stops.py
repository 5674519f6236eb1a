"""Ways in which Kubernetes stops the pods of a job, and lets the job run again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from tests.cluster.client import Client, wait_until
from tests.cluster.kubelet.jobs import Submitter, pods_of
from tests.cluster.mpi.gangs import Gang
from tests.cluster.training import ROLE

_MERGE = "application/merge-patch+json"
_KUEUE = "kueue.x-k8s.io/v1beta2"


@dataclass(frozen=True, slots=True)
class Stop(ABC):
    """A way to stop a job.

    Attributes:
        gang: the running job.
        node: the name of its node.
        submitter: submits other jobs.
    """

    gang: Gang
    node: str
    submitter: Submitter

    @property
    def admin(self) -> Client:
        """Return a client that may do everything."""
        return self.submitter.admin

    @abstractmethod
    def stop(self) -> None:
        """Stop the job."""

    @abstractmethod
    def resume(self) -> None:
        """Let the job run again."""

    def _wait_until_gone(self) -> None:
        wait_until(f"{self.gang.name} has no pods", lambda: not pods_of(self.admin, self.gang))


class Deactivation(Stop):
    """An admin sets `active: false` in the Workload, so Kueue evicts it."""

    def stop(self) -> None:
        """Deactivate the Workload."""
        self._set_active(value=False)

    def resume(self) -> None:
        """Activate the Workload once all pods have ended."""
        self._wait_until_gone()
        self._set_active(value=True)

    def _set_active(self, *, value: bool) -> None:
        workloads = self.admin.items(_KUEUE, "Workload", self.gang.namespace)
        [found] = [one for one in workloads if one["metadata"]["ownerReferences"][0]["name"] == self.gang.name]
        path = self.admin.path_of({**found, "apiVersion": _KUEUE, "kind": "Workload"})
        self.admin.request("PATCH", path, {"spec": {"active": value}}, _MERGE)


class Preemption(Stop):
    """A job of a higher priority needs the whole quota of the team, so Kueue preempts the job."""

    def stop(self) -> None:
        """Submit the other job."""
        self.submitter.start(self._winner)

    def resume(self) -> None:
        """Delete the other job."""
        self.admin.delete(self._winner.body)

    @property
    def _winner(self) -> Gang:
        labels = {"kueue.x-k8s.io/priority-class": "production"}
        return replace(self.gang, name=f"{self.gang.name}-winner", command=("sleep", "600"), labels=labels)


class Drain(Stop):
    """A cluster admin drains the node, by the requests of `kubectl drain`.

    Source: kubectl v0.34.2 pkg/drain/drain.go Helper.EvictPod.
    """

    def stop(self) -> None:
        """Cordon the node, and evict each pod."""
        self._cordon(value=True)
        for pod in pods_of(self.admin, self.gang):
            metadata = {name: pod["metadata"][name] for name in ("name", "namespace")}
            path = self.admin.path_of({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            self.admin.request("POST", f"{path}/eviction", body)

    def resume(self) -> None:
        """Uncordon the node."""
        self._cordon(value=False)

    def _cordon(self, *, value: bool) -> None:
        path = self.admin.path_of({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}})
        self.admin.request("PATCH", path, {"spec": {"unschedulable": value}}, _MERGE)


class PodDeletion(Stop):
    """A user deletes a worker pod, so JobSet restarts the job."""

    def stop(self) -> None:
        """Delete one worker pod."""
        pod = next(pod for pod in pods_of(self.admin, self.gang) if pod["metadata"]["labels"][ROLE] == "node")
        self.admin.delete({"apiVersion": "v1", "kind": "Pod", **pod})

    def resume(self) -> None:
        """Do nothing."""


class Deletion(Stop):
    """A user deletes the TrainJob, and submits it again."""

    def stop(self) -> None:
        """Delete the TrainJob."""
        self.admin.delete(self.gang.body)

    def resume(self) -> None:
        """Submit the TrainJob again once all pods have ended."""
        wait_until(f"{self.gang.name} is gone", lambda: not self.admin.exists(self.gang.body))
        self._wait_until_gone()
        self.gang.submit(self.admin)


STOPS: dict[str, type[Stop]] = {
    "deactivated": Deactivation,
    "preempted": Preemption,
    "drained": Drain,
    "lacks-a-pod": PodDeletion,
    "deleted": Deletion,
}
