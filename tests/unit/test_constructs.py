"""Test the bridge to cdk8s: our constructs in our app and in a plain one, and additional objects of admins."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import cdk8s
import constructs
import jsii
import pytest
import yaml

from generator import App, Component, Manifest, MpiRuntime, Platform, Runtime, pipeline
from generator.components.app import Tenancy, TenantQueue
from generator.components.constructs import collect, place_api_object
from generator.errors import ConfigError

POLICY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "closed", "namespace": "team-a", "labels": {"a/b": "c~d"}},
    "spec": {"podSelector": {}, "policyTypes": [], "ingress": []},
}


def config_map(name: str, **metadata: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"k": "v"}}


def test_a_component_in_our_app_is_collected_unchanged(platform: Platform) -> None:
    app = App(platform)
    mine = Manifest(POLICY, "site/closed.yaml")
    Component(app, "mine", [mine])
    assert mine in collect(app)


def test_a_plain_app_writes_components_as_api_objects(platform: Platform, tmp_path: Path) -> None:
    app = cdk8s.App(outdir=str(tmp_path))
    tenant = platform.tenants[0]
    components = [
        Tenancy(app, "tenancy", platform=platform, tenant=tenant),
        TenantQueue(app, "queue", platform=platform, tenant=tenant),
        MpiRuntime(app, "runtime", runtime=Runtime(name="mine", pool="cpu"), platform=platform),
    ]
    app.synth()
    written = [body for file in tmp_path.glob("*.yaml") for body in yaml.safe_load_all(file.read_text())]
    ours = [manifest.body for component in components for manifest in component.manifests]
    assert sorted(map(str, written)) == sorted(map(str, ours))


def test_a_plain_app_is_collected_like_ours(platform: Platform) -> None:
    plain = cdk8s.App()
    component = Tenancy(plain, "tenancy", platform=platform, tenant=platform.tenants[0])
    place_api_object(cdk8s.Chart(plain, "site"), "map", config_map("extra"))
    assert [manifest.identity for manifest in collect(plain)] == [
        *(manifest.identity for manifest in component.manifests),
        ("", "ConfigMap", "", "extra"),
    ]


def test_a_runtime_in_a_plain_app_requires_a_platform() -> None:
    with pytest.raises(ValueError, match="pass platform="):
        MpiRuntime(cdk8s.App(), "runtime", runtime=Runtime(name="mine", pool="cpu"))


def test_empty_mappings_and_lists_survive_cdk8s() -> None:
    app = cdk8s.App()
    place_api_object(cdk8s.Chart(app, "site"), "policy", POLICY)
    assert [manifest.body for manifest in collect(app)] == [POLICY]


def test_api_objects_are_written_to_a_folder_per_namespace(platform: Platform) -> None:
    app = App(platform)
    chart = cdk8s.Chart(app, "site")
    place_api_object(chart, "here", config_map("a", namespace="team-a"))
    place_api_object(chart, "there", config_map("b"))
    files = {manifest.name: manifest.file for manifest in collect(app) if manifest.name in ("a", "b")}
    assert files == {"a": "custom/team-a/configmap-a.yaml", "b": "custom/cluster/configmap-b.yaml"}


def test_an_api_object_inside_a_component_is_collected(platform: Platform) -> None:
    class WithExtra(MpiRuntime):
        def __init__(self, scope: constructs.Construct, name: str) -> None:
            super().__init__(scope, name, runtime=Runtime(name=name, pool="cpu"))
            place_api_object(cdk8s.Chart(self, "chart"), "map", config_map("inside"))

    app = App(platform)
    WithExtra(app, "mine")
    names = [manifest.name for manifest in collect(app)]
    assert "mine" in names
    assert "inside" in names


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({**POLICY, "spec": {"since": dt.date(2026, 1, 1)}}, "not plain data"),
        ({**POLICY, "spec": {"x": float("nan")}}, "not plain data"),
        ({**POLICY, "metadata": None}, "not a mapping"),
        ({**POLICY, "metadata": {"name": "x", "annotations": None}}, "not a mapping"),
    ],
)
def test_a_body_that_is_not_plain_data_is_a_user_error(body: Any, what: str, platform: Platform) -> None:
    app = App(platform)
    Component(app, "mine", [Manifest(body, "site/x.yaml")])
    with pytest.raises(ConfigError, match=what):
        collect(app)


@pytest.mark.parametrize("file", ["../x.yaml", "/x.yaml", "release.json", "argocd/project.yaml", "a//b.yaml", ""])
def test_a_file_outside_the_release_is_rejected(file: str, platform: Platform) -> None:
    app = App(platform)
    Component(app, "mine", [Manifest(POLICY, file)])
    with pytest.raises(ConfigError, match="is not a valid path in a release"):
        collect(app)


def test_names_that_are_invalid_as_files_get_their_own_files(platform: Platform) -> None:
    app = App(platform)
    chart = cdk8s.Chart(app, "site")
    for number, name in enumerate(("sys:A", "sys:a", "../..", "plain")):
        place_api_object(chart, str(number), config_map(name))
    files = {manifest.file for manifest in collect(app) if manifest.file.startswith("custom/")}
    assert len({file.lower() for file in files}) == 4
    assert "custom/cluster/configmap-plain.yaml" in files
    assert not any(".." in file for file in files)


def test_an_object_that_cdk8s_cannot_render_is_reported_with_its_path(platform: Platform) -> None:
    app = App(platform)
    broken = place_api_object(cdk8s.Chart(app, "site"), "broken", config_map("x"))
    broken.add_json_patch(cdk8s.JsonPatch.replace("/no/such/place", 1))
    with pytest.raises(ConfigError, match="site/broken"):
        collect(app)


def test_validations_of_constructs_are_reported(platform: Platform) -> None:
    @jsii.implements(constructs.IValidation)
    class Never:
        def validate(self) -> list[str]:
            return ["not like this"]

    app = App(platform)
    cdk8s.Chart(app, "site").node.add_validation(Never())
    with pytest.raises(ConfigError, match="site: not like this"):
        collect(app)


def test_a_runtime_in_python_obeys_the_rules_of_the_platform_file(platform: Platform) -> None:
    app = App(platform)
    with pytest.raises(ConfigError, match="`image` is missing"):
        MpiRuntime(app, "one", runtime=Runtime(name="one", pool="gpu"))
    with pytest.raises(ConfigError, match="more than the"):
        MpiRuntime(app, "two", runtime=Runtime(name="two", pool="cpu", resources={"cpu": 1000}))


def test_a_plain_app_in_a_platform_file_is_rejected(tmp_path: Path) -> None:
    """The release would lack all objects of the platform, and Argo CD would prune them."""
    (tmp_path / "mpigen_platform.py").write_text("import cdk8s\napp = cdk8s.App()\n")
    with pytest.raises(ConfigError, match="plain cdk8s App"):
        pipeline.load(tmp_path / "mpigen_platform.py")


def test_a_file_of_plain_yaml_can_be_included(platform: Platform, tmp_path: Path) -> None:
    (tmp_path / "extra.yaml").write_text(yaml.safe_dump(config_map("included")))
    app = App(platform)
    cdk8s.Include(cdk8s.Chart(app, "site"), "extra", url=str(tmp_path / "extra.yaml"))
    assert config_map("included") in [manifest.body for manifest in collect(app)]


def test_our_app_cannot_be_written_without_checks(platform: Platform) -> None:
    with pytest.raises(Exception, match="mpigen synth"):
        App(platform).synth()
