"""Change or delete a runtime while a TrainJob on it waits or runs, and observe the job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.checks import FOLDER
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.control_plane import FINISH
from tests.cluster.training import JOB, ROLE, conditions
from tests.cluster.trees import is_gone

_KUEUE = "kueue.x-k8s.io/v1beta2"
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_LABEL = "tests.mpigen.dev/changing"
_TAINT = {"key": _LABEL, "effect": "NoSchedule"}
_SOUND = (FOLDER / "bases/runtime.yaml").read_text("utf-8")
_AMOUNTS = {"cpu": "900", "memory": "9Ti", "nvidia.com/gpu": "90"}


@dataclass
class Changing:
    """A TrainJob `job` on a runtime, in a queue of its own.

    Attributes:
        admin: who looks and acts.
        namespace: where all of it is.
        text: of the runtime, as it is now.
    """

    admin: Client
    namespace: str
    text: str = _SOUND
    touches: int = field(default=0)

    @property
    def runtime(self) -> Body:
        """Return the runtime with its current text."""
        body: Body = yaml.safe_load(self.text)
        body["metadata"]["namespace"] = self.namespace
        return body

    @property
    def job(self) -> Body:
        """Return the TrainJob as a team member writes it."""
        body: Body = yaml.safe_load((FOLDER / "bases/trainjob.yaml").read_text("utf-8"))
        labels = {"kueue.x-k8s.io/queue-name": self.namespace}
        body["metadata"] = {"name": "job", "namespace": self.namespace, "labels": labels}
        body["spec"]["runtimeRef"]["name"] = self.runtime["metadata"]["name"]
        return body

    @property
    def around(self) -> list[Body]:
        """The node that the job runs on, and its queue."""
        name, resources = {"name": self.namespace}, [{"name": key, "nominalQuota": _AMOUNTS[key]} for key in _AMOUNTS]
        group = {"coveredResources": list(_AMOUNTS), "flavors": [{**name, "resources": resources}]}
        labels = {_LABEL: self.namespace}
        status = {part: {**_AMOUNTS, "pods": "90"} for part in ("allocatable", "capacity")}
        return [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {**name, "labels": labels},
                "spec": {"taints": [_TAINT]},
                "status": status,
            },
            {
                "apiVersion": _KUEUE,
                "kind": "ResourceFlavor",
                "metadata": name,
                "spec": {"nodeLabels": labels, "tolerations": [{"operator": "Exists", **_TAINT}]},
            },
            {
                "apiVersion": _KUEUE,
                "kind": "ClusterQueue",
                "metadata": name,
                "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
            },
            {
                "apiVersion": _KUEUE,
                "kind": "LocalQueue",
                "metadata": {**name, "namespace": self.namespace},
                "spec": {"clusterQueue": self.namespace},
            },
        ]

    def submit(self) -> None:
        """Create the TrainJob. The webhook of Trainer sees a new runtime only after a moment."""
        wait_until("the TrainJob is taken", lambda: self.takes(self.job))

    def change(self, before: str, after: str) -> None:
        """Apply the runtime with another text in it."""
        assert before in self.text
        self.text = self.text.replace(before, after)
        self.admin.apply(self.runtime)

    def touch(self) -> None:
        """Patch an unused field of the TrainJob, because a changed runtime alone triggers no reconcile in Kueue."""
        self.touches += 1
        body = {"metadata": {"annotations": {"tests.mpigen.dev/touch": str(self.touches)}}}
        self.admin.request("PATCH", self.admin.path_of(self.job), body, "application/merge-patch+json")

    def hold(self, policy: str) -> None:
        """Set the stop policy of the queue: `Hold` admits no workload, `None` admits all."""
        self.patch(self.around[2], {"stopPolicy": policy})

    def patch(self, body: Body, spec: Body) -> None:
        """Change some of the spec of an object."""
        self.admin.request("PATCH", self.admin.path_of(body), {"spec": spec}, "application/merge-patch+json")

    def pods(self) -> list[Body]:
        """Return the current pods of the job."""
        pods = self.admin.items("v1", "Pod", self.namespace)
        return [pod for pod in pods if pod["metadata"]["labels"].get(JOB) == "job"]

    def has_pods(self) -> bool:
        """Return True if both pods run and no other pods are left."""
        pods = self.pods()
        phases = [pod["status"]["phase"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return len(pods) == len(phases) == 2 and set(phases) == {"Running"}

    def running(self) -> set[str]:
        """The UIDs of the pods, once both run."""
        wait_until("the job runs", self.has_pods)
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def workload(self) -> Body:
        """Return the Workload of the job as soon as Kueue creates it."""
        return wait_for("a Workload", lambda: next(iter(self.admin.items(_KUEUE, "Workload", self.namespace)), None))

    def counted(self, role: str) -> Any:
        """The container of a job, as Kueue counts it."""
        pod_sets = self.workload()["spec"]["podSets"]
        return next(each["template"]["spec"]["containers"][0] for each in pod_sets if each["name"] == role)

    def containers(self) -> dict[str, Any]:
        """Return the image, variables and resources of each job's container."""
        return {
            pod["metadata"]["labels"][ROLE]: {
                field: pod["spec"]["containers"][0].get(field) for field in ("image", "env", "resources")
            }
            for pod in self.pods()
        }

    def has_job_set(self) -> bool:
        """Return True if Trainer created the JobSet and so stores the runtime."""
        return self.admin.exists({**self.job, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"})

    def is_kept(self) -> bool:
        """Return True if a finalizer keeps the runtime while TrainJobs use it; Trainer 2.2 sets it within a second.

        trainer v2.2.0 pkg/controller/trainingruntime_controller.go nonRuntimeObjectHandler.Generic
        """
        return "trainer.kubeflow.org/resource-in-use" in self.admin.read(self.runtime)["metadata"].get("finalizers", [])

    def takes_another(self) -> bool:
        """Return True if the API server accepts one more TrainJob on the runtime."""
        return self.takes({**self.job, "metadata": {**self.job["metadata"], "name": "another"}}, dry_run=True)

    def takes(self, job: Body, *, dry_run: bool = False) -> bool:
        """Return True if the API server creates the TrainJob; it rejects jobs without their runtime."""
        try:
            self.admin.create(job, dry_run=dry_run)
        except RefusedError as refused:
            if "must be created before" in refused.message or "not found" in refused.message:
                return False
            raise
        return True

    def fails_over(self, words: str) -> bool:
        """Return True if Trainer reports an event with these words; its first event may be `not found`."""
        events = self.admin.items("v1", "Event", self.namespace)
        warnings = [
            each for each in events if each["type"] == "Warning" and each["involvedObject"]["kind"] == "TrainJob"
        ]
        return any(words in each["message"] for each in warnings)

    def finish(self) -> None:
        """Let the launcher end well."""
        pod = next(pod for pod in self.pods() if pod["metadata"]["labels"][ROLE] == "launcher")
        metadata = {"name": pod["metadata"]["name"], "namespace": self.namespace, "annotations": {FINISH: "yes"}}
        self.admin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, "tests")

    def is_complete(self) -> bool:
        """Return True if Trainer reports the TrainJob as Complete."""
        return _is(self.admin.read(self.job), "Complete")

    def is_finished(self) -> bool:
        """Return True if Kueue reports the Workload as Finished."""
        return _is(self.workload(), "Finished")

    def charged(self) -> str:
        """Return the CPU that the queue has reserved."""
        reserved = self.admin.read(self.around[2])["status"]["flavorsReservation"][0]["resources"]
        return next(str(each["total"]) for each in reserved if each["name"] == "cpu")


def _is(body: Body, condition: str) -> bool:
    return any(found["type"] == condition and found["status"] == "True" for found in conditions(body))


def changing(admin: Client, namespace: str) -> Iterator[Changing]:
    """A runtime and a queue, until the test is over."""
    place = Changing(admin, namespace)
    for body in (*place.around, place.runtime):
        admin.apply(body)
    yield place
    for body in (place.job, place.runtime, *reversed(place.around)):
        admin.delete(body)
        wait_until(f"{body['kind']} is gone", lambda body=body: is_gone(admin, body))  # type: ignore[misc]
