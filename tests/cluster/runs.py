"""TrainJobs followed to their end: to Complete, or to what keeps them from ever running."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

from tests.cluster.client import Body, Client, RefusedError, wait_for
from tests.cluster.control_plane import FINISH
from tests.cluster.training import JOB, ROLE, Training, conditions

Seen = dict[tuple[str, str], tuple[Body, list[Body]]]
"""Namespace and name of each TrainJob → its status and its pods."""
_PATIENCE = 45
"""Seconds in which no job moves, and each has an obstacle, until they are given up. The scheduler retries a pod after
up to 10 seconds, and pods of a completed job can leave their node late."""
_STILL, _LIMIT = 60, 900
"""Seconds in which no job moves, and seconds in all, until jobs are given up that have none."""


@dataclass(slots=True)
class Ran:
    """A TrainJob and its observed pods, hostfile and Workload.

    Attributes:
        training: the submitted job.
        pods: its pods while all of them ran.
        obstacle: reason why it did not run or failed; empty if it is Complete.
        hostfile: hostfile of MPI.
        workload: its finished Workload; None if Kueue created none.
        is_complete: True if Trainer reports it as Complete.
    """

    training: Training
    pods: list[Body] = field(default_factory=list)
    obstacle: str = ""
    hostfile: str = ""
    workload: Body | None = None
    is_complete: bool = False

    @property
    def job(self) -> str:
        """For people."""
        return "/".join(self.training.key)

    @property
    def hosts(self) -> list[Body]:
        """Return the pods that run ranks."""
        launcher_is_one = not self.training.runtime.has_separate_launcher
        return [pod for pod in self.pods if launcher_is_one or pod["metadata"]["labels"][ROLE] != "launcher"]

    def submit(self, admin: Client) -> None:
        """Create the TrainJob."""
        try:
            self.training.submit(admin)
        except RefusedError as refused:
            self.obstacle = str(refused)

    def advance(self, admin: Client, status: Body, pods: list[Body]) -> None:
        """Let `mpirun` end when all pods run, given the TrainJob's status and the pods as they are now."""
        true = {found["type"]: found for found in conditions({"status": status}) if found["status"] == "True"}
        staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        self.is_complete = "Complete" in true
        if "Failed" in true:
            self.obstacle = f"Failed: {true['Failed']['message']}"
        elif len(staying) > self.training.pod_count:
            self.obstacle = f"{len(staying)} pods were made, {self.training.pod_count} were asked for"
        elif len(staying) == self.training.pod_count and all(pod["status"]["phase"] == "Running" for pod in staying):
            self.pods = staying
            finish(admin, staying)  # each time: whoever is preempted before the end gets other pods

    def look_back(self, admin: Client) -> None:
        """Read what is left of a Complete TrainJob."""
        self.hostfile = self.training.hostfile(admin)
        if self.training.workload(admin):
            self.workload = wait_for("Kueue's Workload has ended", partial(self._ended, admin))

    def _ended(self, admin: Client) -> Body | None:
        workload = self.training.workload(admin)
        return workload if any(found["type"] == "Finished" for found in conditions(workload or {})) else None


def run(admin: Client, wanted: list[Training], patience: float = _PATIENCE) -> list[Ran]:
    """Submit all jobs at the same time, and follow each job to its end.

    Args:
        admin: a client that may do everything.
        wanted: the jobs.
        patience: the seconds in which no job changes, and each has an obstacle, until the jobs count as failed.
    """
    everything = [Ran(training) for training in wanted]
    for ran in everything:
        ran.submit(admin)
    seen: Seen = {}
    started = moved = asked = time.monotonic()
    while waiting := [ran for ran in everything if not (ran.is_complete or ran.obstacle)]:
        before, seen = seen, _look(admin)
        for ran in waiting:
            ran.advance(admin, *seen[ran.training.key])
        now = time.monotonic()
        moved = now if _moves(before, seen) else moved
        if now - max(moved, asked) > patience or now - started > _LIMIT:
            _give_up(admin, waiting, at_once=now - moved > _STILL or now - started > _LIMIT)
            asked = now
        time.sleep(0.3)
    for ran in everything:
        if ran.is_complete:
            ran.look_back(admin)
    return everything


def _look(admin: Client) -> Seen:
    jobs = admin.items("trainer.kubeflow.org/v1alpha1", "TrainJob")
    seen: Seen = {_key(job, job["metadata"]["name"]): (job.get("status", {}), []) for job in jobs}
    for pod in admin.items("v1", "Pod"):
        job = _key(pod, pod["metadata"]["labels"].get(JOB, ""))
        if job in seen:
            seen[job][1].append(pod)
    return seen


def _key(body: Body, name: str) -> tuple[str, str]:
    return body["metadata"]["namespace"], name


def _moves(one: Seen, two: Seen) -> bool:
    def state(seen: Seen) -> list[object]:
        return [(status, [(pod["metadata"]["name"], pod["status"]) for pod in pods]) for status, pods in seen.values()]

    return state(one) != state(two)


def _give_up(admin: Client, waiting: list[Ran], *, at_once: bool) -> None:
    """If each has an obstacle: one that waits in the queue for others has one too, but then the others have none."""
    obstacles = [ran.training.obstacle(admin) for ran in waiting]
    if at_once or all(obstacles):
        for ran, obstacle in zip(waiting, obstacles, strict=True):
            ran.obstacle = obstacle or f"nothing moves, and nobody says why; {len(ran.pods)} pods ran"


def finish(admin: Client, pods: list[Body]) -> None:
    """Let `mpirun` end."""
    for pod in pods:
        if pod["metadata"]["labels"][ROLE] == "launcher":
            identity = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
            metadata = {**identity, "annotations": {FINISH: "yes"}}
            admin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, "tests")


def running(admin: Client, job: Body) -> list[Body] | None:
    """Return the pods of a TrainJob when all of them run."""
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    pods = [pod for pod in admin.items("v1", "Pod", namespace) if pod["metadata"]["labels"].get(JOB) == name]
    nodes = job["spec"]["trainer"]["numNodes"]
    return pods if len(pods) >= nodes and all(pod["status"]["phase"] == "Running" for pod in pods) else None


def is_complete(admin: Client, job: Body) -> bool:
    """Return True if a TrainJob has the condition `Complete`."""
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions(admin.read(job)))
