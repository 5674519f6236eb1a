"""Test the annotations that list the devices and variables that jobs on a fabric must keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generator import App, MpiRuntime, Platform, Runtime, pipeline
from generator.config.model.runtimes import fabric_of
from generator.config.policy_cases import load_cases
from generator.facts.env import transport_variables
from generator.facts.families import FAMILIES, FamilyName
from generator.jobs.request import JobRequest
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.admission_policies.cases import run_case
from generator.upstream.kubernetes.admission_policies.policy import PolicyCluster
from tests.conftest import EXAMPLES, small_platform
from tests.offers import job_of

_FABRICS: dict[str, dict[str, Any]] = {
    "infiniband": {"operator": "none", "perNode": 8},
    "roce": {"operator": "none", "perNode": 2, "addresses": {"range": "10.0.0.0/16"}},
    "efa": {"perNode": 32},
    "ethernet": {"operator": "none", "nics": {"ports": ["eth1"]}, "addresses": {"range": "10.0.0.0/16"}},
}


def _platform(runtimes: list[dict[str, Any]], **fabric: Any) -> Platform:
    data = small_platform()
    data["fabrics"] = [{"name": "fast", **_FABRICS[fabric.get("type", "infiniband")], "type": "infiniband", **fabric}]
    for pool in data["pools"]:
        pool["fabric"] = "fast"
    data["runtimes"] = [{"pool": "gpu", "image": "quay.io/acme/a:1", **each} for each in runtimes]
    return Platform.model_validate(data)


def _said(tree: list[Manifest], parameter: str) -> list[str]:
    """Return an annotation of the namespace team-a as a list."""
    home = next(found for found in tree if (found.kind, found.name) == ("Namespace", "team-a"))
    text = home.body["metadata"]["annotations"].get(f"mpigen.dev/{parameter}", "")
    return [each for each in text.split(",") if each]


def _has_rule(tree: list[Manifest]) -> bool:
    return any(found.name == "small-fabric" for found in tree)


def _rendered(platform: Platform) -> list[Manifest]:
    return pipeline.render(platform, App(platform))


def test_devices_are_listed_with_their_count_per_host() -> None:
    tree = _rendered(_platform([{"name": "mpi"}]))
    assert _said(tree, "fabrics") == ["ClusterTrainingRuntime/mpi=openshift.io/fast=8"]


def test_every_rail_is_a_separate_device() -> None:
    tree = _rendered(_platform([{"name": "mpi"}], type="roce"))
    rails = ["openshift.io/fast_rail0=1", "openshift.io/fast_rail1=1"]
    assert _said(tree, "fabrics") == [f"ClusterTrainingRuntime/mpi={rail}" for rail in rails]


def test_a_runtime_with_fewer_devices_lists_its_own_count() -> None:
    tree = _rendered(_platform([{"name": "mpi", "resources": {"openshift.io/fast": "2"}}]))
    assert _said(tree, "fabrics") == ["ClusterTrainingRuntime/mpi=openshift.io/fast=2"]


def test_hosts_of_a_separate_launcher_need_no_device_rule() -> None:
    tree = _rendered(_platform([{"name": "mpi", "launcher": "separate"}]))
    assert _said(tree, "fabrics") == []
    assert "ClusterTrainingRuntime/mpi=UCX_TLS" in _said(tree, "fabric-variables")
    assert _has_rule(tree)


def test_a_runtime_without_the_fabric_gets_no_rule() -> None:
    tree = _rendered(_platform([{"name": "mpi", "fabric": "none"}]))
    assert _said(tree, "fabrics") + _said(tree, "fabric-variables") == []
    assert not _has_rule(tree)


def test_ranks_with_fallback_may_use_tcp() -> None:
    tree = _rendered(_platform([{"name": "mpi"}], fallback=True))
    assert _said(tree, "fabric-variables") == []
    assert _has_rule(tree)  # of devices


def test_a_runtime_of_an_admin_is_listed() -> None:
    platform = _platform([])
    app = App(platform)
    MpiRuntime(app, "own", runtime=Runtime(name="own", pool="gpu", image="quay.io/acme/a:1"))
    tree = pipeline.render(platform, app)
    assert _said(tree, "fabrics") == ["ClusterTrainingRuntime/own=openshift.io/fast=8"]
    assert _has_rule(tree)


@pytest.mark.parametrize("kind", _FABRICS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_transport_variables(family: FamilyName, kind: str) -> None:
    pool = "cpu" if FAMILIES[family].framework == "mpi" else "gpu"
    platform = _platform([{"name": "a", "use": family, "pool": pool}], type=kind)
    found = _said(_rendered(platform), "fabric-variables")
    assert [each.split("=")[0] for each in found] == ["ClusterTrainingRuntime/a"] * len(found)
    assert found


@pytest.mark.parametrize("name", ["eks-p5", "openshift-h100", "roce-h200"])
def test_benchmark_jobs_pass_the_fabric_rule(name: str) -> None:
    platform, app = pipeline.load(EXAMPLES[name])
    tree = pipeline.render(platform, app)
    for tenant in platform.tenants:
        for fabric in platform.fabrics:
            runtimes = [each for each in platform.runtimes if fabric_of(each, platform.pool(each.pool)) == fabric]
            for runtime in runtimes:
                wanted = JobRequest(runtime.name, tenant.name, is_smoke=True, fabric=fabric.name, owner="ada")
                body = {**job_of(platform, wanted).body}
                body["metadata"] |= {"labels": {"kueue.x-k8s.io/queue-name": "default"}}
                cases = {"as": "ada", "cases": [{"name": "it", "create": body, "expect": "accepted"}]}
                (case,) = load_cases(Path("cases.yaml"), json.dumps(cases).encode())
                assert run_case(case, PolicyCluster(tree, Catalog.bundled())).complaint == ""
            assert runtimes


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({"NCCL_NET": "IB", "NCCL_SOCKET_IFNAME": "=eth0", "OMPI_MCA_pml": "ob1"}, ["NCCL_IB_DISABLE", "NCCL_NET"]),
        ({"NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "=net1,net2"}, ["NCCL_SOCKET_IFNAME"]),
        ({"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"}, []),
        ({"FI_PROVIDER": "mlx"}, ["FI_PROVIDER", "I_MPI_OFI_PROVIDER"]),
        ({"OMP_NUM_THREADS": "4", "A": "net1"}, []),
    ],
)
def test_variables_that_select_tcp_are_not_protected(environment: dict[str, str], names: list[str]) -> None:
    assert transport_variables(environment) == names
