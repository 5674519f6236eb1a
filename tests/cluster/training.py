"""Submit TrainJobs as members of a tenant, and collect the reports of controllers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from generator import Platform
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.facts.names import LOCAL_QUEUE
from tests.cluster.client import Body, Client, wait_until

COMMAND = ["mpirun", "hostname"]
JOB = "jobset.sigs.k8s.io/jobset-name"
ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
_KUEUE = "kueue.x-k8s.io/v1beta2"
_TRAINER = "trainer.kubeflow.org/v1alpha1"


@dataclass(frozen=True, slots=True)
class Training:
    """A TrainJob of a tenant on a runtime.

    Attributes:
        tenant: whose it is.
        runtime: what it runs on.
        pool: where it should run.
        nodes: how many hosts it wants.
        number: distinguishes jobs that are otherwise equal; 0 for the only one.
    """

    tenant: Tenant
    runtime: Runtime
    pool: Pool
    nodes: int
    number: int = 0

    @property
    def name(self) -> str:
        """Return the name of the TrainJob."""
        return f"{self.runtime.name}-{self.nodes}{f'-{self.number}' if self.number else ''}"

    @property
    def key(self) -> tuple[str, str]:
        """Return namespace and name."""
        return self.tenant.name, self.name

    @property
    def pod_count(self) -> int:
        """Return the number of pods: one per host, and one for a separate launcher."""
        return self.nodes + self.runtime.has_separate_launcher

    @property
    def body(self) -> Body:
        """Return the TrainJob as a team member writes it, without a queue, because the platform has a default."""
        kind = {"kind": "TrainingRuntime"} if self.runtime.tenants else {}
        return {
            "apiVersion": _TRAINER,
            "kind": "TrainJob",
            "metadata": {"name": self.name, "namespace": self.tenant.name},
            "spec": {
                "runtimeRef": {"name": self.runtime.name, **kind},
                "trainer": {"numNodes": self.nodes, "command": COMMAND},
            },
        }

    def submit(self, admin: Client) -> None:
        """Create the TrainJob as a member of a group with edit access, with the rights of that group only.

        Raises:
            RefusedError: they may not, or a webhook said no.
        """
        group = next(subject for subject in self.tenant.access.edit if subject.startswith("group:"))
        wait_for_queue(admin, self.tenant.name)
        admin.as_group(group.removeprefix("group:")).create(self.body)

    def pods(self, admin: Client) -> list[Body]:
        """Return the current pods of the job."""
        pods = admin.items("v1", "Pod", self.tenant.name)
        return [pod for pod in pods if pod["metadata"]["labels"].get(JOB) == self.name]

    def runs(self, admin: Client) -> bool:
        """Return True if all pods of the job run."""
        pods = self.pods(admin)
        return len(pods) == self.pod_count and all(pod["status"].get("phase") == "Running" for pod in pods)

    def workload(self, admin: Client) -> Body | None:
        """Return the Workload as soon as Kueue creates it."""
        for workload in admin.items(_KUEUE, "Workload", self.tenant.name):
            if workload["metadata"]["ownerReferences"][0]["name"] == self.name:
                return {"apiVersion": _KUEUE, "kind": "Workload", **workload}
        return None

    def hostfile(self, admin: Client) -> str:
        """Return the hostfile that Trainer creates."""
        metadata = {"name": f"{self.name}-mpi-hostfile", "namespace": self.tenant.name}
        return str(admin.read({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})["data"]["hostfile"])

    def obstacle(self, admin: Client) -> str:
        """Return the reason why the job does not run, from a controller, the scheduler or Kueue, or an empty string."""
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


def ranks_of_a_node(runtime: Runtime, pool: Pool, limits: Body) -> int:
    """Return the ranks per node: of the runtime or its family, else one per device or per core."""
    declared = runtime.processes_per_node or (pool.device == "cpu" and runtime.family.cpu_ranks)
    return declared or int(limits[pool.accelerator or "cpu"])


def trainings(platform: Platform, nodes: int = 2) -> Iterator[Training]:
    """Yield a job for each tenant with users and each of its runtimes on a pool with quota."""
    for tenant in platform.tenants:
        for runtime in platform.runtimes:
            pool = platform.pool(runtime.pool)
            has_quota = pool.name in tenant.quota or (pool.accelerator and pool.accelerator in tenant.quota)
            has_runtime = not runtime.tenants or tenant.name in runtime.tenants
            if has_quota and has_runtime and tenant.access.edit:
                yield Training(tenant, runtime, pool, nodes)


def start(admin: Client, platform: Platform, teams: Collection[str], runtime: str) -> dict[str, Training]:
    """Submit a job of each team on a runtime, wait until all run, and return team → job."""
    jobs = {
        training.tenant.name: training
        for training in trainings(platform)
        if training.tenant.name in teams and training.runtime.name == runtime
    }
    for training in jobs.values():
        training.submit(admin)
    for training in jobs.values():
        wait_until(f"{training.key} runs", partial(training.runs, admin))
    return jobs


def pods_of(admin: Client, jobs: Mapping[str, Training]) -> set[tuple[str, str]]:
    """Return the UID and the phase of each pod of some jobs."""
    return {(pod["metadata"]["uid"], pod["status"]["phase"]) for job in jobs.values() for pod in job.pods(admin)}


def wait_for_queue(admin: Client, namespace: str) -> None:
    """Wait until Kueue reports on the default LocalQueue; before that, its webhook sets no queue label on a TrainJob.

    A namespace without a default LocalQueue needs no wait.

    Source: kueue v0.19.2 pkg/controller/core/localqueue_controller.go (Create adds the queue, Reconcile reports).
    """

    def is_known() -> bool:
        queues = admin.items(_KUEUE, "LocalQueue", namespace)
        return all(conditions(queue) for queue in queues if queue["metadata"]["name"] == LOCAL_QUEUE)

    wait_until(f"Kueue knows the queue of {namespace}", is_known)


def conditions(body: Body) -> list[Body]:
    """Return the conditions of an object."""
    found: list[Body] = body.get("status", {}).get("conditions") or []
    return found
