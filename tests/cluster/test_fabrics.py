"""A job on a fabric has its devices, its networks and its variables, is charged for them, and does not lose them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from generator import Platform
from generator.app import App
from generator.config.workload import FABRIC
from generator.pipeline import render
from generator.simulate.amounts import requested
from tests.cluster import trees
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.nodes import add_nodes
from tests.cluster.policies import installed
from tests.cluster.training import ROLE, Training, conditions

pytestmark = pytest.mark.cluster
DEVICE, NETWORKS = "openshift.io/wired_ib", "k8s.v1.cni.cncf.io/networks"
_SOME = {"cpu": "4", "memory": "8Gi"}
_ALL = {**_SOME, DEVICE: "2"}
_QUOTA = {name: {"cpu": 60, "memory": "200Gi", f"openshift.io/{name}_ib": 4} for name in ("wired", "bare")}
_CONTROLLED = ("kubernetes", "trainer", "jobset", "kueue")


def _fabric(name: str) -> Body:
    """InfiniBand with two NICs in a node."""
    nics = {"vendor": "15b3", "device": "1021"}
    return {"name": f"{name}-ib", "type": "infiniband", "attach": "sriov", "perNode": 2, "nics": nics}


def _pool(name: str) -> Body:
    allocatable = {"cpu": 16, "memory": "64Gi"}
    labels = {"example.com/pool": name}
    return {"name": name, "nodes": 10, "allocatable": allocatable, "labels": labels, "fabric": f"{name}-ib"}


def _platform(cluster: Cluster) -> Platform:
    """Two teams with room for two hosts each, of which one is relaxed from the rule."""
    excuse = {"rule": "fabric", "reason": "to see what it is for", "until": "2099-12-31"}
    return Platform.model_validate(
        {
            "platform": "wired-platform",
            "release": "1.0.0",
            "cluster": {"versions": {name: cluster.versions[name].minor for name in _CONTROLLED}},
            "fabrics": [_fabric("wired"), _fabric("bare") | {"preflight": False}],
            "pools": [_pool("wired"), _pool("bare")],
            "runtimes": [{"name": "wired", "pool": "wired"}, {"name": "bare", "pool": "bare"}],
            "tenants": [
                {"name": "wired-team", "quota": _QUOTA, "access": {"edit": ["group:wired"]}},
                {"name": "wired-loose", "quota": _QUOTA, "access": {"edit": ["group:loose"]}, "relax": [excuse]},
            ],
        }
    )


@dataclass(frozen=True, slots=True)
class Job:
    """A TrainJob of a team on the fabric; what it asks for of each host, empty for what the runtime says."""

    training: Training
    name: str
    resources: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Body:
        """What is submitted."""
        body = self.training.body
        asked = {"limits": self.resources, "requests": self.resources}
        trainer = {**body["spec"]["trainer"], **({"resourcesPerNode": asked} if self.resources else {})}
        metadata = {**body["metadata"], "name": self.name}
        return {**body, "metadata": metadata, "spec": {**body["spec"], "trainer": trainer}}

    def submit(self, admin: Client) -> None:
        """Create it as the people of the team."""
        (group,) = self.training.tenant.access.edit
        admin.as_group(group.removeprefix("group:")).create(self.body)


@pytest.fixture(scope="module")
def platform(cluster: Cluster) -> Iterator[Platform]:
    """The platform on the cluster."""
    platform = _platform(cluster)
    operators = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sriov-network-operator"}}
    there = [*add_nodes(cluster.admin, platform), cluster.admin.apply(operators, "tests").body]
    with installed(cluster.admin, render(platform, App(platform))[0]):
        yield platform
    for body in there:
        cluster.admin.delete(body)


def _job(
    platform: Platform, tenant: str, name: str, resources: dict[str, str] | None = None, runtime: str = "wired"
) -> Job:
    team = next(each for each in platform.tenants if each.name == tenant)
    found = next(each for each in platform.runtimes if each.name == runtime)
    return Job(Training(team, found, platform.pool(runtime), 2), name, resources or {})


def _admitted(admin: Client, job: Job) -> Body:
    """Its Workload, once Kueue let it go."""

    def found() -> Body | None:
        workload = _workload(admin, job)
        return workload if _holds(workload, "Admitted") else None

    return wait_for(f"{job.name} is admitted", found)


def _workload(admin: Client, job: Job) -> Body:
    owned = admin.items("kueue.x-k8s.io/v1beta2", "Workload", job.training.tenant.name)
    return next((each for each in owned if each["metadata"]["ownerReferences"][0]["name"] == job.name), {})


def _holds(body: Body, condition: str) -> bool:
    return any(each["type"] == condition and each["status"] == "True" for each in conditions(body))


def _charged(workload: Body, device: str = DEVICE) -> int:
    """How many devices of the fabric are taken from the quota."""
    assignments = workload["status"]["admission"]["podSetAssignments"]
    return sum(requested(each["resourceUsage"], "").get(device, 0) for each in assignments)


def _pods(admin: Client, job: Job) -> list[Body]:
    """All of its pods, once they are there."""

    def found() -> list[Body] | None:
        every = admin.items("v1", "Pod", job.training.tenant.name)
        mine = [each for each in every if each["metadata"]["labels"].get("jobset.sigs.k8s.io/jobset-name") == job.name]
        return mine if len(mine) == job.training.pod_count else None

    return wait_for(f"{job.name}: its pods", found)


def _container(pod: Body) -> Body:
    found: Body = next(each for each in pod["spec"]["containers"] if each["name"] == "node")
    return found


def _ended(admin: Client, *jobs: Job) -> None:
    for job in jobs:
        admin.delete(job.body)
    for job in jobs:
        wait_until(f"{job.name} is gone", partial(trees.is_gone, admin, job.body))
        wait_until(f"{job.name}: nothing is charged", lambda job=job: not _workload(admin, job))  # type: ignore[misc]


def _is_old(cluster: Cluster) -> bool:
    return cluster.versions["trainer"].minor == "2.2"


def test_a_job_that_forgets_the_fabric_is_refused_and_told_what_to_write(platform: Platform, cluster: Cluster) -> None:
    with pytest.raises(RefusedError) as refused:
        _job(platform, "wired-team", "forgetful", _SOME).submit(cluster.admin)
    asked = f"a host of ClusterTrainingRuntime/wired has {DEVICE}: 2 (here limits: none, requests: none); write that"
    assert asked in refused.value.message
    why = "it takes the place of all that the runtime says" if _is_old(cluster) else "pods are attached to just these"
    assert why in refused.value.message
    assert "'wired-platform-fabric'" in refused.value.message


@pytest.mark.parametrize("resources", [{}, _ALL], ids=["of the runtime", "of the job"])
def test_a_job_with_the_fabric_is_charged_for_it_and_its_pods_have_devices_networks_and_variables(
    platform: Platform, admin: Client, resources: dict[str, str]
) -> None:
    job = _job(platform, "wired-team", "wired", resources)
    job.submit(admin)
    workload = _admitted(admin, job)
    assert _charged(workload) == 4
    flavors = {each["flavors"][DEVICE] for each in workload["status"]["admission"]["podSetAssignments"]}
    assert flavors == {"wired"}
    pods = _pods(admin, job)
    assert {pod["metadata"]["labels"][ROLE] for pod in pods} == {"launcher", "node"}
    for pod in pods:
        asked = _container(pod)["resources"]
        assert (asked["limits"][DEVICE], asked["requests"][DEVICE]) == ("2", "2")
        assert pod["metadata"]["annotations"][NETWORKS] == "wired-ib, wired-ib"
        assert pod["metadata"]["annotations"][FABRIC] == "wired-ib"
    (launcher,) = (pod for pod in pods if pod["metadata"]["labels"][ROLE] == "launcher")
    variables = {each["name"]: each.get("value") for each in _container(launcher)["env"]}
    assert variables["OMPI_MCA_pml"] == "ucx"
    assert "tcp" in (variables["UCX_TLS"] or "")
    assert variables["OMPI_MCA_oob_tcp_if_include"] == "eth0"
    _ended(admin, job)


def test_where_all_devices_of_the_quota_are_taken_the_next_job_waits(platform: Platform, admin: Client) -> None:
    first = _job(platform, "wired-team", "first", _ALL)
    first.submit(admin)
    _admitted(admin, first)
    second = replace(first, name="second")
    second.submit(admin)

    def said() -> str | None:
        found = [each for each in conditions(_workload(admin, second)) if each["type"] == "QuotaReserved"]
        return next((each["message"] for each in found if each["status"] == "False"), None)

    message = wait_for("Kueue says why not", said)
    assert f"insufficient unused quota for {DEVICE} in flavor wired" in message
    assert "cpu" not in message
    _ended(admin, first)
    assert _charged(_admitted(admin, second)) == 4
    _ended(admin, second)


@pytest.mark.parametrize(("runtime", "charged"), [("wired", 4), ("bare", 0)], ids=["preflight", "no preflight"])
def test_without_the_rule_hosts_lose_their_devices_or_are_not_charged_for_them(
    platform: Platform, cluster: Cluster, runtime: str, charged: int
) -> None:
    device = f"openshift.io/{runtime}_ib"
    job = _job(platform, "wired-loose", f"forgetful-{runtime}", _SOME, runtime)
    job.submit(cluster.admin)
    workload = _admitted(cluster.admin, job)
    assert _charged(workload, device) == charged
    for pod in _pods(cluster.admin, job):
        assert pod["metadata"]["annotations"][NETWORKS] == f"{runtime}-ib, {runtime}-ib"
        assert _container(pod)["resources"]["limits"].get(device) == (None if _is_old(cluster) else "2")
    _ended(cluster.admin, job)
