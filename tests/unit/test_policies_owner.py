"""Whose a job is: what the policy asks for; what it does is tried on a real API server."""

from __future__ import annotations

import pytest

from generator import Platform
from generator.manifests import Body, Manifest
from generator.policies.admission.pack import admission_pack
from tests.conftest import small_platform


def rule(name: str, action: str = "deny") -> list[Manifest]:
    data = small_platform() | {"policies": {"admission": {"rules": {name: action}}}}
    pack = admission_pack(Platform.model_validate(data))
    return [manifest for manifest in pack if manifest.file == f"cluster/admission/{name}.yaml"]


@pytest.mark.parametrize(("name", "operations"), [("owner", ["CREATE", "UPDATE"]), ("own-jobs", ["CREATE", "DELETE"])])
def test_it_looks_at_jobs_that_come_change_and_go(name: str, operations: list[str]) -> None:
    policy, binding = rule(name)
    (looked_at,) = policy.body["spec"]["matchConstraints"]["resourceRules"]
    assert (looked_at["resources"], looked_at["operations"]) == (["trainjobs"], operations)
    assert binding.body["spec"]["validationActions"] == ["Deny"]


def test_the_authorizer_says_who_is_an_editor_and_is_asked_about_nobodys_own_job() -> None:
    spec: Body = rule("own-jobs")[0].body["spec"]
    assert [each["name"] for each in spec["matchConditions"]] == [
        "not-a-controller",
        "not-their-own",
        "not-being-deleted",
    ]
    (asked,) = spec["validations"]
    assert asked["expression"].startswith("authorizer.")
    assert "authorizer" not in asked["messageExpression"]  # there the API server has none
    assert "authorizer" not in str(rule("owner"))


@pytest.mark.parametrize(("action", "number"), [("off", 0), ("warn", 2)])
def test_it_can_be_left_to_people(action: str, number: int) -> None:
    assert len(rule("own-jobs", action)) == number
