"""TrainJobs on the real node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from generator import Platform
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.kubelet.history import History, terminated
from tests.cluster.mpi.gangs import Gang
from tests.cluster.training import JOB, wait_for_queue

HOSTS = 3
_SHOWN = 25  # lines at each end of a log


@dataclass(frozen=True, slots=True)
class Submitter:
    """Submits TrainJobs as a member of the team, and deletes them.

    Attributes:
        platform: the platform of the team.
        admin: a client that may do everything.
        gangs: the submitted jobs.
    """

    platform: Platform
    admin: Client
    gangs: list[Gang] = field(default_factory=list)

    def submit(
        self,
        name: str,
        runtime: str,
        *command: str,
        hosts: int = HOSTS,
        variables: Mapping[str, str] | None = None,
        home: str = "",
    ) -> Gang:
        """Submit a TrainJob. Each argument is an attribute of `Gang`."""
        gang = Gang(self.platform, runtime, command, name, hosts, variables or {}, home)
        self.start(gang)
        return gang

    def start(self, gang: Gang) -> None:
        """Submit a job that is deleted after the test."""
        wait_for_queue(self.admin, gang.namespace)
        gang.submit(self.admin)
        self.gangs.append(gang)

    def delete_all(self) -> None:
        """Delete the submitted jobs, and wait until the kubelet has ended their pods."""
        for gang in self.gangs:
            self.admin.delete(gang.body)
        for gang in self.gangs:
            wait_until(f"{gang.name} has no pods", lambda: not pods_of(self.admin, gang))  # noqa: B023 - called at once


def pods_of(admin: Client, gang: Gang) -> list[Body]:
    """Return the current pods of a job."""
    pods = admin.items("v1", "Pod", gang.namespace)
    return [pod for pod in pods if pod["metadata"]["labels"].get(JOB) == gang.name]


def end_of(gang: Gang, admin: Client, seconds: float = 180) -> str:
    """Wait for the end of a TrainJob: Complete or Failed."""
    return wait_for(f"{gang.name} has ended", partial(gang.outcome, admin), seconds)


def jobset_of(gang: Gang, admin: Client) -> Body:
    """Return the JobSet of a job."""
    return admin.read({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": gang.body["metadata"]})


def report_of(history: History, gang: Gang) -> str:
    """Return the ends of a job's containers and the launcher's log, for the message of a failed test."""
    lines = []
    for pod in history.pods(gang):
        ends = {name: ended for name in ("prepare", "node") if (ended := terminated(pod, name)).get("exitCode")}
        lines.append(f"{pod['metadata']['name']}: {pod['status'].get('phase')} {ends or ''}")
    for launcher in history.pods(gang, "launcher")[-1:]:
        log = [f"{time:%H:%M:%S} {line[:500]}" for time, line in history.log(launcher)]
        lines += log if len(log) <= 2 * _SHOWN else [*log[:_SHOWN], "…", *log[-_SHOWN:]]
    return "\n".join(lines)


def ranks_of(history: History, launcher: Body) -> tuple[datetime, list[Body]]:
    """Return the reports of all ranks of a smoke test, and the time of the reports."""
    [(time, line)] = [(time, line) for time, line in history.log(launcher) if line.startswith("{")]
    ranks: list[Body] = json.loads(line)["ranks"]
    return time, ranks
