"""Test runtimes on fabrics: requested devices, attached networks, and the variables that prevent TCP."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Cluster, Pool, Runtime
from generator.config.model.fabrics import Fabric
from generator.config.rules.runtimes import find_runtime_mistakes
from generator.runtimes.training_runtime import training_runtimes
from tests.update_runtimes import FABRICS, POOLS, wired

NETWORKS = "k8s.v1.cni.cncf.io/networks"
Body = dict[str, Any]


def pods(pool: Pool, **options: Any) -> dict[str, Body]:
    """Return the pod templates of a runtime: `node` and `launcher`."""
    runtime = Runtime.model_validate({"name": "r", "pool": pool.name, "image": "quay.io/acme/mpi:1", **options})
    (body,) = training_runtimes(runtime, pool, Cluster())
    jobs = body["spec"]["template"]["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"]["template"] for job in jobs}


def limits(pod: Body) -> Body:
    found: Body = pod["spec"]["containers"][0]["resources"]["limits"]
    return found


def variables(pool: Pool, **options: Any) -> dict[str, str]:
    """Return the variables that `mpirun` passes to the ranks."""
    launcher = pods(pool, **options)["launcher"]
    return {one["name"]: one["value"] for one in launcher["spec"]["containers"][0]["env"]}


def test_every_host_has_a_network_per_device() -> None:
    for pod in pods(wired(POOLS["nvidia"], "ib")).values():
        assert limits(pod)["openshift.io/ib"] == "8"
        assert pod["metadata"]["annotations"] == {NETWORKS: ", ".join(["ib"] * 8), "mpigen.dev/fabric": "ib"}


def test_a_host_with_fewer_devices_is_attached_to_fewer_networks() -> None:
    pod = pods(wired(POOLS["nvidia"], "ib"), resources={"openshift.io/ib": 2})["node"]
    assert limits(pod)["openshift.io/ib"] == "2"
    assert pod["metadata"]["annotations"][NETWORKS] == "ib, ib"


def test_a_host_without_a_device_of_a_rail_is_not_attached_to_it() -> None:
    pod = pods(wired(POOLS["nvidia"], "roce"), resources={"openshift.io/roce_rail0": 0})["node"]
    assert "openshift.io/roce_rail0" not in limits(pod)
    assert pod["metadata"]["annotations"][NETWORKS] == "roce-rail1"


def test_a_separate_launcher_is_not_attached_to_the_fabric() -> None:
    launcher = pods(wired(POOLS["nvidia"], "ib"), use="pytorch-mpi")["launcher"]
    assert "annotations" not in launcher["metadata"]
    assert set(limits(launcher)) == {"cpu", "memory"}


def test_a_runtime_without_the_fabric_is_annotated() -> None:
    for pod in pods(wired(POOLS["nvidia"], "ib"), fabric="none").values():
        assert pod["metadata"]["annotations"] == {"mpigen.dev/fabric": "none"}
        assert "openshift.io/ib" not in limits(pod)


def test_claims_replace_device_resources() -> None:
    for pod in pods(wired(POOLS["nvidia"], "ib-claims")).values():
        assert pod["spec"]["resourceClaims"] == [{"name": "fabric", "resourceClaimTemplateName": "ib-claims"}]
        resources = pod["spec"]["containers"][0]["resources"]
        assert resources["claims"] == [{"name": "fabric"}]
        assert set(resources["limits"]) == set(resources["requests"]) == {"cpu", "memory", "nvidia.com/gpu"}


@pytest.mark.parametrize("use", ["openmpi", "intel-mpi", "mpich"])
@pytest.mark.parametrize("fabric", ["ib", "roce", "efa"])
def test_plain_mpi_cannot_use_tcp(use: str, fabric: str) -> None:
    found = variables(wired(POOLS["cpu"], fabric), use=use)
    ways = {found.get("OMPI_MCA_pml"), found.get("UCX_TLS"), found.get("FI_PROVIDER")}
    assert ways & {"ucx", "cm", "^tcp", "mlx", "verbs", "efa"}
    assert not ways & {"tcp", "ob1"}
    assert found.get("UCX_NET_DEVICES", "eth0") == "eth0"


@pytest.mark.parametrize(("fabric", "network"), [("ib", "IB"), ("efa", "AWS Libfabric"), ("ethernet", "Socket")])
@pytest.mark.parametrize("use", ["pytorch-mpi", "deepspeed", "horovod-pytorch"])
def test_collectives_use_only_the_network_of_the_fabric(use: str, fabric: str, network: str) -> None:
    assert variables(wired(POOLS["nvidia"], fabric), use=use)["NCCL_NET"] == network


@pytest.mark.parametrize("use", ["openmpi", "intel-mpi", "mpich", "horovod-pytorch"])
@pytest.mark.parametrize("fabric", sorted(FABRICS))
def test_ranks_start_and_connect_on_the_pod_network(use: str, fabric: str) -> None:
    with_it, without = variables(wired(POOLS["cpu"], fabric), use=use), variables(POOLS["cpu"], use=use)
    control = {"OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include", "I_MPI_HYDRA_IFACE", "HYDRA_IFACE"}
    assert {name: with_it.get(name) for name in control} == {name: without.get(name) for name in control}


def test_a_fabric_with_fallback_forces_no_transport() -> None:
    forced = {"NCCL_NET", "UCX_TLS", "FI_PROVIDER", "OMPI_MCA_pml", "UCX_NET_DEVICES"}
    pool = wired(POOLS["cpu"], "ib-or-tcp")
    assert [use for use in ("openmpi", "intel-mpi", "mpich") if forced & set(variables(pool, use=use))] == []


def test_variables_of_the_platform_file_override_defaults() -> None:
    mine = {"NCCL_NET": "IBext_v8", "UCX_TLS": "rc,sm,self"}
    found = variables(wired(POOLS["nvidia"], "ib"), use="megatron", environment=mine)
    assert {name: found[name] for name in mine} == mine


@pytest.mark.parametrize(
    ("pool", "options", "says"),
    [
        (
            wired(POOLS["nvidia"], "ib"),
            {"resources": {"openshift.io/ib": 0}},
            "request no device of fabric `ib`",
        ),
        (wired(POOLS["nvidia"], "ib-claims"), {"resources": {"dra.net/ib_claims": 4}}, "`4` differs from"),
        (wired(POOLS["cpu"], "ib"), {"use": "pytorch-mpi"}, "uses TCP on CPUs, and ignores fabric `ib`"),
        (POOLS["cpu"], {"fabric": "none"}, "`none` has no effect: pool `cpu` has no fabric"),
    ],
)
def test_impossible_fabric_settings_are_rejected(pool: Pool, options: Body, says: str) -> None:
    runtime = Runtime.model_validate({"name": "r", "pool": pool.name, "image": "quay.io/acme/mpi:1", **options})
    assert [found for found in find_runtime_mistakes(runtime, pool) if says in found.message]


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=lambda fabric: fabric.name)
def test_default_fabric_settings_are_accepted(fabric: Fabric) -> None:
    pool = wired(POOLS["nvidia"], fabric.name)
    assert [*find_runtime_mistakes(Runtime(name="r", use="megatron", pool=pool.name, image="i"), pool)] == []
