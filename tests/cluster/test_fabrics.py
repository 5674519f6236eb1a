"""Test that a job on a fabric gets and is charged for its devices, networks and variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from generator import App, Platform
from generator.facts.names import FABRIC
from generator.pipeline import render
from tests.cluster.client import Body, Client, RefusedError
from tests.cluster.control_plane import Cluster
from tests.cluster.nodes import add_nodes
from tests.cluster.policies import installed
from tests.cluster.training import ROLE
from tests.cluster.wired import WiredJob, charged, container

pytestmark = pytest.mark.cluster
DEVICE, NETWORKS = "openshift.io/wired_ib", "k8s.v1.cni.cncf.io/networks"
_SOME = {"cpu": "4", "memory": "8Gi"}
_ALL = {**_SOME, DEVICE: "2"}
_QUOTA = {name: {"cpu": 60, "memory": "200Gi", f"openshift.io/{name}_ib": 4} for name in ("wired", "bare")}
_CONTROLLED = ("kubernetes", "trainer", "jobset", "kueue")


def _fabric(name: str) -> Body:
    """Return an InfiniBand fabric with two NICs per node."""
    nics = {"vendor": "15b3", "device": "1021"}
    return {"name": f"{name}-ib", "type": "infiniband", "attach": "sriov", "perNode": 2, "nics": nics}


def _pool(name: str) -> Body:
    allocatable = {"cpu": 16, "memory": "64Gi"}
    labels = {"example.com/pool": name}
    return {"name": name, "nodes": 10, "allocatable": allocatable, "labels": labels, "fabric": f"{name}-ib"}


def _platform(cluster: Cluster) -> Platform:
    """Return two teams with room for two hosts each, one of them exempt from the fabric rule."""
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


@pytest.fixture(scope="module")
def platform(cluster: Cluster) -> Iterator[Platform]:
    """Deploy the platform."""
    platform = _platform(cluster)
    operators = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sriov-network-operator"}}
    there = [*add_nodes(cluster.admin, platform), cluster.admin.apply(operators, "tests").body]
    with installed(cluster.admin, render(platform, App(platform))):
        yield platform
    for body in there:
        cluster.admin.delete(body)


def _is_old(cluster: Cluster) -> bool:
    return cluster.versions["trainer"].minor == "2.2"


def test_a_job_without_the_fabric_devices_is_rejected_with_the_missing_lines(
    platform: Platform, cluster: Cluster
) -> None:
    with pytest.raises(RefusedError) as refused:
        WiredJob.of(platform, "wired-team", "wired", "forgetful", _SOME).submit(cluster.admin)
    asked = f"each worker pod of ClusterTrainingRuntime/wired has {DEVICE}: 2"
    assert f"{asked} (this TrainJob has limits: none, requests: none); set" in refused.value.message
    why = (
        "resourcesPerNode replaces all resources" if _is_old(cluster) else "pods are attached to exactly these devices"
    )
    assert why in refused.value.message
    assert "'wired-platform-fabric'" in refused.value.message


@pytest.mark.parametrize("resources", [{}, _ALL], ids=["of the runtime", "of the job"])
def test_a_job_on_the_fabric_is_charged_and_gets_devices_networks_and_variables(
    platform: Platform, admin: Client, resources: dict[str, str]
) -> None:
    job = WiredJob.of(platform, "wired-team", "wired", "wired", resources)
    job.submit(admin)
    workload = job.admitted(admin)
    assert charged(workload, DEVICE) == 4
    assert {each["flavors"][DEVICE] for each in workload["status"]["admission"]["podSetAssignments"]} == {"wired"}
    pods = job.pods(admin, "Running")
    assert {pod["metadata"]["labels"][ROLE] for pod in pods} == {"launcher", "node"}
    for pod in pods:
        asked = container(pod)["resources"]
        assert (asked["limits"][DEVICE], asked["requests"][DEVICE]) == ("2", "2")
        assert pod["metadata"]["annotations"][NETWORKS] == "wired-ib, wired-ib"
        assert pod["metadata"]["annotations"][FABRIC] == "wired-ib"
    (launcher,) = (pod for pod in pods if pod["metadata"]["labels"][ROLE] == "launcher")
    variables = {each["name"]: each.get("value", "") for each in container(launcher)["env"]}
    assert (
        variables.items() >= {"OMPI_MCA_pml": "ucx", "UCX_TLS": "^tcp", "OMPI_MCA_oob_tcp_if_include": "eth0"}.items()
    )
    job.end(admin)


def test_a_job_waits_if_all_devices_of_the_quota_are_in_use(platform: Platform, admin: Client) -> None:
    first = WiredJob.of(platform, "wired-team", "wired", "first", _ALL)
    first.submit(admin)
    first.admitted(admin)
    second = replace(first, name="second")
    second.submit(admin)
    said = second.obstacle(admin)
    assert f"insufficient unused quota for {DEVICE} in flavor wired" in said
    assert "cpu" not in said
    first.end(admin)
    assert charged(second.admitted(admin), DEVICE) == 4
    second.end(admin)


@pytest.mark.parametrize(("runtime", "counted"), [("wired", 4), ("bare", 0)], ids=["preflight", "no preflight"])
def test_hosts_exempt_from_the_rule_lose_their_devices_or_are_not_charged(
    platform: Platform, cluster: Cluster, runtime: str, counted: int
) -> None:
    device = f"openshift.io/{runtime}_ib"
    job = WiredJob.of(platform, "wired-loose", runtime, f"forgetful-{runtime}", _SOME)
    job.submit(cluster.admin)
    assert charged(job.admitted(cluster.admin), device) == counted
    for pod in job.pods(cluster.admin):
        assert pod["metadata"]["annotations"][NETWORKS] == f"{runtime}-ib, {runtime}-ib"
        assert container(pod)["resources"]["limits"].get(device) == (None if _is_old(cluster) else "2")
    job.end(cluster.admin)
