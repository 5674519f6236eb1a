"""TrainJobs of platforms of our own, up to their pods: everything that a kubelet would then be given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from generator import Platform, pipeline
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.gitops.argocd import is_applied
from tests.cluster import trees
from tests.cluster.argocd_order import in_order
from tests.cluster.client import Body, Client, wait_for
from tests.cluster.control_plane import FINISH
from tests.cluster.training import JOB, ROLE
from tests.cluster.trees import Deployed

_TRAINER = "trainer.kubeflow.org/v1alpha1"
_MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Gang:
    """A TrainJob, and the pods that Trainer, JobSet and Kueue make of it.

    Attributes:
        platform: whose tenant submits it.
        runtime: the name of what it runs on.
        command: what it runs.
        name: of the TrainJob.
        hosts: how many run ranks.
        variables: its own, beside the runtime's.
        home: the namespace, one of a tenant's. Default: that of the first.
        labels: labels of the TrainJob.
    """

    platform: Platform
    runtime: str
    command: Sequence[str]
    name: str
    hosts: int = 3
    variables: Mapping[str, str] = field(default_factory=dict)
    home: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """Return the namespace of the job."""
        return self.home or self.platform.tenants[0].name

    @property
    def tenant(self) -> Tenant:
        """Return the tenant of the job."""
        tenants = self.platform.tenants
        return next(tenant for tenant in tenants if self.namespace in (tenant.name, *tenant.namespaces))

    @property
    def declared(self) -> Runtime:
        """Its runtime, as the platform file says."""
        return next(runtime for runtime in self.platform.runtimes if runtime.name == self.runtime)

    @property
    def size(self) -> int:
        """Return the number of pods."""
        return self.hosts + int(self.declared.has_separate_launcher)

    @property
    def body(self) -> Body:
        """Return the TrainJob as a team member writes it."""
        trainer: Body = {"numNodes": self.hosts, "command": [*self.command]}
        if self.variables:  # an empty list would stop Kueue: it writes none, and Trainer takes that for a change
            trainer["env"] = [{"name": name, "value": value} for name, value in self.variables.items()]
        runtime = {"name": self.runtime, **({"kind": "TrainingRuntime"} if self.declared.tenants else {})}
        return {
            "apiVersion": _TRAINER,
            "kind": "TrainJob",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": {**self.labels}},
            "spec": {"runtimeRef": runtime, "trainer": trainer},
        }

    def submit(self, admin: Client) -> None:
        """Create it as a member of the team, with the team's rights only."""
        group = self.tenant.access.edit[0].removeprefix("group:")
        admin.as_group(group).create(self.body)

    def waves(self, admin: Client) -> list[list[Body]]:
        """Its pods in the order in which they start, once all are scheduled: the nodes, then the launcher.

        Raises:
            TimeoutError: that takes too long.
        """
        pods = wait_for(f"{self.name} has {self.size} pods that run", partial(self._running, admin))
        launchers = [pod for pod in pods if pod["metadata"]["labels"][ROLE] == "launcher"]
        return [sorted((pod for pod in pods if pod not in launchers), key=_hostname), launchers]

    def end(self, admin: Client, code: int | None) -> str:
        """Set the exit code of `mpirun` on the cluster, and return the TrainJob's end: Complete or Failed.

        Raises:
            TimeoutError: it became neither.
        """
        _, [launcher] = self.waves(admin)
        identity = {"apiVersion": "v1", "kind": "Pod", "metadata": launcher["metadata"]}
        if code == 0:
            change: Body = {"metadata": {"annotations": {FINISH: "yes"}}}
            admin.request("PATCH", admin.path_of(identity), change, _MERGE)
        else:
            ended = {"name": "node", "state": {"terminated": {"exitCode": code, "reason": "Error"}}}
            change = {"status": {"phase": "Failed", "containerStatuses": [{**_STATUS, **ended}]}}
            admin.request("PATCH", f"{admin.path_of(identity)}/status", change, _MERGE)
        return wait_for(f"{self.name} has ended", partial(self.outcome, admin))

    def _running(self, admin: Client) -> list[Body] | None:
        pods = admin.items("v1", "Pod", self.namespace)
        mine = [pod for pod in pods if pod["metadata"]["labels"].get(JOB) == self.name]
        running = [pod for pod in mine if pod["status"]["phase"] == "Running"]
        return running if len(running) == self.size else None

    def outcome(self, admin: Client) -> str | None:
        """Return Complete or Failed once the TrainJob has ended."""
        conditions = admin.read(self.body).get("status", {}).get("conditions") or []
        true = {found["type"] for found in conditions if found["status"] == "True"}
        return next(iter(true & {"Complete", "Failed"}), None)


def lookup(admin: Client, namespace: str, kind: str, name: str) -> Body:
    """A ConfigMap or Secret that a pod refers to."""
    metadata = {"name": name, "namespace": namespace}
    return {**admin.read({"apiVersion": "v1", "kind": kind, "metadata": metadata}), "kind": kind}


_STATUS = {"image": "", "imageID": "", "ready": False, "restartCount": 0}


def deploy(admin: Client, file: Path) -> Deployed:
    """Put a platform on the cluster: its nodes, and what mpigen makes of it."""
    platform, app = pipeline.load(file)
    tree = [found for found in pipeline.render(platform, app) if is_applied(found.file)]
    deployed = trees.deploy(admin, platform, in_order(tree))
    assert len(deployed.stored) == len(tree), [outcome.refusal for outcome in deployed.outcomes if outcome.refusal]
    return deployed


def _hostname(pod: Body) -> str:
    return str(pod["spec"]["hostname"])
