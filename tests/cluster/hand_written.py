"""Runtimes written by hand, a TrainJob on each, and what the real Trainer and JobSet make of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from generator.checks import registry
from generator.objects.training import MpiRuntime, TrainingRuntime, TrainJob
from tests.checks import CASES, FOLDER
from tests.cluster.client import Body, Client, RefusedError, wait_for
from tests.cluster.training import JOB, ROLE, conditions

_TRAINER = "trainer.kubeflow.org/v1alpha1"
_JOBSET = "jobset.x-k8s.io/v1alpha2"
_PLACE = "by-hand"
_TAINT = {"key": "tests.mpigen.dev/by-hand", "effect": "NoSchedule"}
NODE: Body = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": _PLACE, "labels": {"kubernetes.io/hostname": _PLACE}},
    "spec": {"taints": [_TAINT]},
    "status": {
        part: {"cpu": "9k", "memory": "90Ti", "nvidia.com/gpu": "900", "pods": "900"}
        for part in ("allocatable", "capacity")
    },
}
"""The node of these jobs, which no other pods use."""


SOUND = (FOLDER / "bases/runtime.yaml").read_text("utf-8")
ANY = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: any}
spec:
  mlPolicy: {}
  template:
    spec:
      replicatedJobs:
      - name: x
        template: {spec: {template: {spec: {containers: [{name: a, image: a}]}}}}
"""
CHECKS = {each.id for each in registry.checks() if each.needs in (MpiRuntime, TrainingRuntime, TrainJob)}
"""The checks of single runtimes and TrainJobs."""
UNSEEN = {"mpi/foreign-selector", "mpi/ssh-key-group", "mpi/open-mpi-5", "mpi/launcher-resources", "mpi/scheduler"} | {
    check for check in CHECKS if check.startswith("runtime/")
}
"""Checks of what only containers, another scheduler or a failure show."""
OF_44, OF_45, OF_51, OF_52 = ("n" * length for length in (44, 45, 51, 52))


@dataclass(frozen=True, slots=True)
class Attempt:
    """A TrainJob on a handwritten runtime.

    Attributes:
        admin: client that observes it.
        name: name of the TrainJob.
        namespace: its namespace.
        refusal: message of a rejected runtime or TrainJob; empty if both were accepted.
    """

    admin: Client
    name: str
    namespace: str
    refusal: str = ""

    @property
    def failure(self) -> str:
        """The event that says why nothing comes of it, once there is one."""
        return wait_for(f"{self.name}: an event", self._event)

    @property
    def job_set(self) -> Body:
        """Return the JobSet as soon as Trainer creates it."""
        return wait_for(f"{self.name}: a JobSet", lambda: self.object(_JOBSET, "JobSet"))

    @property
    def hosts(self) -> list[str]:
        """The lines of the hostfile."""
        file = wait_for(f"{self.name}: a hostfile", lambda: self.object("v1", "ConfigMap", "-mpi-hostfile"))
        return str(file["data"]["hostfile"]).splitlines()

    def job(self, role: str) -> Body:
        """The template of one of its Jobs, with its name and replicas."""
        return next(job for job in self.job_set["spec"]["replicatedJobs"] if job["name"] == role)

    def container(self, role: str) -> Body:
        """The first container of a job, as Trainer made it."""
        found: Body = self.job(role)["template"]["spec"]["template"]["spec"]["containers"][0]
        return found

    def mounts(self, role: str) -> set[str]:
        """Return the mounts of Trainer's volumes in this container."""
        return {mount["name"] for mount in self.container(role).get("volumeMounts", [])}

    def pods(self, role: str) -> list[Body]:
        """Return the current pods of a job."""
        pods = self.admin.items("v1", "Pod", self.namespace)
        mine = {JOB: self.name, ROLE: role}
        return [pod for pod in pods if mine.items() <= pod["metadata"]["labels"].items()]

    def run(self, role: str) -> bool:
        """Return True if a job has pods and all of them run."""
        pods = self.pods(role)
        return bool(pods) and all(pod["status"]["phase"] == "Running" for pod in pods)

    def is_complete(self) -> bool:
        """Return True if Trainer reports the TrainJob as Complete."""
        body = self.object(_TRAINER, "TrainJob") or {}
        return any(found["type"] == "Complete" and found["status"] == "True" for found in conditions(body))

    def object(self, api_version: str, kind: str, suffix: str = "") -> Body | None:
        """The object of its name, if it is there."""
        identity = {"name": f"{self.name}{suffix}", "namespace": self.namespace}
        body = {"apiVersion": api_version, "kind": kind, "metadata": identity}
        return self.admin.read(body) if self.admin.exists(body) else None

    def remove(self) -> None:
        """Delete the TrainJob, and the runtime of the same name."""
        for kind in ("TrainJob", "TrainingRuntime"):
            identity = {"name": self.name, "namespace": self.namespace}
            self.admin.delete({"apiVersion": _TRAINER, "kind": kind, "metadata": identity})

    def _event(self) -> str | None:
        for event in self.admin.items("v1", "Event", self.namespace):
            about = event["involvedObject"]
            mine = about["kind"] in {"TrainJob", "JobSet"} and about["name"] == self.name
            if mine and event["type"] == "Warning":
                return str(event["message"])
        return None


def attempt_everything(admin: Client, namespace: str) -> dict[str, Attempt]:
    """Create a TrainJob on each broken runtime, and the other attempts of the tests, all at once."""
    seen = {case.name: case for case in CASES.values() if case.check in set(CHECKS) - UNSEEN}
    spoiled = {name: case.bad for name, case in seen.items() if case.family == "mpi"}
    runtimes = {**spoiled, "sound": SOUND, "hosts": CASES["mpi/launchers"].good, "any": ANY}
    jobs: list[tuple[str, str, Mapping[str, Any]]] = [
        *((name, name, {}) for name in (*spoiled, "sound")),
        ("hosts-by-default", "hosts", {"numNodes": None}),
        ("launchers-by-default", "launchers", {"numNodes": None}),
        ("subdomain-again", "subdomain", {}),
        ("guessed-away", "guessed-processes-not-said", {"resourcesPerNode": {"requests": {"cpu": 8}}}),
        ("image-of-trainjob", "sdk-no-image", {"image": "mpi"}),
        ("one-host", "jobs", {"numNodes": 1}),
        ("one-node", "sound", {"numNodes": 1, "image": "another"}),
        ("reserved", "sound", {"env": [{"name": "OMPI_MCA_plm_rsh_args", "value": "-p 2222"}]}),
        *((name, "sound", {}) for name in (OF_44, OF_45)),
        *((name, "any", {}) for name in (OF_51, OF_52)),
    ]
    return attempt(admin, namespace, runtimes, jobs)


def attempt(
    admin: Client, namespace: str, runtimes: Mapping[str, str], jobs: Iterable[tuple[str, str, Mapping[str, Any]]]
) -> dict[str, Attempt]:
    """Create runtimes, and then TrainJobs on them.

    Args:
        admin: may do everything.
        namespace: where.
        runtimes: name → text of the runtime.
        jobs: name, the name of a runtime, and what `spec.trainer` says beside the command.
    """
    refused: dict[str, str] = {}
    for name, text in runtimes.items():
        refused[name] = create(admin, {**_placed(yaml.safe_load(text)), "metadata": _named(text, name, namespace)})
    made = {}
    for name, runtime, trainer in jobs:
        refusal = refused[runtime] or create(admin, _train_job(name, namespace, runtime, trainer))
        made[name] = Attempt(admin, name, namespace, refusal)
    return made


def _named(text: str, name: str, namespace: str) -> Body:
    return {**yaml.safe_load(text)["metadata"], "name": name, "namespace": namespace}


def _placed(runtime: Body) -> Body:
    for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        pod |= {"nodeSelector": {"kubernetes.io/hostname": _PLACE}, "tolerations": [{"operator": "Exists", **_TAINT}]}
    return runtime


def _train_job(name: str, namespace: str, runtime: str, trainer: Mapping[str, Any]) -> Body:
    body: Body = yaml.safe_load((FOLDER / "bases/trainjob.yaml").read_text("utf-8"))
    body["metadata"] = {"name": name, "namespace": namespace}
    body["spec"]["runtimeRef"]["name"] = runtime
    body["spec"]["trainer"] |= trainer
    return body


def create(admin: Client, body: Body) -> str:
    """Create an object and return the rejection, retrying until Trainer's webhook sees a new runtime."""

    def answer() -> str | None:
        try:
            admin.create(body)
        except RefusedError as refused:
            return None if "must be created before" in refused.message else refused.message
        return ""

    return wait_for(f"{body['kind']} {body['metadata']['name']}", answer)
