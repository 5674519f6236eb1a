"""Test Kueue's configuration: the upstream ConfigMap, or the resource of OpenShift's operator."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from generator import App, Platform, pipeline
from generator.config.model.cluster import Cluster
from generator.config.model.queues import CONFIGURATION_FILE, Queues
from generator.facts.versions import minors
from generator.gitops.argocd import app_projects
from generator.kueue.configuration import KEY, configuration, kueue_object
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.conftest import small_platform

EVERYTHING: dict[str, Any] = {
    "fairSharing": True,
    "waitForPodsReady": {"timeout": "90m", "recoveryTimeout": "0s", "backoffLimit": 3},
    "manageJobsWithoutQueueName": True,
}
VERSIONS = minors("kueue")


def cluster(distribution: str, version: str = VERSIONS[0]) -> Cluster:
    return Cluster.model_validate({"distribution": distribution, "versions": {"kueue": version}})


def operator(queues: dict[str, Any], version: str = VERSIONS[0]) -> dict[str, Any]:
    """Return the configuration of OpenShift's operator."""
    config: dict[str, Any] = kueue_object(Queues.model_validate(queues), cluster("openshift", version))["spec"][
        "config"
    ]
    return config


@pytest.mark.parametrize("version", VERSIONS)
def test_the_configmap_holds_the_whole_configuration(version: str) -> None:
    queues = Queues.model_validate({**EVERYTHING, "retainFinished": "24h"})
    body = kueue_object(queues, cluster("kubernetes", version))
    assert yaml.safe_load(body["data"][KEY]) == configuration(queues, version)


def test_every_platform_setting_is_in_the_configuration() -> None:
    body = configuration(Queues.model_validate({**EVERYTHING, "retainFinished": "24h"}), VERSIONS[0])
    assert body["fairSharing"] == {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
    assert body["waitForPodsReady"] == {
        "timeout": "1h30m",
        "blockAdmission": False,
        "recoveryTimeout": "0s",
        "requeuingStrategy": {"backoffLimitCount": 3},
    }
    assert body["manageJobsWithoutQueueName"]
    assert body["objectRetentionPolicies"] == {"workloads": {"afterFinished": "24h"}}


def test_resource_transformations_are_in_the_configuration() -> None:
    wishes = {
        "excludeResourcePrefixes": ["rdma/", "ephemeral-storage", "rdma/"],
        "transformations": [
            {"input": "nvidia.com/mig-1g.10gb", "strategy": "replace", "outputs": {"example.com/gpu-memory": 10}},
            {"input": "cpu", "outputs": {"example.com/credits": 0.5}},
        ],
    }
    assert configuration(Queues.model_validate(wishes), VERSIONS[0])["resources"] == {
        "excludeResourcePrefixes": ["ephemeral-storage", "rdma/"],
        "transformations": [
            {"input": "cpu", "strategy": "Retain", "outputs": {"example.com/credits": "500m"}},
            {"input": "nvidia.com/mig-1g.10gb", "strategy": "Replace", "outputs": {"example.com/gpu-memory": "10"}},
        ],
    }
    assert "resources" not in configuration(Queues(), VERSIONS[0])


def test_only_tenant_namespaces_require_a_queue() -> None:
    held = configuration(Queues(manage_jobs_without_queue_name=True), VERSIONS[0])["managedJobsNamespaceSelector"]
    assert held == {"matchExpressions": [{"key": "mpigen.dev/tenant", "operator": "Exists"}]}
    assert "managedJobsNamespaceSelector" not in configuration(Queues(), VERSIONS[0])


@pytest.mark.parametrize("version", VERSIONS)
def test_trainjobs_are_always_an_integrated_framework(version: str) -> None:
    assert "trainer.kubeflow.org/trainjob" in configuration(Queues(), version)["integrations"]["frameworks"]
    assert "TrainJob" in operator({}, version)["integrations"]["frameworks"]


def test_the_operator_configuration_has_equivalent_fields() -> None:
    told = operator(EVERYTHING)
    assert told["preemption"] == {"preemptionPolicy": "FairSharing"}
    assert told["workloadManagement"] == {"labelPolicy": "None"}
    assert told["gangScheduling"]["byWorkload"] == {
        "admission": "Parallel",
        "timeoutSeconds": 5400,
        "recoveryTimeoutSeconds": 0,
        "requeuingStrategy": {"retryLimit": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 3600},
    }


def test_gang_scheduling_is_off_for_the_operator_of_kueue_0_18() -> None:
    assert operator({}, "0.18")["gangScheduling"] == {"policy": "None"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("distribution", ["kubernetes", "openshift"])
@pytest.mark.parametrize("queues", [{}, EVERYTHING], ids=["nothing", "everything"])
def test_the_configuration_passes_the_embedded_engine(version: str, distribution: str, queues: dict[str, Any]) -> None:
    body = kueue_object(Queues.model_validate(queues), cluster(distribution, version))
    assert Engine(Catalog.bundled({"kueue": version})).violations(body) == []


def test_the_operator_schema_rejects_unknown_fields() -> None:
    body = kueue_object(Queues(), cluster("openshift"))
    body["spec"]["config"]["gangScheduling"]["byWorkload"]["timeout"] = "30m"
    (found,) = Engine(Catalog.bundled()).violations(body) or []
    assert found.keyword == "additionalProperties"


@pytest.mark.parametrize("distribution", ["kubernetes", "openshift"])
def test_argo_cd_cannot_change_the_kueue_configuration(distribution: str) -> None:
    data = small_platform()
    data["cluster"] = {"distribution": distribution}
    platform = Platform.model_validate(data)
    tree = pipeline.render(platform, App(platform))
    (found,) = [manifest for manifest in tree if manifest.file == CONFIGURATION_FILE]
    assert platform.gitops
    for project in app_projects(platform, platform.gitops, tree):
        assert {"group": found.group, "kind": found.kind} not in project["spec"]["clusterResourceWhitelist"]
