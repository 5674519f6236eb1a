"""Test the callers that operate the platform, and the accounts that tenants can impersonate."""

from __future__ import annotations

from typing import Any

import pytest

from generator import ConfigError, Platform
from generator.config.model.access import explain_impersonation, to_callers
from tests.conftest import small_platform


def platform(**changes: Any) -> Platform:
    return Platform.model_validate(small_platform() | changes)


def test_a_service_account_is_a_user_of_the_api_server() -> None:
    known = to_callers(["serviceaccount:ci/bot", "user:ada", "group:leads", "user:ada"])
    assert known.users == ("ada", "system:serviceaccount:ci:bot")
    assert known.groups == ("leads",)


def test_admins_and_argo_cd_operate_the_platform() -> None:
    operators = platform(access={"admin": ["group:platform", "user:ada"], "ci": ["group:ci"]}).operators
    assert operators.users == ("ada", "system:serviceaccount:argocd:argocd-application-controller")
    assert operators.groups == ("platform", "system:masters")


def test_without_gitops_only_admins_operate_the_platform() -> None:
    operators = platform(gitops=None, access={"admin": ["group:platform"]}).operators
    assert (operators.users, operators.groups) == ((), ("platform", "system:masters"))


@pytest.mark.parametrize(
    ("distribution", "gitops", "account"),
    [
        ("kubernetes", {}, "argocd:argocd-application-controller"),
        ("kubernetes", {"namespace": "cd"}, "cd:argocd-application-controller"),
        ("kubernetes", {"serviceAccount": "serviceaccount:flux/applier"}, "flux:applier"),
        ("openshift", {}, "openshift-gitops:openshift-gitops-argocd-application-controller"),
        (
            "openshift",
            {"namespace": "cd", "serviceAccount": "serviceaccount:cd/ours-argocd-application-controller"},
            "cd:ours-argocd-application-controller",
        ),
    ],
)
def test_the_account_of_argo_cd_has_a_default(distribution: str, gitops: dict[str, str], account: str) -> None:
    repository = {"repository": "https://git.example.com/platform.git"}
    chosen = platform(cluster={"distribution": distribution}, gitops=repository | gitops)
    assert chosen.operators.users == (f"system:serviceaccount:{account}",)


@pytest.mark.parametrize(
    "subject",
    [
        *("group:system:authenticated", "group:system:serviceaccounts", "user:system:anonymous"),
        *("serviceaccount:team-a/default", "user:system:serviceaccount:team-a:x"),
        "group:system:serviceaccounts:team-a",
    ],
)
def test_a_user_with_a_job_in_a_namespace_can_impersonate_its_accounts(subject: str) -> None:
    assert explain_impersonation(subject, {"team-a"})


@pytest.mark.parametrize(
    "subject",
    [
        *("group:team-a", "user:team-a", "serviceaccount:team-ab/x", "group:system:serviceaccounts:team"),
        *("group:system:masters", "user:system:serviceaccount:ci:team-a"),
    ],
)
def test_accounts_of_other_namespaces_cannot_be_impersonated(subject: str) -> None:
    assert not explain_impersonation(subject, {"team-a"})


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("group:*", "includes every group"),
        ("user:a*b*", "has several wildcards"),
        ("group:system:*", "includes accounts of the cluster"),
        ("robot:a*", "does not begin with `group:` or `user:`"),
        ("group:system:authenticated", "includes every authenticated user"),
        ("serviceaccount:ci/*", "is not the name of a ServiceAccount"),
    ],
)
def test_a_pattern_of_subjects_must_not_include_everyone(subject: str, message: str) -> None:
    tenant = small_platform()["tenants"][0] | {"access": {"grantable": [subject]}}
    with pytest.raises(ConfigError, match=message):
        platform(tenants=[tenant])
