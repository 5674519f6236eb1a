"""Test the files that an admin applies once: the root Application, and the settings of Argo CD."""

from __future__ import annotations

import json

import jsonschema
import pytest

from generator import Platform
from generator.checks.existing.drift import compare_with_release
from generator.facts.kinds import KINDS
from generator.facts.names import SETTINGS_FILE
from generator.facts.table import read_table
from generator.gitops.argocd import app_projects, application_set, applications
from generator.gitops.bootstrap import bootstrap_manifests, root_application, root_project, settings
from generator.gitops.health import HEALTH_CHECKS, health_settings
from generator.manifests import Body, Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.conftest import ROOT

HEALTH = read_table("health", "generator.gitops")


def with_gitops(platform: Platform, **changes: object) -> Platform:
    """Return the platform with other fields of `gitops`."""
    assert platform.gitops
    return platform.model_copy(update={"gitops": platform.gitops.model_copy(update=changes)})


def group_of(api_version: str) -> str:
    """Return the API group of an API version such as `apps/v1`."""
    group, separator, _ = api_version.rpartition("/")
    return group if separator else ""


def settings_of(platform: Platform) -> Body:
    assert platform.gitops
    return settings(platform, platform.gitops)


def test_the_table_of_health_checks_matches_its_schema() -> None:
    schema = json.loads((ROOT / "generator/gitops/health.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(HEALTH, schema)


def test_every_kind_with_a_status_is_checked_or_has_a_reason() -> None:
    catalog = Catalog.bundled()
    with_status = set()
    for row in KINDS:
        versions = [version for version, kind in catalog.entries if (kind, group_of(version)) == (row.kind, row.group)]
        texts = [catalog.read(version, row.kind) for version in versions]
        assert texts, row.kind
        if any("status" in json.loads(text or "")["properties"] for text in texts):
            with_status.add((row.group, row.kind))
    rows = [*HEALTH["checks"], *HEALTH["built_in"], *HEALTH["unchecked"]]
    listed = [(row["group"], row["kind"]) for row in rows]
    jobs = {("jobset.x-k8s.io", "JobSet"), ("trainer.kubeflow.org", "TrainJob")}
    assert len(listed) == len(set(listed))
    assert set(listed) == with_status | jobs


def test_objects_with_a_health_check_are_in_the_last_wave() -> None:
    """Argo CD waits for the health of all waves before the last one."""
    last = max(row.wave for row in KINDS)
    policies = {"AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "CiliumNetworkPolicy"}
    checked = {check.kind for check in HEALTH_CHECKS} | {row["kind"] for row in HEALTH["built_in"]}
    assert {row.kind for row in KINDS if row.kind in checked and row.wave != last} == policies


def test_the_root_application_follows_the_default_branch_and_prunes_nothing(platform: Platform) -> None:
    pinned = with_gitops(platform, revision="small/1.0.0")
    assert pinned.gitops
    body = root_application(pinned, pinned.gitops)
    assert body["spec"]["source"]["targetRevision"] == "HEAD"
    assert body["spec"]["source"]["path"] == f"output/{platform.platform}/argocd"
    assert body["spec"]["syncPolicy"]["automated"] == {"prune": False, "selfHeal": True}
    assert "finalizers" not in body["metadata"]


def test_the_root_project_permits_the_objects_of_argo_cd_and_no_others(platform: Platform) -> None:
    gitops = platform.gitops
    assert gitops
    project = root_project(platform, gitops)
    bodies = [*app_projects(platform, gitops, []), *applications(platform, gitops), application_set(platform, gitops)]
    assert {(item["kind"]) for item in project["spec"]["namespaceResourceWhitelist"]} == {
        item["kind"] for item in bodies
    }
    assert {item["metadata"]["namespace"] for item in bodies} == {project["spec"]["destinations"][0]["namespace"]}
    assert "clusterResourceWhitelist" not in project["spec"]


def test_settings_change_only_keys_of_the_platform(platform: Platform) -> None:
    body = settings_of(platform)
    assert body == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "namespace": "argocd"},
        "data": health_settings(),
    }
    granted = settings_of(with_gitops(platform, grant=True))
    assert granted["data"] == {**health_settings(), "resource.respectRBAC": "normal"}


@pytest.mark.parametrize(
    ("account", "instance"),
    [
        ("serviceaccount:argocd/argocd-application-controller", ""),
        ("serviceaccount:argocd/deployer", ""),
        ("serviceaccount:gitops/hpc-argocd-application-controller", "hpc"),
    ],
)
def test_settings_of_an_instance_of_an_operator_are_in_its_resource(
    platform: Platform, account: str, instance: str
) -> None:
    body = settings_of(with_gitops(platform, service_account=account, namespace="gitops"))
    assert body["metadata"] == {"name": instance or "argocd-cm", "namespace": "gitops"}
    assert body["kind"] == ("ArgoCD" if instance else "ConfigMap")
    if instance:
        assert body["spec"] == {"extraConfig": health_settings()}


def test_files_of_the_bootstrap_pass_the_embedded_engine(platform: Platform) -> None:
    account = "serviceaccount:gitops/hpc-argocd-application-controller"
    engine = Engine(Catalog.bundled())
    for changed in (platform, with_gitops(platform, service_account=account)):
        for item in bootstrap_manifests(changed):
            assert engine.violations(item.body) == [], item.name


def test_without_gitops_the_release_has_no_bootstrap(platform: Platform) -> None:
    assert bootstrap_manifests(platform.model_copy(update={"gitops": None})) == []


def test_other_keys_of_the_settings_of_argo_cd_are_no_drift(platform: Platform) -> None:
    (released,) = [item for item in bootstrap_manifests(platform) if item.file == SETTINGS_FILE]
    labels = {"app.kubernetes.io/part-of": "argocd"}
    others = {**released.body, "metadata": {**released.body["metadata"], "labels": labels}}
    live = {**others, "data": {**released.body["data"], "url": "https://argocd.example.com"}}
    key = "resource.customizations.health.kueue.x-k8s.io_ClusterQueue"
    changed = {**live, "data": {**live["data"], key: "return {}"}}
    assert compare_with_release([Manifest(live, "")], [released], Catalog.bundled()).drifted == []
    ((found,),) = (
        each.differences
        for each in compare_with_release([Manifest(changed, "")], [released], Catalog.bundled()).drifted
    )
    assert found.path == ("data", key)
