"""Test queues: quotas in nodes and in resources, borrowing, cohorts, and the requirements of Kueue's webhooks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from generator import App, Platform
from generator.components.constructs import collect
from generator.kueue.flavors import resource_flavor
from generator.kueue.queues import cluster_queue, cohorts, local_queues
from generator.quantities import parse
from tests.conftest import small_platform


def quotas(body: dict[str, Any]) -> dict[str, dict[str, tuple[str, str]]]:
    """Return flavor → resource → (nominalQuota, borrowingLimit)."""
    (group,) = body["spec"]["resourceGroups"]
    return {
        flavor["name"]: {each["name"]: (each["nominalQuota"], each["borrowingLimit"]) for each in flavor["resources"]}
        for flavor in group["flavors"]
    }


def queue(platform: Platform, name: str) -> dict[str, Any]:
    (tenant,) = [tenant for tenant in platform.tenants if tenant.name == name]
    return cluster_queue(tenant, platform)


def with_quota(**quota: Any) -> Platform:
    data = small_platform()
    data["tenants"] = [{"name": "team", "quota": {key.replace("__", "/"): share for key, share in quota.items()}}]
    return Platform.model_validate(data)


def test_a_quota_in_nodes_includes_all_their_resources(platform: Platform) -> None:
    assert quotas(queue(platform, "team-a")) == {
        "cpu": {"cpu": ("254", "0"), "memory": ("1000Gi", "0"), "nvidia.com/gpu": ("0", "0")},
        "gpu": {"cpu": ("192", "96"), "memory": ("2Ti", "1Ti"), "nvidia.com/gpu": ("16", "8")},
    }


def test_a_quota_in_one_resource_adds_the_others_in_proportion(platform: Platform) -> None:
    assert quotas(queue(platform, "team-b")) == {
        "gpu": {"cpu": ("48", "0"), "memory": ("512Gi", "0"), "nvidia.com/gpu": ("4", "0")}
    }


def test_quotas_are_in_the_resources_that_kueue_counts() -> None:
    data = small_platform()
    data["queues"] = {
        "excludeResourcePrefixes": ["mem"],
        "transformations": [{"input": "nvidia.com/gpu", "strategy": "replace", "outputs": {"example.com/memory": 80}}],
    }
    data["tenants"] = [
        {"name": "nodes", "quota": {"gpu": 1}},
        {"name": "part", "quota": {"example.com/memory": 160}},
    ]
    platform = Platform.model_validate(data)
    assert quotas(queue(platform, "nodes")) == {"gpu": {"cpu": ("96", "0"), "example.com/memory": ("640", "0")}}
    assert quotas(queue(platform, "part")) == {"gpu": {"cpu": ("24", "0"), "example.com/memory": ("160", "0")}}
    (slack,) = [each.body for each in collect(App(platform)) if each.name == "slack"]
    first, second = slack["spec"]["resourceGroups"][0]["flavors"]
    assert [first["name"], second["name"]] == ["cpu", "gpu"]  # jobs without a device come to those with devices last
    (flavor,) = [each.body for each in collect(App(platform)) if (each.kind, each.name) == ("ResourceFlavor", "gpu")]
    assert json.loads(flavor["metadata"]["annotations"]["mpigen.dev/allocatable"])["nvidia.com/gpu"] == "8"


def test_listed_resources_of_a_quota_are_exact_and_the_rest_in_proportion() -> None:
    platform = with_quota(gpu={"nvidia.com/gpu": 4, "cpu": 10})
    assert quotas(queue(platform, "team"))["gpu"] == {
        "cpu": ("10", "0"),
        "memory": ("512Gi", "0"),
        "nvidia.com/gpu": ("4", "0"),
    }


def test_every_flavor_has_the_covered_resources_in_order(platform: Platform) -> None:
    """kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go validateResourceGroups."""
    for name in ("team-a", "team-b"):
        (group,) = queue(platform, name)["spec"]["resourceGroups"]
        for flavor in group["flavors"]:
            assert [each["name"] for each in flavor["resources"]] == group["coveredResources"]


def test_cpu_flavors_come_before_device_flavors(platform: Platform) -> None:
    (group,) = queue(platform, "team-a")["spec"]["resourceGroups"]
    assert [flavor["name"] for flavor in group["flavors"]] == ["cpu", "gpu"]


def test_quantities_are_canonical_strings(platform: Platform) -> None:
    for resources in quotas(queue(platform, "team-a")).values():
        for pair in resources.values():
            for amount in pair:
                assert amount == str(parse(amount))


def test_a_queue_admits_only_its_own_namespace(platform: Platform) -> None:
    selector = queue(platform, "team-a")["spec"]["namespaceSelector"]
    assert selector == {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}


def test_the_local_queue_is_the_default_of_its_namespace(platform: Platform) -> None:
    (body,) = local_queues(platform.tenants[0])
    assert (body["metadata"], body["spec"]["clusterQueue"]) == ({"name": "default", "namespace": "team-a"}, "team-a")


def test_every_referenced_cohort_exists_below_the_platform_cohort(platform: Platform) -> None:
    bodies = [manifest.body for manifest in collect(App(platform))]
    cohorts = {body["metadata"]["name"]: body["spec"].get("parentName") for body in bodies if body["kind"] == "Cohort"}
    named = {body["spec"]["cohortName"] for body in bodies if body["kind"] == "ClusterQueue"}
    assert cohorts == {"small": None, "research": "small"}
    assert named == {"small", "research"}


def test_the_platform_cohort_has_no_parent(platform: Platform) -> None:
    assert next(cohorts(platform))["spec"] == {}


def test_a_flavor_has_labels_and_taints_and_no_tolerations(platform: Platform) -> None:
    assert resource_flavor(platform.pool("gpu"))["spec"] == {
        "nodeLabels": {"example.com/pool": "gpu"},
        "nodeTaints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
    }
    assert resource_flavor(platform.pool("cpu"))["spec"] == {}


@pytest.mark.parametrize("name", ["team-a", "team-b"])
def test_every_flavor_of_a_queue_exists(name: str, platform: Platform) -> None:
    flavors = {resource_flavor(pool)["metadata"]["name"] for pool in platform.pools}
    assert set(quotas(queue(platform, name))) <= flavors


CAMPUS: dict[str, Any] = {
    "platform": "campus",
    "release": "1.0.0",
    "pools": [
        {
            "name": "gpu",
            "nodes": 8,
            "allocatable": {"cpu": 64, "memory": "512Gi", "nvidia.com/gpu": 8},
            "daemons": {"cpu": 2, "memory": "8Gi"},
            "labels": {"example.com/pool": "gpu"},
            "taints": [{"key": "nvidia.com/gpu"}],
            "topology": ["example.com/rack", "kubernetes.io/hostname"],
        },
        {"name": "cpu", "nodes": 4, "allocatable": {"cpu": 64, "memory": "256Gi"}, "labels": {"example.com/pool": "c"}},
    ],
    "queues": {"fairSharing": True},
    "cohorts": [
        {"name": "faculty", "borrow": {"gpu": 2}},
        {"name": "department", "parent": "faculty", "quota": {"gpu": 1}, "lend": {"gpu": 1}, "weight": 2},
    ],
    "tenants": [
        {"name": "team", "cohort": "department", "quota": {"gpu": 2}, "borrow": {"gpu": 3}},
        {"name": "other", "quota": {"cpu": 4}},
    ],
}


def campus(**team: Any) -> Platform:
    """Return a platform with nested cohorts and more settings of its team."""
    return Platform.model_validate(CAMPUS | {"tenants": [CAMPUS["tenants"][0] | team, CAMPUS["tenants"][1]]})


def spec(platform: Platform, kind: str, name: str) -> dict[str, Any]:
    """Return the spec of a rendered object."""
    bodies = [manifest.body for manifest in collect(App(platform))]
    (found,) = [body for body in bodies if (body["kind"], body["metadata"]["name"]) == (kind, name)]
    said: dict[str, Any] = found["spec"]
    return said


def limits(spec: dict[str, Any], limit: str) -> dict[str, str | None]:
    """Return flavor → the given limit of its GPUs."""
    (group,) = spec["resourceGroups"]
    at = group["coveredResources"].index("nvidia.com/gpu")
    return {flavor["name"]: flavor["resources"][at].get(limit) for flavor in group["flavors"]}


def test_cohorts_are_nested_below_the_platform_cohort() -> None:
    parents = {name: spec(campus(), "Cohort", name).get("parentName") for name in ("campus", "faculty", "department")}
    assert parents == {"campus": None, "faculty": "campus", "department": "faculty"}


def test_a_cohort_borrows_only_in_the_declared_pools() -> None:
    faculty = spec(campus(), "Cohort", "faculty")
    assert limits(faculty, "borrowingLimit") == {"cpu": "0", "gpu": "16"}
    assert limits(faculty, "nominalQuota") == {"cpu": "0", "gpu": "0"}
    assert limits(faculty, "lendingLimit") == {"cpu": None, "gpu": None}


def test_a_cohort_has_its_own_quota_lending_limit_and_weight() -> None:
    department = spec(campus(), "Cohort", "department")
    assert limits(department, "nominalQuota") == limits(department, "lendingLimit") == {"cpu": "0", "gpu": "8"}
    assert limits(department, "borrowingLimit") == {"cpu": None, "gpu": None}
    assert department["fairSharing"] == {"weight": "2"}


def test_a_quota_in_nodes_excludes_reserved_resources() -> None:
    (group,) = spec(campus(), "ClusterQueue", "team")["resourceGroups"]
    assert {each["name"]: each["nominalQuota"] for each in group["flavors"][0]["resources"]} == {
        "cpu": "124",
        "memory": "1008Gi",
        "nvidia.com/gpu": "16",
    }


def test_unassigned_quota_is_lent_by_a_queue_without_jobs() -> None:
    slack = spec(campus(), "ClusterQueue", "slack")
    assert "namespaceSelector" not in slack
    assert limits(slack, "nominalQuota") == {"gpu": "40"}
    assert limits(slack, "lendingLimit") == {"gpu": None}


def test_unassigned_quota_is_not_lent_without_slack() -> None:
    queues = {"slack": False, "fairSharing": True}
    bodies = [manifest.body for manifest in collect(App(Platform.model_validate(CAMPUS | {"queues": queues})))]
    assert "slack" not in {body["metadata"]["name"] for body in bodies}


def test_a_team_lends_all_its_quota_or_the_declared_amount() -> None:
    assert limits(spec(campus(), "ClusterQueue", "team"), "lendingLimit") == {"gpu": None}
    assert limits(spec(campus(lend={"gpu": 1}), "ClusterQueue", "team"), "lendingLimit") == {"gpu": "8"}
    assert limits(spec(campus(lend={}), "ClusterQueue", "team"), "lendingLimit") == {"gpu": "0"}


@pytest.mark.parametrize(
    ("intent", "within", "reclaim"),
    [
        ("never", "Never", "Never"),
        ("lower-priority", "LowerPriority", "LowerPriority"),
        ("reclaim", "LowerPriority", "Any"),
    ],
)
def test_preemption_follows_the_declared_policy(intent: str, within: str, reclaim: str) -> None:
    assert spec(campus(preemption=intent), "ClusterQueue", "team")["preemption"] == {
        "withinClusterQueue": within,
        "reclaimWithinCohort": reclaim,
        "borrowWithinCohort": {"policy": "Never"},
    }


@pytest.mark.parametrize(("stop", "policy"), [("none", "None"), ("hold", "Hold"), ("drain", "HoldAndDrain")])
def test_a_queue_can_be_stopped(stop: str, policy: str) -> None:
    assert spec(campus(stop=stop), "ClusterQueue", "team")["stopPolicy"] == policy


def test_a_reservation_adds_quota_and_its_last_day_as_an_annotation() -> None:
    until = {"name": "neurips", "quota": {"gpu": 1}, "until": "2027-05-01", "reason": "the deadline"}
    platform = campus(reservations=[until])
    body = cluster_queue(next(each for each in platform.tenants if each.name == "team"), platform)
    assert limits(body["spec"], "nominalQuota") == {"gpu": "24"}
    assert body["metadata"]["annotations"] == {"mpigen.dev/reservations": '{"neurips": "2027-05-01"}'}
    assert limits(spec(platform, "ClusterQueue", "slack"), "nominalQuota") == {"gpu": "32"}


def test_a_pool_with_a_topology_has_its_own_topology_object() -> None:
    platform = campus()
    assert spec(platform, "ResourceFlavor", "gpu")["topologyName"] == "gpu"
    assert spec(platform, "Topology", "gpu")["levels"] == [
        {"nodeLabel": "example.com/rack"},
        {"nodeLabel": "kubernetes.io/hostname"},
    ]
    assert "topologyName" not in spec(platform, "ResourceFlavor", "cpu")


def test_a_flavor_has_its_number_of_nodes_and_allocatable_as_annotations() -> None:
    assert resource_flavor(campus().pool("gpu"))["metadata"]["annotations"] == {
        "mpigen.dev/nodes": "8",
        "mpigen.dev/allocatable": '{"cpu": "62", "memory": "504Gi", "nvidia.com/gpu": "8"}',
    }


def test_priorities_are_workload_priority_classes_only() -> None:
    bodies = [manifest.body for manifest in collect(App(campus()))]
    values = {body["metadata"]["name"]: body["value"] for body in bodies if body["kind"] == "WorkloadPriorityClass"}
    assert values == {"production": 1000, "interactive": 500, "research": 100, "best-effort": -100}
    assert not [body for body in bodies if body["kind"] == "PriorityClass"]


def test_all_namespaces_of_a_team_share_its_queue_and_settings() -> None:
    platform = campus(namespaces=["team-dev"], access={"edit": ["group:team"]})
    tree = collect(App(platform))
    mine = {
        name: sorted((found.kind, found.name) for found in tree if found.namespace == name)
        for name in ("team", "team-dev")
    }
    assert [row for row in mine["team"] if row != ("ConfigMap", "mpigen-team")] == mine["team-dev"]
    (queue,) = [found.body for found in tree if (found.kind, found.name) == ("ClusterQueue", "team")]
    assert queue["spec"]["namespaceSelector"] == {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team", "team-dev"]},
        ]
    }
    doors = {found.namespace: found.body["spec"]["clusterQueue"] for found in tree if found.kind == "LocalQueue"}
    assert doors == {"team": "team", "team-dev": "team", "other": "other"}
    labels = {found.name: found.body["metadata"]["labels"] for found in tree if found.kind == "Namespace"}
    assert labels["team-dev"]["mpigen.dev/tenant"] == "team"


def test_a_team_runtime_is_in_all_its_namespaces() -> None:
    data = CAMPUS | {"tenants": [CAMPUS["tenants"][0] | {"namespaces": ["team-dev"]}, CAMPUS["tenants"][1]]}
    data |= {"runtimes": [{"name": "own", "pool": "cpu", "tenants": ["team"]}]}
    tree = collect(App(Platform.model_validate(data)))
    runtimes = {found.namespace: found.file for found in tree if found.kind == "TrainingRuntime"}
    assert runtimes == {"team": "tenants/team/runtimes/own.yaml", "team-dev": "tenants/team/runtimes/own.yaml"}
