"""Test that objects of Trainer 2.2 behave under Trainer 2.3 as `mpigen upgrade` predicts.

The controllers of the set `previous` store the objects. Then the set
`default` provides the controllers of Trainer and JobSet on the same API server and etcd.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from generator.pipeline import UpgradeRequest, upgrade
from generator.upgrade.entry import Entry
from tests.cluster.build import build
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.control_plane import Cluster, running
from tests.cluster.controllers import Controller
from tests.cluster.install import install
from tests.cluster.processes import free_ports
from tests.cluster.versions import Versions, versions
from tests.unit.test_upgrade_rows import FIXTURE

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
_TRAINER = "trainer.kubeflow.org/v1alpha1"
_JOB_SET = "jobset.x-k8s.io/v1alpha2"
_SWITCHED = ("jobset", "trainer")
_MERGE = "application/merge-patch+json"
_REJECTED = 400
_IMMUTABLE = "spec.replicatedJobs: Invalid value"
"""The start of JobSet's message. The event has no room for its end, `field is immutable`."""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A control plane after the switch of Trainer and JobSet.

    Attributes:
        admin: a client that may do everything.
        namespace: the namespace of the TrainJobs.
        entries: id → entry that `mpigen upgrade` predicted before the switch.
    """

    admin: Client
    namespace: str
    entries: Mapping[str, Entry]

    def job(self, name: str) -> Body:
        """Return the identity of a TrainJob."""
        return {"apiVersion": _TRAINER, "kind": "TrainJob", "metadata": {"name": name, "namespace": self.namespace}}

    def job_set(self, name: str) -> Body:
        """Return the identity of the JobSet of a TrainJob."""
        return {**self.job(name), "apiVersion": _JOB_SET, "kind": "JobSet"}

    def set_suspend(self, name: str, *, suspend: bool) -> None:
        """Suspend or resume a TrainJob."""
        path = self.admin.path_of(self.job(name))
        self.admin.request("PATCH", path, {"spec": {"suspend": suspend}}, _MERGE)

    def is_suspended(self, name: str) -> bool:
        """Return True if the JobSet of a TrainJob is suspended."""
        return self.admin.read(self.job_set(name))["spec"].get("suspend", False) is True

    def is_refused(self, name: str) -> bool:
        """Return True if Trainer reports that it cannot apply the JobSet of a TrainJob."""
        return any(
            event.get("reason") == "TrainJobResourcesCreationFailed" and _IMMUTABLE in json.dumps(event)
            for event in self.admin.items("events.k8s.io/v1", "Event", self.namespace)
            if event["regarding"].get("name") == name
        )

    def predicts(self, entry: str, name: str) -> bool:
        """Return True if an entry hits a TrainJob."""
        hits = self.entries[entry].hits if entry in self.entries else ()
        return f"TrainJob {self.namespace}/{name}" in {hit.resource for hit in hits}


@pytest.fixture(scope="module")
def upgraded(control_plane_versions: Versions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    """Store objects of the previous set, and switch the controllers of Trainer and JobSet."""
    del control_plane_versions  # the test starts a control plane of its own
    old, new = versions("previous"), versions("default")
    with running(old, tmp_path_factory.mktemp("upgrade")) as cluster:
        namespace = f"test-{secrets.token_hex(4)}"
        _store(cluster.admin, namespace)
        entries = _predict(cluster, new, namespace, tmp_path_factory.mktemp("export"))
        _switch(cluster, new)
        yield Upgraded(cluster.admin, namespace, entries)
        cluster.admin.connections.close()


def _store(admin: Client, namespace: str) -> None:
    """Create the TrainJobs of the situations, and wait for their JobSets."""
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    plain = json.loads(json.dumps(FIXTURE["runtime"]))
    del plain["spec"]["mlPolicy"]["mpi"]
    plain["metadata"]["name"] = "plain"
    for body in (FIXTURE["runtime"], plain):
        admin.create(body)
    reserved = {"env": [{"name": "OMPI_MCA_plm_rsh_args", "value": "-v"}]}
    jobs: Mapping[str, Body] = {
        "held": {},
        "left": {},
        "plain": {"runtimeRef": {"name": "plain"}},
        "runs": {"suspend": False},
        "reserved": {"trainer": reserved},
    }
    for name, spec in jobs.items():
        job = {**FIXTURE["job"], "metadata": {"name": name, "namespace": namespace}}
        admin.create({**job, "spec": {**FIXTURE["job"]["spec"], **spec}})
    names = set(jobs)
    wait_until(
        "Trainer creates all JobSets",
        lambda: {item["metadata"]["name"] for item in admin.items(_JOB_SET, "JobSet", namespace)} == names,
    )
    wait_until("Trainer sets its finalizers", lambda: "finalizers" in admin.read(FIXTURE["runtime"])["metadata"])


def _predict(cluster: Cluster, new: Versions, namespace: str, folder: Path) -> dict[str, Entry]:
    """Return id → entry of `mpigen upgrade` for an export of the cluster."""
    kinds = [(_TRAINER, "TrainJob"), (_JOB_SET, "JobSet"), (_TRAINER, "ClusterTrainingRuntime")]
    items = [
        {"apiVersion": version, "kind": kind, **item}
        for version, kind in kinds
        for item in cluster.admin.items(version, kind, "" if kind.startswith("Cluster") else namespace)
    ]
    (folder / "release").mkdir()
    (folder / "release" / "runtime.json").write_text(json.dumps(FIXTURE["runtime"]))
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    present = ",".join(f"{name}={cluster.versions[name].minor}" for name in (*_SWITCHED, "kueue", "kubernetes"))
    wanted = ",".join(f"{name}={new[name].minor}" for name in _SWITCHED)
    done = upgrade(UpgradeRequest(folder / "release", [wanted], [present], {"export.json": text}))
    return {entry.id: entry for entry in done.entries}


def _switch(cluster: Cluster, new: Versions) -> None:
    """End the controllers of Trainer and JobSet, and start the controllers of another set on the same API server."""
    for name in _SWITCHED:
        build(new[name])
        cluster.processes.end(name)
        _, webhooks = Controller(cluster.versions[name], 1, 1).objects(cluster.certificates.bundle)
        for webhook in webhooks:  # whose server has ended
            cluster.admin.delete(webhook)
    ports = iter(free_ports(2 * len(_SWITCHED)))
    for controller in [Controller(new[name], next(ports), next(ports)) for name in _SWITCHED]:
        objects, webhooks = controller.objects(cluster.certificates.bundle)
        install(cluster.admin, objects)
        controller.start(cluster.admin, cluster.processes, cluster.certificates)
        cluster.processes.wait(controller.program.name, controller.is_ready)
        install(cluster.admin, webhooks)


def test_a_suspended_mpi_job_cannot_resume(upgraded: Upgraded) -> None:
    assert upgraded.predicts("trainer-2-3-suspended-jobs", "held")
    upgraded.set_suspend("held", suspend=False)
    wait_until("Trainer reports the rejected JobSet", lambda: upgraded.is_refused("held"))
    assert upgraded.is_suspended("held")


def test_trainer_creates_a_deleted_job_set_with_the_new_pods(upgraded: Upgraded) -> None:
    assert upgraded.predicts("trainer-2-3-suspended-jobs", "left")
    assert "delete its JobSet" in upgraded.entries["trainer-2-3-suspended-jobs"].after
    old: Any = upgraded.admin.read(upgraded.job_set("left"))["metadata"]["uid"]
    upgraded.admin.delete(upgraded.job_set("left"))
    wait_until(
        "Trainer creates another JobSet",
        lambda: (
            upgraded.admin.exists(upgraded.job_set("left"))
            and upgraded.admin.read(upgraded.job_set("left"))["metadata"]["uid"] != old
        ),
    )
    upgraded.set_suspend("left", suspend=False)
    wait_until("its JobSet resumes", lambda: not upgraded.is_suspended("left"))


def test_a_suspended_job_with_the_same_pods_resumes(upgraded: Upgraded) -> None:
    assert not upgraded.predicts("trainer-2-3-suspended-jobs", "plain")
    upgraded.set_suspend("plain", suspend=False)
    wait_until("its JobSet resumes", lambda: not upgraded.is_suspended("plain"))


def test_a_running_mpi_job_continues_and_cannot_be_suspended(upgraded: Upgraded) -> None:
    assert upgraded.predicts("trainer-2-3-suspended-jobs", "runs")
    assert not upgraded.is_suspended("runs")
    upgraded.set_suspend("runs", suspend=True)
    wait_until("Trainer reports the rejected JobSet", lambda: upgraded.is_refused("runs"))
    assert not upgraded.is_suspended("runs")


def test_a_job_with_a_reserved_variable_cannot_be_updated(upgraded: Upgraded) -> None:
    assert upgraded.predicts("trainer-2-3-reserved-variables", "reserved")
    with pytest.raises(RefusedError) as refused:
        upgraded.set_suspend("reserved", suspend=False)
    assert refused.value.status >= _REJECTED
    assert "must not have reserved envs" in str(refused.value)


def test_trainer_removes_its_finalizers_from_runtimes(upgraded: Upgraded) -> None:
    assert "trainer-2-3-finalizers" in upgraded.entries
    wait_until(
        "Trainer removes the finalizers",
        lambda: not upgraded.admin.read(FIXTURE["runtime"])["metadata"].get("finalizers"),
    )
