"""TrainJobs of an example's own people, from creation to Complete, with everything seen on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from generator import Platform
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.control_plane import FINISH

_KUEUE = "kueue.x-k8s.io/v1beta2"


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
    def body(self) -> Body:
        """What somebody of the team writes: nothing about queues, as the platform has a default."""
        return {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": f"{self.runtime.name}-{self.nodes}", "namespace": self.tenant.name},
            "spec": {
                "runtimeRef": {"name": self.runtime.name},
                "trainer": {"numNodes": self.nodes, "command": ["mpirun", "hostname"]},
            },
        }

    def submit(self, admin: Client) -> None:
        """Create it as a member of a group that may edit, with that group's rights only."""
        group = next(subject for subject in self.tenant.access.edit if subject.startswith("group:"))
        admin.as_group(group.removeprefix("group:")).create(self.body)

    def pods(self, admin: Client) -> list[Body]:
        """Its pods, as they are now."""
        label, name = "jobset.sigs.k8s.io/jobset-name", self.body["metadata"]["name"]
        pods = admin.items("v1", "Pod", self.tenant.name)
        return [pod for pod in pods if pod["metadata"]["labels"].get(label) == name]

    def running(self, admin: Client) -> list[Body] | None:
        """Its pods, if all of them run."""
        pods = self.pods(admin)
        return pods if len(pods) == self.nodes and all(map(_runs, pods)) else None

    def finish(self, admin: Client) -> None:
        """Let `mpirun` end."""
        for pod in self.pods(admin):
            if pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] == "launcher":
                metadata = {
                    "name": pod["metadata"]["name"],
                    "namespace": self.tenant.name,
                    "annotations": {FINISH: "yes"},
                }
                admin.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, "tests")

    def workload(self, admin: Client) -> Body | None:
        """What Kueue made of it, once it did."""
        name = self.body["metadata"]["name"]
        for workload in admin.items(_KUEUE, "Workload", self.tenant.name):
            if workload["metadata"]["ownerReferences"][0]["name"] == name:
                return {"apiVersion": _KUEUE, "kind": "Workload", **workload}
        return None

    def explained(self, admin: Client) -> Body:
        """Where it stands, for people."""
        workload, status = self.workload(admin) or {}, admin.read(self.body).get("status", {})
        conditions = workload.get("status", {}).get("conditions") or []
        return {
            "job": f"{self.tenant.name}/{self.body['metadata']['name']}",
            "conditions": [found["type"] for found in status.get("conditions") or [] if found["status"] == "True"],
            "workload": {found["type"]: f"{found['status']} {found['message']}" for found in conditions},
            "pods": [(pod["metadata"]["name"], pod["status"]["phase"]) for pod in self.pods(admin)],
        }

    def wait_until_complete(self, admin: Client) -> None:
        """Raises: TimeoutError: it is not Complete after a minute."""
        wait_until(f"{self.body['metadata']} is Complete", partial(self._is_complete, admin))

    def _is_complete(self, admin: Client) -> bool:
        conditions = admin.read(self.body).get("status", {}).get("conditions") or []
        assert not any(found["type"] == "Failed" and found["status"] == "True" for found in conditions), conditions
        return any(found["type"] == "Complete" and found["status"] == "True" for found in conditions)


def trainings(platform: Platform, nodes: int = 2) -> Iterator[Training]:
    """One for each tenant and each runtime on a pool that the tenant has a quota of."""
    for tenant in platform.tenants:
        for runtime in platform.runtimes:
            pool = next(pool for pool in platform.pools if pool.name == runtime.pool)
            if pool.name in tenant.quota or (pool.accelerator and pool.accelerator in tenant.quota):
                yield Training(tenant, runtime, nodes)


def run(admin: Client, wanted: list[Training]) -> dict[tuple[str, str], list[Body]]:
    """Train them all; tenant and runtime → its pods while all of them ran at once."""
    for training in wanted:
        training.submit(admin)
    seen: dict[tuple[str, str], list[Body]] = {}

    def progress() -> bool:
        for training in wanted:
            key = training.tenant.name, training.runtime.name
            if key not in seen and (pods := training.running(admin)):
                seen[key] = pods
                training.finish(admin)
        return len(seen) == len(wanted)

    try:
        wait_until(f"all of {len(wanted)} jobs ran", progress, 120)
    except TimeoutError as error:
        stuck = [one for one in wanted if (one.tenant.name, one.runtime.name) not in seen]
        raise TimeoutError(f"{error}; {[one.explained(admin) for one in stuck]}") from None
    for training in wanted:
        training.wait_until_complete(admin)
    return seen


def _runs(pod: Body) -> bool:
    return bool(pod["status"]["phase"] == "Running")
