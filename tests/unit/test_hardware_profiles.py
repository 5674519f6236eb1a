"""Test the objects of a platform with `cluster.openshiftAi`: hardware profiles, projects, and names of TrainJobs."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Platform
from generator.checks.run import check_text
from generator.documents.emit import BriefEmitter
from generator.manifests import Body
from generator.policies.access import tenant_roles
from generator.policies.admission.allowed import job_constants
from generator.policies.hardware_profiles import hardware_profiles
from generator.policies.namespace import namespace
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

NOTEBOOKS = "notebooks.kubeflow.org"
SERVICES = "inferenceservices.serving.kserve.io"
POOLS = [
    {
        "name": "h100",
        "nodes": 4,
        "allocatable": {"cpu": 190, "memory": "1900Gi", "nvidia.com/gpu": 8},
        "daemons": {"cpu": "1500m", "memory": "20Gi"},
        "labels": {"nvidia.com/gpu.product": "H100"},
    },
    {"name": "cpu", "nodes": 3, "allocatable": {"cpu": 16, "memory": "64Gi"}, "labels": {"example.com/pool": "cpu"}},
    {"name": "edge", "nodes": 2, "allocatable": {"cpu": 1, "memory": "4000Mi"}, "labels": {"example.com/pool": "edge"}},
]


def platform(kinds: tuple[str, ...] = (NOTEBOOKS,), *, is_on: bool = True, **tenant: Any) -> Platform:
    """Return a platform on OpenShift with one team, whose fields `tenant` changes."""
    data = {
        "platform": "ai",
        "release": "1.0.0",
        "cluster": {"distribution": "openshift", **({"openshiftAi": {"description": "Ask us."}} if is_on else {})},
        "pools": POOLS,
        "tenants": [{"name": "team-a", "quota": {"h100": 2}, **tenant}],
        "policies": {"workloads": {"kinds": list(kinds)}},
    }
    return Platform.model_validate(data)


def profiles(built: Platform) -> dict[str, Body]:
    return {body["metadata"]["name"]: body for body in hardware_profiles(built.tenants[0].homes[0], built)}


def test_a_profile_offers_up_to_a_node_and_by_default_the_share_of_one_device() -> None:
    (profile,) = profiles(platform()).values()
    assert profile["spec"] == {
        "identifiers": [
            {
                "displayName": "CPU",
                "identifier": "cpu",
                "minCount": 1,
                "maxCount": 188,
                "defaultCount": 23,
                "resourceType": "CPU",
            },
            {
                "displayName": "Memory",
                "identifier": "memory",
                "minCount": "1Gi",
                "maxCount": "1880Gi",
                "defaultCount": "235Gi",
                "resourceType": "Memory",
            },
            {
                "displayName": "nvidia.com/gpu",
                "identifier": "nvidia.com/gpu",
                "minCount": 1,
                "maxCount": 8,
                "defaultCount": 1,
                "resourceType": "Accelerator",
            },
        ],
        "scheduling": {"type": "Queue", "kueue": {"localQueueName": "default"}},
    }
    assert profile["metadata"]["namespace"] == "team-a"
    assert profile["metadata"]["annotations"] == {
        "opendatahub.io/display-name": "h100",
        "opendatahub.io/description": "At most a node of pool h100: 188 cpu, 1880Gi memory, 8 nvidia.com/gpu. Ask us.",
        "opendatahub.io/disabled": "false",
        "opendatahub.io/dashboard-feature-visibility": '["workbench"]',
    }


def test_a_small_node_limits_the_default_of_a_cpu_pool() -> None:
    """2 cores and 8 GiB are the default on a larger node."""
    made = profiles(platform(quota={"cpu": 1, "edge": 1}))
    counts = {
        name: [(each["defaultCount"], each["maxCount"]) for each in body["spec"]["identifiers"]]
        for name, body in made.items()
    }
    assert counts == {"cpu": [(2, 16), ("8Gi", "64Gi")], "edge": [(1, 1), ("3Gi", "3Gi")]}


def test_a_team_gets_the_pools_that_it_owns_or_borrows() -> None:
    assert set(profiles(platform(borrow={"cpu": 1}))) == {"h100", "cpu"}
    assert set(profiles(platform(quota={"h100": 0, "cpu": 1}))) == {"cpu"}


@pytest.mark.parametrize(
    ("kinds", "features"),
    [
        ((NOTEBOOKS,), '["workbench"]'),
        ((SERVICES,), '["model-serving"]'),
        ((NOTEBOOKS, SERVICES), '["workbench", "model-serving"]'),
    ],
    ids=["workbenches", "serving", "both"],
)
def test_the_dashboard_offers_a_profile_for_kinds_that_the_team_may_create(
    kinds: tuple[str, ...], features: str
) -> None:
    for made in (platform(kinds), platform((), workloads={"kinds": list(kinds)})):
        (profile,) = profiles(made).values()
        assert profile["metadata"]["annotations"]["opendatahub.io/dashboard-feature-visibility"] == features


@pytest.mark.parametrize(
    "made",
    [
        platform(()),
        platform(is_on=False),
        platform(retired={"reason": "moved away", "until": "2099-12-31"}),
    ],
    ids=["no workbenches", "no dashboard", "a retired team"],
)
def test_no_profile_without_a_use(made: Platform) -> None:
    assert not profiles(made)


def test_profiles_match_the_schema_of_the_operator() -> None:
    text = BriefEmitter().emit([*profiles(platform(borrow={"cpu": 1})).values()])
    checked = check_text(text.encode(), "profiles.yaml", Engine(Catalog.bundled()))
    assert (checked.findings, checked.objects) == ([], 2)
    wrong = check_text(text.replace("type: Queue", "type: Node").encode(), "profiles.yaml", Engine(Catalog.bundled()))
    assert {finding.check for finding in wrong.findings} == {"schema/rule"}


@pytest.mark.parametrize("is_on", [True, False])
def test_a_namespace_becomes_a_project_of_the_dashboard(*, is_on: bool) -> None:
    made = platform(is_on=is_on)
    labels = namespace(made.tenants[0].homes[0], "team-a", made)["metadata"]["labels"]
    assert labels.get("opendatahub.io/dashboard") == ("true" if is_on else None)
    assert labels["kueue.openshift.io/managed"] == "true"


@pytest.mark.parametrize("is_on", [True, False])
def test_users_read_profiles_and_name_their_jobs(*, is_on: bool) -> None:
    made = platform(is_on=is_on)
    roles = tenant_roles(made.isolation, features=made.features)
    reading = {
        role["metadata"]["name"]
        for role in roles
        for rule in role["rules"]
        if rule["resources"] == ["hardwareprofiles"] and rule["verbs"] == ["get", "list", "watch"]
    }
    assert reading == ({"mpigen-view", "mpigen-submit", "mpigen-edit", "mpigen-admin"} if is_on else set())
    assert ("'openshift.io/display-name'" in job_constants(made)["JOB_ANNOTATIONS"]) == is_on
