"""Queues: quotas in nodes and in resources, borrowing, cohorts, and what Kueue's webhooks demand."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Platform
from generator.app import App
from generator.constructs import collect
from generator.kueue.flavors import resource_flavor
from generator.kueue.queues import cluster_queue, cohort, local_queue
from generator.quantities import parse
from tests.conftest import small_platform


def quotas(body: dict[str, Any]) -> dict[str, dict[str, tuple[str, str]]]:
    """Flavor → resource → (nominalQuota, borrowingLimit)."""
    (group,) = body["spec"]["resourceGroups"]
    return {
        flavor["name"]: {each["name"]: (each["nominalQuota"], each["borrowingLimit"]) for each in flavor["resources"]}
        for flavor in group["flavors"]
    }


def queue(platform: Platform, name: str) -> dict[str, Any]:
    (tenant,) = [tenant for tenant in platform.tenants if tenant.name == name]
    return cluster_queue(tenant, platform.pools, tenant.cohort or platform.platform)


def with_quota(**quota: Any) -> Platform:
    data = small_platform()
    data["tenants"] = [{"name": "team", "quota": {key.replace("__", "/"): share for key, share in quota.items()}}]
    return Platform.model_validate(data)


def test_nodes_of_a_pool_become_all_their_resources(platform: Platform) -> None:
    assert quotas(queue(platform, "team-a")) == {
        "cpu": {"cpu": ("254", "0"), "memory": ("1000Gi", "0"), "nvidia.com/gpu": ("0", "0")},
        "gpu": {"cpu": ("192", "96"), "memory": ("2Ti", "1Ti"), "nvidia.com/gpu": ("16", "8")},
    }


def test_a_resource_brings_the_others_along_in_proportion(platform: Platform) -> None:
    assert quotas(queue(platform, "team-b")) == {
        "gpu": {"cpu": ("48", "0"), "memory": ("512Gi", "0"), "nvidia.com/gpu": ("4", "0")}
    }


def test_resources_of_a_pool_are_taken_as_written_and_the_rest_in_proportion() -> None:
    platform = with_quota(gpu={"nvidia.com/gpu": 4, "cpu": 10})
    assert quotas(queue(platform, "team"))["gpu"] == {
        "cpu": ("10", "0"),
        "memory": ("512Gi", "0"),
        "nvidia.com/gpu": ("4", "0"),
    }


def test_every_flavor_has_the_covered_resources_in_their_order(platform: Platform) -> None:
    """kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateResourceGroups."""
    for name in ("team-a", "team-b"):
        (group,) = queue(platform, name)["spec"]["resourceGroups"]
        for flavor in group["flavors"]:
            assert [each["name"] for each in flavor["resources"]] == group["coveredResources"]


def test_a_job_without_devices_is_offered_cpu_nodes_first(platform: Platform) -> None:
    (group,) = queue(platform, "team-a")["spec"]["resourceGroups"]
    assert [flavor["name"] for flavor in group["flavors"]] == ["cpu", "gpu"]


def test_quantities_are_canonical_strings(platform: Platform) -> None:
    for resources in quotas(queue(platform, "team-a")).values():
        for pair in resources.values():
            for amount in pair:
                assert amount == str(parse(amount))


def test_a_queue_admits_its_own_namespace_only(platform: Platform) -> None:
    selector = queue(platform, "team-a")["spec"]["namespaceSelector"]
    assert selector == {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}


def test_the_local_queue_is_the_default_one_of_its_namespace(platform: Platform) -> None:
    body = local_queue(platform.tenants[0])
    assert (body["metadata"], body["spec"]["clusterQueue"]) == ({"name": "default", "namespace": "team-a"}, "team-a")


def test_every_cohort_that_a_queue_names_exists_and_leads_to_the_platforms(platform: Platform) -> None:
    bodies = [manifest.body for manifest in collect(App(platform))]
    cohorts = {body["metadata"]["name"]: body["spec"].get("parentName") for body in bodies if body["kind"] == "Cohort"}
    named = {body["spec"]["cohortName"] for body in bodies if body["kind"] == "ClusterQueue"}
    assert cohorts == {"small": None, "research": "small"}
    assert named == {"small", "research"}


def test_a_cohort_without_parent_says_nothing_of_one() -> None:
    assert cohort("root")["spec"] == {}


def test_a_flavor_names_labels_and_taints_and_adds_no_tolerations(platform: Platform) -> None:
    assert resource_flavor(platform.pool("gpu"))["spec"] == {
        "nodeLabels": {"example.com/pool": "gpu"},
        "nodeTaints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
    }
    assert resource_flavor(platform.pool("cpu"))["spec"] == {}


@pytest.mark.parametrize("name", ["team-a", "team-b"])
def test_every_flavor_of_a_queue_exists(name: str, platform: Platform) -> None:
    flavors = {resource_flavor(pool)["metadata"]["name"] for pool in platform.pools}
    assert set(quotas(queue(platform, name))) <= flavors
