"""Test admission checks: nodes that are provisioned for a job, and jobs that run on other clusters."""

from __future__ import annotations

from typing import Any

from generator import App, Platform
from generator.components.constructs import collect
from generator.gitops.argocd import CLUSTER_KINDS
from generator.gitops.metadata import WAVES
from generator.manifests import Body

GPUS = {"cpu": 96, "memory": "1Ti", "nvidia.com/gpu": 8}
CLOUD: dict[str, Any] = {
    "platform": "cloud",
    "release": "1.0.0",
    "pools": [
        {
            "name": "gpu",
            "nodes": 8,
            "allocatable": GPUS,
            "labels": {"pool": "gpu"},
            "provisioning": {"class": "queued-provisioning.gke.io", "parameters": {"maxRunDurationSeconds": "86400"}},
        },
        {
            "name": "burst",
            "nodes": 8,
            "allocatable": {"cpu": 64, "memory": "256Gi"},
            "labels": {"pool": "burst"},
            "provisioning": {"class": "best-effort-atomic-scale-up.autoscaling.x-k8s.io"},
        },
        {"name": "cpu", "nodes": 8, "allocatable": {"cpu": 64, "memory": "256Gi"}, "labels": {"pool": "cpu"}},
    ],
    "queues": {
        "multiKueue": {
            "clusters": [
                {"name": "west", "kubeConfigSecret": "west-kubeconfig"},
                {"name": "east", "kubeConfigSecret": "east-kubeconfig"},
            ]
        }
    },
    "tenants": [
        {"name": "team-both", "quota": {"gpu": 2, "cpu": 1}, "borrow": {"burst": 2}},
        {"name": "team-cpu", "quota": {"cpu": 2}},
        {"name": "team-away", "quota": {"gpu": 2, "cpu": 1}, "multiKueue": True},
    ],
}


def rendered(kind: str, data: dict[str, Any] | None = None) -> dict[str, Body]:
    manifests = collect(App(Platform.model_validate(data or CLOUD)))
    return {manifest.name: manifest.body for manifest in manifests if manifest.kind == kind}


def checks(queue: str) -> list[Body] | None:
    spec = rendered("ClusterQueue")[queue]["spec"]
    return spec["admissionChecksStrategy"]["admissionChecks"] if "admissionChecksStrategy" in spec else None


def test_a_queue_has_provisioning_checks_for_its_provisioned_flavors() -> None:
    """This includes flavors that it can only borrow."""
    assert checks("team-both") == [{"name": name, "onFlavors": [name]} for name in ("burst", "gpu")]
    assert checks("team-cpu") is None


def test_a_queue_without_jobs_has_no_checks() -> None:
    assert rendered("ClusterQueue")["slack"]["spec"]["resourceGroups"]
    assert checks("slack") is None


def test_a_multikueue_queue_has_no_provisioning_checks() -> None:
    """Kueue rejects both checks together, and MultiKueue per flavor.

    Source: kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go clusterQueue.inactiveReason
    """
    assert checks("team-away") == [{"name": "multikueue"}]


def test_every_referenced_check_and_its_parameters_exist() -> None:
    made = rendered("AdmissionCheck")
    asked = {check["name"] for queue in rendered("ClusterQueue") for check in checks(queue) or ()}
    assert set(made) == asked == {"gpu", "burst", "multikueue"}
    for body in made.values():
        parameters = body["spec"]["parameters"]
        assert parameters["name"] in rendered(parameters["kind"])


def test_only_pods_with_devices_wait_for_provisioned_device_nodes() -> None:
    configs = {name: body["spec"] for name, body in rendered("ProvisioningRequestConfig").items()}
    retry = {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    assert configs == {
        "gpu": {
            "provisioningClassName": "queued-provisioning.gke.io",
            "parameters": {"maxRunDurationSeconds": "86400"},
            "managedResources": ["nvidia.com/gpu"],
            "retryStrategy": retry,
        },
        "burst": {
            "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
            "retryStrategy": retry,
        },
    }


def test_worker_clusters_keep_their_declared_order() -> None:
    """Kueue's incremental dispatcher tries the first clusters first."""
    assert rendered("MultiKueueConfig")["multikueue"]["spec"] == {"clusters": ["west", "east"]}


def test_the_kubeconfig_of_a_cluster_is_in_a_secret_outside_the_release() -> None:
    clusters = rendered("MultiKueueCluster")
    assert {name: body["spec"]["clusterSource"]["kubeConfig"] for name, body in clusters.items()} == {
        name: {"location": f"{name}-kubeconfig", "locationType": "Secret"} for name in ("west", "east")
    }
    assert rendered("Secret") == {}


def test_objects_without_health_have_an_earlier_sync_wave_than_objects_that_refer_to_them() -> None:
    """Kueue activates a ClusterQueue, AdmissionCheck or MultiKueueCluster when the last object it needs is there."""
    kinds = ("MultiKueueConfig", "ProvisioningRequestConfig", "MultiKueueCluster", "AdmissionCheck", "ClusterQueue")
    configured, unhealthy = ([WAVES[kind] for kind in part] for part in (kinds[:2], kinds[2:]))
    assert max(configured) < min(unhealthy)
    assert {*unhealthy} == {max(WAVES.values())}
    assert {("kueue.x-k8s.io", kind) for kind in kinds} <= set(CLUSTER_KINDS)


def test_a_multikueue_team_uses_no_local_nodes_and_its_own_cohort() -> None:
    tenants = [
        *CLOUD["tenants"],
        {"name": "team-far", "quota": {"gpu": 20}, "borrow": {"gpu": 2}, "cohort": "far", "multiKueue": True},
    ]
    data = {**CLOUD, "tenants": tenants, "cohorts": [{"name": "far", "quota": {"gpu": 30}}, {"name": "near"}]}
    queues, cohorts = rendered("ClusterQueue", data), rendered("Cohort", data)
    assert {name: body["spec"]["cohortName"] for name, body in queues.items()} == {
        "team-both": "cloud",
        "team-cpu": "cloud",
        "slack": "cloud",
        "team-away": "cloud-multikueue",
        "team-far": "far",
    }
    assert {name: body["spec"].get("parentName") for name, body in cohorts.items()} == {
        "cloud": None,
        "near": "cloud",
        "cloud-multikueue": None,
        "far": "cloud-multikueue",
    }
    slack = {each["name"]: each["resources"] for each in queues["slack"]["spec"]["resourceGroups"][0]["flavors"]}
    assert {name: resources[0]["nominalQuota"] for name, resources in slack.items()} == {
        "burst": str(8 * 64),
        "cpu": str(5 * 64),  # of 8 nodes team-both has one, and team-cpu two
        "gpu": str(6 * 96),
    }
    assert set(rendered("Cohort")) == {"cloud", "cloud-multikueue"}


def test_a_platform_without_provisioning_or_multikueue_has_no_checks() -> None:
    pools = [{key: value for key, value in pool.items() if key != "provisioning"} for pool in CLOUD["pools"]]
    plain = {**CLOUD, "pools": pools, "queues": {}, "tenants": CLOUD["tenants"][:2]}
    assert rendered("AdmissionCheck", plain) == {}
    assert all("admissionChecksStrategy" not in body["spec"] for body in rendered("ClusterQueue", plain).values())
