"""TrainJobs of a platform's own people, each followed to Complete or to what keeps it from ever running."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from generator import Platform
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant
from tests.cluster.client import Body, Client, RefusedError, wait_for
from tests.cluster.control_plane import FINISH

COMMAND = ["mpirun", "hostname"]
_KUEUE = "kueue.x-k8s.io/v1beta2"
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_JOB = "jobset.sigs.k8s.io/jobset-name"
Seen = dict[tuple[str, str], tuple[Body, list[Body]]]
"""Namespace and name of each TrainJob → its status and its pods."""
_PATIENCE = 6
"""Seconds in which no job moves, and each has an obstacle, until they are given up."""
_LIMIT = 180
"""Seconds until jobs are given up that have none."""


@dataclass(frozen=True, slots=True)
class Training:
    """One TrainJob of a tenant on a runtime.

    Attributes:
        tenant: whose it is.
        runtime: what it runs on.
        nodes: how many hosts it wants.
    """

    tenant: Tenant
    runtime: Runtime
    nodes: int

    @property
    def name(self) -> str:
        """Of the TrainJob."""
        return f"{self.runtime.name}-{self.nodes}"

    @property
    def body(self) -> Body:
        """What somebody of the team writes: nothing about queues, as the platform has a default."""
        return {
            "apiVersion": _TRAINER,
            "kind": "TrainJob",
            "metadata": {"name": self.name, "namespace": self.tenant.name},
            "spec": {
                "runtimeRef": {"name": self.runtime.name},
                "trainer": {"numNodes": self.nodes, "command": COMMAND},
            },
        }

    def submit(self, admin: Client) -> None:
        """Create it as a member of a group that may edit, with that group's rights only.

        Raises:
            RefusedError: they may not, or a webhook said no.
        """
        group = next(subject for subject in self.tenant.access.edit if subject.startswith("group:"))
        admin.as_group(group.removeprefix("group:")).create(self.body)

    def pods(self, admin: Client) -> list[Body]:
        """Its pods, as they are now."""
        pods = admin.items("v1", "Pod", self.tenant.name)
        return [pod for pod in pods if pod["metadata"]["labels"].get(_JOB) == self.name]

    def workload(self, admin: Client) -> Body | None:
        """What Kueue made of it, once it did."""
        for workload in admin.items(_KUEUE, "Workload", self.tenant.name):
            if workload["metadata"]["ownerReferences"][0]["name"] == self.name:
                return {"apiVersion": _KUEUE, "kind": "Workload", **workload}
        return None

    def hostfile(self, admin: Client) -> str:
        """What Trainer gives to MPI."""
        metadata = {"name": f"{self.name}-mpi-hostfile", "namespace": self.tenant.name}
        return str(admin.read({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})["data"]["hostfile"])

    def obstacle(self, admin: Client) -> str:
        """What a controller, the scheduler or Kueue says about why it does not run; empty if nobody says anything."""
        said = [*self._unscheduled(admin), *self._warnings(admin)]
        return "; ".join(sorted(set(said or self._unadmitted(admin))))

    def _unscheduled(self, admin: Client) -> Iterator[str]:
        for pod in self.pods(admin):
            for found in conditions(pod):
                if found["type"] == "PodScheduled" and found["status"] == "False":
                    yield f"{found['reason']}: {found['message']}"

    def _warnings(self, admin: Client) -> Iterator[str]:
        for event in admin.items("v1", "Event", self.tenant.name):
            about = event["involvedObject"]
            mine = about["kind"] in {"TrainJob", "JobSet", "Job"} and about["name"].startswith(self.name)
            if mine and event["type"] == "Warning":
                yield f"{event['reason']}: {event['message']}"

    def _unadmitted(self, admin: Client) -> Iterator[str]:
        for found in conditions(self.workload(admin) or {}):
            if found["type"] == "QuotaReserved" and found["status"] == "False":
                yield f"{found['reason']}: {found['message']}"


@dataclass(slots=True)
class Ran:
    """A TrainJob and everything that was seen of it.

    Attributes:
        training: what was asked for.
        pods: while all of them ran at once.
        obstacle: why it never ran, or did not end well; empty if it is Complete.
        hostfile: what MPI was given.
        workload: what Kueue made of it, once it was finished; None if Kueue never knew.
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
        return f"{self.training.tenant.name}/{self.training.name}"

    def submit(self, admin: Client) -> None:
        """Create the TrainJob."""
        try:
            self.training.submit(admin)
        except RefusedError as refused:
            self.obstacle = str(refused)

    def advance(self, admin: Client, status: Body, pods: list[Body]) -> None:
        """Let `mpirun` end when all pods run, given the TrainJob's status and the pods as they are now."""
        true = {found["type"]: found for found in conditions({"status": status}) if found["status"] == "True"}
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        self.is_complete = "Complete" in true
        if "Failed" in true:
            self.obstacle = f"Failed: {true['Failed']['message']}"
        elif len(running) > self.training.nodes:
            self.obstacle = f"{len(running)} pods run, {self.training.nodes} were asked for"
        elif len(running) == len(pods) == self.training.nodes:
            self.pods = pods
            _finish(admin, pods)  # each time: whoever is preempted before the end gets other pods

    def look_back(self, admin: Client) -> None:
        """Read what is left of a Complete TrainJob."""
        self.hostfile = self.training.hostfile(admin)
        if self.training.workload(admin):
            self.workload = wait_for("Kueue's Workload has ended", partial(self._ended, admin))

    def _ended(self, admin: Client) -> Body | None:
        workload = self.training.workload(admin)
        return workload if any(found["type"] == "Finished" for found in conditions(workload or {})) else None


def trainings(platform: Platform, nodes: int = 2) -> Iterator[Training]:
    """One for each tenant that has people and each runtime on a pool that the tenant has a quota of."""
    for tenant in platform.tenants:
        for runtime in platform.runtimes:
            pool = platform.pool(runtime.pool)
            has_quota = pool.name in tenant.quota or (pool.accelerator and pool.accelerator in tenant.quota)
            if has_quota and tenant.access.edit:
                yield Training(tenant, runtime, nodes)


def run(admin: Client, wanted: list[Training]) -> list[Ran]:
    """Train them all at the same time, and follow each to its end."""
    everything = [Ran(training) for training in wanted]
    for ran in everything:
        ran.submit(admin)
    seen: Seen = {}
    started = moved = time.monotonic()
    while waiting := [ran for ran in everything if not (ran.is_complete or ran.obstacle)]:
        before, seen = seen, _look(admin)
        for ran in waiting:
            ran.advance(admin, *seen[ran.training.tenant.name, ran.training.name])
        now = time.monotonic()
        moved = now if _moves(before, seen) else moved
        if now - moved > _PATIENCE or now - started > _LIMIT:
            _give_up(admin, waiting, at_once=now - started > _LIMIT)
            moved = now
        time.sleep(0.3)
    for ran in everything:
        if ran.is_complete:
            ran.look_back(admin)
    return everything


def _look(admin: Client) -> Seen:
    jobs = admin.items(_TRAINER, "TrainJob")
    seen: Seen = {_key(job, job["metadata"]["name"]): (job.get("status", {}), []) for job in jobs}
    for pod in admin.items("v1", "Pod"):
        job = _key(pod, pod["metadata"]["labels"].get(_JOB, ""))
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


def _finish(admin: Client, pods: list[Body]) -> None:
    """Let `mpirun` end."""
    for pod in pods:
        if pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] == "launcher":
            identity = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
            metadata = {**identity, "annotations": {FINISH: "yes"}}
            admin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, "tests")


def conditions(body: Body) -> list[Body]:
    """What controllers said about an object."""
    found: list[Body] = body.get("status", {}).get("conditions") or []
    return found
