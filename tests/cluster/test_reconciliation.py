"""Trainer, JobSet, Kueue and the scheduler make of every example what it promises."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.client import Body, Client, wait_for
from tests.cluster.training import Training, run, trainings
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
RECORDED = Path(__file__).parent / "fixtures" / "over-quota"
Pods = dict[tuple[str, str], list[Body]]


@pytest.fixture(scope="session")
def trained(deployed: Deployed, admin: Client) -> Pods:
    """One TrainJob for each tenant on each runtime went from creation to Complete."""
    return run(admin, list(trainings(deployed.platform)))


def test_queues_are_active(deployed: Deployed, admin: Client) -> None:
    for found in deployed.stored:
        if found.kind in {"ClusterQueue", "LocalQueue"}:
            assert condition(admin, found.body, "Active")["status"] == "True", found.resource


def test_every_tenant_trains_on_every_runtime(deployed: Deployed, admin: Client, trained: Pods) -> None:
    for training in trainings(deployed.platform):
        assert len(trained[training.tenant.name, training.runtime.name]) == training.nodes
        workload = training.workload(admin)
        assert workload
        assert condition(admin, workload, "Finished")["reason"] == "Succeeded"


def test_pods_run_where_kueue_counted_them(deployed: Deployed, admin: Client, trained: Pods) -> None:
    for training in trainings(deployed.platform):
        workload = training.workload(admin)
        assert workload
        pool = training.runtime.pool
        for assignment in workload["status"]["admission"]["podSetAssignments"]:
            assert set(assignment["flavors"].values()) == {pool}
        for pod in trained[training.tenant.name, training.runtime.name]:
            assert pod["spec"]["nodeName"].rpartition("-")[0] == pool


def test_no_two_hosts_of_a_job_share_a_node(trained: Pods) -> None:
    for pods in trained.values():
        nodes = [pod["spec"]["nodeName"] for pod in pods]
        assert len(set(nodes)) == len(nodes)


def test_mpi_is_given_every_host(deployed: Deployed, admin: Client, trained: Pods) -> None:
    for training in trainings(deployed.platform):
        name = training.body["metadata"]["name"]
        metadata = {"name": f"{name}-mpi-hostfile", "namespace": training.tenant.name}
        hostfile = admin.read({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})["data"]["hostfile"]
        hosts = [line.split(".")[0] for line in hostfile.splitlines()]
        pods = trained[training.tenant.name, training.runtime.name]
        assert sorted(hosts) == sorted(pod["spec"]["hostname"] for pod in pods)


def test_a_job_over_quota_waits_and_kueue_says_why(
    deployed: Deployed, admin: Client, request: pytest.FixtureRequest
) -> None:
    """`pytest -m cluster --record` writes the reasons anew; the diff is what to review."""
    reasons = {}
    for training in trainings(deployed.platform, nodes=500):
        if training.tenant == deployed.platform.tenants[0]:
            training.submit(admin)
            reasons[training.runtime.name] = wait_for("Kueue's verdict", partial(pending, training, admin))
            admin.delete(training.body)
    file = RECORDED / f"{request.config.getoption('--control-plane')}-{deployed.name}.json"
    if request.config.getoption("--record"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(reasons, indent=2) + "\n")
    assert reasons == json.loads(file.read_text())


def pending(training: Training, admin: Client) -> Body | None:
    """The condition that keeps a Workload out, once Kueue decided."""
    workload = training.workload(admin)
    conditions = (workload or {}).get("status", {}).get("conditions") or []
    found = next((found for found in conditions if found["type"] == "QuotaReserved"), None)
    return {key: found[key] for key in ("type", "status", "reason", "message")} if found else None


def condition(admin: Client, body: Body, wanted: str) -> Body:
    """A condition of an object, once its controller set it: the others need not have waited for that."""

    def found() -> Body | None:
        conditions: list[Body] = admin.read(body).get("status", {}).get("conditions") or []
        return next((found for found in conditions if found["type"] == wanted), None)

    return wait_for(f"{body['kind']} {body['metadata']['name']} says whether it is {wanted}", found)
