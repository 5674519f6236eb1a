"""Submit TrainJobs of teams with a fabric, and follow them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from generator import Platform
from generator.objects.queue import parse_amounts
from tests.cluster import trees
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.training import JOB, Training, conditions


@dataclass(frozen=True, slots=True)
class WiredJob:
    """A TrainJob of two hosts on a fabric.

    Attributes:
        training: whose it is, and on what.
        name: its own.
        resources: what it asks for of each host; empty for what the runtime says.
    """

    training: Training
    name: str
    resources: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, platform: Platform, tenant: str, runtime: str, name: str, resources: dict[str, str]) -> WiredJob:
        """Return a job by the names of its parts; its pool has the runtime's name."""
        team = next(each for each in platform.tenants if each.name == tenant)
        found = next(each for each in platform.runtimes if each.name == runtime)
        return cls(Training(team, found, platform.pool(runtime), 2), name, resources)

    @property
    def body(self) -> Body:
        """Return the TrainJob with its queue, because a new Kueue may not have observed the default queue."""
        body = self.training.body
        asked = {"limits": self.resources, "requests": self.resources}
        trainer = {**body["spec"]["trainer"], **({"resourcesPerNode": asked} if self.resources else {})}
        metadata = {**body["metadata"], "name": self.name, "labels": {"kueue.x-k8s.io/queue-name": "default"}}
        return {**body, "metadata": metadata, "spec": {**body["spec"], "trainer": trainer}}

    def submit(self, admin: Client) -> None:
        """Create the job as a member of the team.

        Raises:
            RefusedError: a policy or a webhook said no.
        """
        (group,) = self.training.tenant.access.edit
        admin.as_group(group.removeprefix("group:")).create(self.body)

    def workload(self, admin: Client) -> Body:
        """Return the Workload, or an empty mapping before Kueue creates it."""
        owned = admin.items("kueue.x-k8s.io/v1beta2", "Workload", self.training.tenant.name)
        return next((each for each in owned if each["metadata"]["ownerReferences"][0]["name"] == self.name), {})

    def admitted(self, admin: Client) -> Body:
        """Return the Workload after Kueue has admitted it."""

        def found() -> Body | None:
            workload = self.workload(admin)
            is_admitted = any(each["type"] == "Admitted" and each["status"] == "True" for each in conditions(workload))
            return workload if is_admitted else None

        return wait_for(f"{self.name} is admitted", found)

    def obstacle(self, admin: Client) -> str:
        """Return Kueue's reason for not admitting the job."""

        def said() -> str | None:
            found = [each for each in conditions(self.workload(admin)) if each["type"] == "QuotaReserved"]
            return next((each["message"] for each in found if each["status"] == "False"), None)

        return wait_for(f"{self.name}: why Kueue does not let it go", said)

    def pods(self, admin: Client, phase: str = "") -> list[Body]:
        """Return all pods of the job once they are in this phase."""

        def found() -> list[Body] | None:
            every = admin.items("v1", "Pod", self.training.tenant.name)
            mine = [each for each in every if each["metadata"]["labels"].get(JOB) == self.name]
            is_there = all(not phase or each["status"]["phase"] == phase for each in mine)
            return mine if is_there and len(mine) == self.training.pod_count else None

        return wait_for(f"{self.name}: its pods", found)

    def end(self, admin: Client) -> None:
        """Delete the job, and wait until its quota is free."""
        admin.delete(self.body)
        wait_until(f"{self.name} is gone", partial(trees.is_gone, admin, self.body))
        wait_until(f"{self.name}: nothing is charged", lambda: not self.workload(admin))


def charged(workload: Body, device: str) -> int:
    """Return the charged number of a device."""
    assignments = workload["status"]["admission"]["podSetAssignments"]
    return sum(parse_amounts(each["resourceUsage"], "").get(device, 0) for each in assignments)


def container(pod: Body) -> Body:
    """Return the container of the ranks."""
    found: Body = next(each for each in pod["spec"]["containers"] if each["name"] == "node")
    return found
