"""Test that teams with quota in only some pools have no findings about fabrics of other pools."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from generator import App, Platform, pipeline
from generator.checks import run
from generator.manifests import Manifest
from tests.random_fabrics import KINDS, platform_with

_TARGETS = {"trainer": "2.3", "kueue": "0.19"}
_ROCE = {"type": "roce", "nics": {"vendor": "15b3", "ports": ["ens8f0np0"]}, "addresses": {"range": "10.0.0.0/16"}}


def _pool(name: str, device: str, fabric: str) -> dict[str, Any]:
    allocatable = {"cpu": 96, "memory": "1Ti", device: 8}
    return {
        "name": name,
        "nodes": 4,
        "allocatable": allocatable,
        "labels": {"example.com/pool": name},
        "fabric": fabric,
    }


def _platform(tenants: list[dict[str, Any]], **of_runtimes: Any) -> Platform:
    pools = [_pool("h100", "nvidia.com/gpu", "ib"), _pool("mig", "nvidia.com/mig-3g.40gb", "ib")]
    pools += [_pool("h200", "nvidia.com/gpu", "roce")]
    return Platform.model_validate(
        {
            "platform": "example",
            "release": "1.0.0",
            "fabrics": [{"name": "ib", "server": "hgx-h100"}, {"name": "roce", **_ROCE}],
            "pools": pools,
            "runtimes": [
                {"name": f"mpi-{each['name']}", "pool": each["name"], "image": "quay.io/acme/mpi:1", **of_runtimes}
                for each in pools
            ],
            "tenants": [{"access": {"edit": [f"group:{each['name']}"]}, **each} for each in tenants],
            "gitops": {"repository": "https://git.example.com/platform.git"},
        }
    )


def _rendered(platform: Platform) -> list[Manifest]:
    tree = pipeline.render(platform, App(platform))
    return [Manifest(deepcopy(each.body), each.file, each.index) for each in tree]


def _found(platform: Platform) -> list[tuple[str, str, str]]:
    breaches = run.judge_together(_rendered(platform), _TARGETS)
    return [(manifest.name, each.check, each.message) for manifest, each in breaches if each.severity != "info"]


@pytest.mark.parametrize(
    "quota",
    [{"h100": 1}, {"mig": 1}, {"h200": 1}, {"h100": 1, "h200": 1}, {"mig": 1, "h200": 1}],
    ids="+".join,
)
def test_a_team_without_quota_in_a_pool_needs_neither_its_network_nor_its_devices(
    quota: dict[str, int],
) -> None:
    found = _found(
        _platform([{"name": "all", "quota": {"h100": 2, "mig": 2, "h200": 2}}, {"name": "some", "quota": quota}])
    )
    assert [each for each in found if each[1].startswith("fabric/") or each[1] == "quota/uncovered"] == []


def test_a_queue_without_the_devices_of_its_pool_is_reported() -> None:
    manifests = _rendered(_platform([{"name": "all", "quota": {"h100": 2, "h200": 2}}]))
    (queue,) = (each for each in manifests if each.kind == "ClusterQueue" and each.name == "all")
    (group,) = queue.body["spec"]["resourceGroups"]
    forgotten = "openshift.io/roce"
    group["coveredResources"].remove(forgotten)
    for flavor in group["flavors"]:
        flavor["resources"] = [each for each in flavor["resources"] if each["name"] != forgotten]
    breaches = [each for _, each in run.judge_together(manifests, _TARGETS)]
    assert any(each.check == "quota/uncovered" and forgotten in each.message for each in breaches)


def test_a_missing_network_of_a_team_is_reported() -> None:
    tenants = [{"name": name, "quota": {"h100": 1, "h200": 1}} for name in ("one", "two")]
    manifests = _rendered(_platform(tenants))
    kept = [each for each in manifests if (each.kind, each.name, each.namespace) != _IB_OF_TWO]
    assert len(kept) == len(manifests) - 1
    found = [each for _, each in run.judge_together(kept, _TARGETS) if each.check == "fabric/not-attached"]
    assert found
    assert all("`two`" in each.message and each.severity == "error" for each in found)


_IB_OF_TWO = ("NetworkAttachmentDefinition", "ib", "two")


def test_a_runtime_with_fabric_none_has_no_tcp_warning() -> None:
    tenants = [{"name": "all", "quota": {"h100": 2, "mig": 2, "h200": 2}}]
    manifests = _rendered(_platform(tenants, fabric="none"))
    assert [each.message for _, each in run.judge_together(manifests, _TARGETS) if each.check == _TCP] == []
    for each in manifests:
        _forget_the_purpose(each)
    assert len([each for _, each in run.judge_together(manifests, _TARGETS) if each.check == _TCP]) == 3


_TCP = "fabric/tcp-fallback"


def _forget_the_purpose(manifest: Manifest) -> None:
    if manifest.kind == "ClusterTrainingRuntime":
        for job in manifest.body["spec"]["template"]["spec"]["replicatedJobs"]:
            del job["template"]["spec"]["template"]["metadata"]["annotations"]["mpigen.dev/fabric"]


def test_a_claim_of_hosts_and_launcher_is_reported_once() -> None:
    platform = platform_with(
        KINDS["infiniband-dra"], runtimes=[{"name": "mpi", "pool": "gpu", "image": "q.io/a/mpi:1"}]
    )
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"runtimeRef": {"name": "mpi"}, "trainer": {"resourcesPerNode": {"limits": {"cpu": 8}}}},
    }
    breaches = run.judge_together([*_rendered(platform), Manifest(job, "job.yaml", 0)], _TARGETS)
    found = [each.message for _, each in breaches if each.check == "trainjob/lost-devices"]
    assert found == ["`resourcesPerNode` drops the device claims `fabric` of ClusterTrainingRuntime mpi"]
