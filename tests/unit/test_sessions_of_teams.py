"""Test `access.sessions`, and that the page about forbidden requests agrees with the roles and the rules."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from generator import App, Platform, pipeline
from generator.checks.objects import Change
from generator.effects.access import find_access_effects
from generator.effects.effect import Risk
from generator.effects.parameters import find_parameter_effects
from generator.errors import ConfigError
from generator.facts.names import TENANT_LABEL
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.access import Access, AccessRequest, Requester, catalog_kinds, read_access
from tests.conftest import ROOT, small_platform

PAGE = ROOT / "docs/tasks/forbidden-requests.md"
_REQUEST = re.compile(r"^\| (?P<verb>[a-z]+) (?P<resource>[a-z/]+) \| ", re.MULTILINE)
_ROWS = list(_REQUEST.finditer(PAGE.read_text("utf-8")))
_SESSIONS = {"exec": ["user:ada"], "portForward": ["group:support"], "debug": ["serviceaccount:ci/debug"]}


def rendered(access: dict[str, Any], **fields: Any) -> list[Manifest]:
    """Return the release of a small platform whose first team has this access."""
    data = small_platform()
    data["tenants"][0] |= {"access": access, **fields}
    platform = Platform.model_validate(data)
    return list(pipeline.render(platform, App(platform)))


@cache
def access_of_a_submitter() -> Access:
    """Return the rights in a release in which `ada` is a submitter."""
    return read_access(rendered({"submit": ["user:ada"]}))


def roles(tree: list[Manifest]) -> set[str]:
    return {each.name for each in tree if each.kind == "ClusterRole" and "session" in each.name}


def annotation(tree: list[Manifest], name: str = "team-a") -> list[str]:
    (home,) = (each for each in tree if each.kind == "Namespace" and each.name == name)
    return str(home.body["metadata"]["annotations"].get("mpigen.dev/sessions", "")).splitlines()


def team() -> str:
    return str(small_platform()["tenants"][0]["name"])


def test_no_team_has_sessions_by_default() -> None:
    tree = rendered({"submit": ["user:ada"]})
    assert roles(tree) == set()
    assert annotation(tree, team()) == []
    assert not any(each.name.endswith("-debug") for each in tree)


def test_sessions_get_a_role_a_binding_and_parameters() -> None:
    tree = rendered({"sessions": _SESSIONS})
    assert roles(tree) == {"mpigen-session-exec", "mpigen-session-port-forward", "mpigen-session-debug"}
    bindings = {each.name: each.body["subjects"] for each in tree if each.kind == "RoleBinding"}
    assert [subject["name"] for subject in bindings["mpigen-session-exec"]] == ["ada"]
    assert [subject["name"] for subject in bindings["mpigen-session-debug"]] == ["debug"]
    assert annotation(tree, team()) == [
        "pods/attach user:ada",
        "pods/attach user:system:serviceaccount:ci:debug",
        "pods/ephemeralcontainers user:system:serviceaccount:ci:debug",
        "pods/exec user:ada",
        "pods/portforward group:support",
    ]


def test_a_release_has_only_the_roles_that_a_team_uses() -> None:
    tree = rendered({"sessions": {"exec": ["user:ada"]}})
    assert roles(tree) == {"mpigen-session-exec"}
    assert not any(each.kind == "ValidatingAdmissionPolicy" and each.name.endswith("-debug") for each in tree)


def test_team_admins_cannot_bind_roles_of_sessions() -> None:
    tree = rendered({"admin": ["user:eve"], "sessions": {"exec": ["user:ada"]}})
    (admin,) = (each for each in tree if each.kind == "ClusterRole" and each.name == "mpigen-admin")
    bound = [name for rule in admin.body["rules"] if rule["verbs"] == ["bind"] for name in rule["resourceNames"]]
    assert bound
    assert not any("session" in name for name in bound)


def test_a_plan_reports_new_sessions_once_and_as_a_high_risk() -> None:
    change = Change(rendered({"submit": ["user:ada"]}), rendered({"submit": ["user:ada"], "sessions": _SESSIONS}), {})
    effects = list(find_access_effects(change))
    assert {effect.risk for effect in effects if "run commands in pods" in str(effect)} == {Risk.HIGH}
    assert [effect for effect in find_parameter_effects(change) if "session" in str(effect)] == []


def test_a_retired_team_has_no_sessions() -> None:
    tree = rendered({"sessions": _SESSIONS}, retired={"reason": "ended", "until": "2099-12-31"})
    assert roles(tree) == set()
    assert annotation(tree, team()) == []
    assert not any(each.kind == "RoleBinding" and "session" in each.name for each in tree)


def test_sessions_of_all_users_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"sessions\.exec"):
        rendered({"sessions": {"exec": ["group:system:authenticated"]}})


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: f"{row['verb']} {row['resource']}")
def test_roles_reject_the_requests_of_the_page(row: re.Match[str]) -> None:
    resource, _, subresource = row["resource"].partition("/")
    groups = {kind.group for kind in catalog_kinds(Catalog.bundled()) if kind.resource == resource}
    requests = [AccessRequest(row["verb"], group, resource, subresource, "", team()) for group in groups]
    access = access_of_a_submitter()
    assert groups
    assert not any(access.allowed(Requester("ada", frozenset()), request) for request in requests)


def test_the_page_lists_many_requests_in_one_form() -> None:
    assert len(_ROWS) >= 30
    assert PAGE.read_text("utf-8").count("\n| ") == len(_ROWS) + 2 * PAGE.read_text("utf-8").count("| --- |")
    assert "forbidden-requests.md" in (ROOT / "docs/tasks/submit-a-job.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [
        ("patch", "trainer.kubeflow.org", "trainjobs"),
        ("patch", "kueue.x-k8s.io", "workloads"),
        ("get", "", "configmaps"),
        ("patch", "", "configmaps"),
        ("get", "", "namespaces"),
        ("list", "kueue.x-k8s.io", "localqueues"),
        ("list", "", "persistentvolumeclaims"),
        ("get", "", "pods/log"),
    ],
)
def test_roles_allow_the_alternatives_of_the_page(verb: str, group: str, resource: str) -> None:
    kind, _, subresource = resource.partition("/")
    request = AccessRequest(verb, group, kind, subresource, "", team())
    assert access_of_a_submitter().allowed(Requester("ada", frozenset()), request)


def test_a_runtime_reserves_the_names_of_its_config_maps() -> None:
    data = small_platform()
    data["runtimes"][0]["volumes"] = [{"name": "ca", "mountPath": "/etc/ca", "configMap": "company-ca"}]
    platform = Platform.model_validate(data)
    homes = [each for each in pipeline.render(platform, App(platform)) if TENANT_LABEL in each.labels]
    assert homes
    assert all(each.body["metadata"]["annotations"]["mpigen.dev/config-maps"] == "company-ca" for each in homes)
