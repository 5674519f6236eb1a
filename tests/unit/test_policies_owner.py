"""Test the settings of the owner policies; a real API server tests their decisions."""

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


@pytest.mark.parametrize(
    ("name", "operations"), [("owner", ["CREATE", "UPDATE"]), ("own-jobs", ["CREATE", "UPDATE", "DELETE"])]
)
def test_owner_policies_apply_to_creation_update_and_deletion_of_jobs(name: str, operations: list[str]) -> None:
    policy, binding = rule(name)
    (looked_at,) = policy.body["spec"]["matchConstraints"]["resourceRules"]
    assert (looked_at["resources"], looked_at["operations"]) == (["trainjobs"], operations)
    assert binding.body["spec"]["validationActions"] == ["Deny"]


def test_the_authorizer_decides_only_about_jobs_of_other_users() -> None:
    spec: Body = rule("own-jobs")[0].body["spec"]
    assert [each["name"] for each in spec["matchConditions"]] == [
        "not-a-controller",
        "not-their-own",
    ]
    (asked,) = spec["validations"]
    assert asked["expression"].startswith("(variables.isOwn && variables.changed.size() == 0)\n|| authorizer.")
    assert "authorizer" not in asked["messageExpression"]  # there the API server has none
    assert "authorizer" not in str(rule("owner"))


@pytest.mark.parametrize(("action", "number"), [("off", 0), ("warn", 2)])
def test_owner_rules_can_be_switched_off_or_warn(action: str, number: int) -> None:
    assert len(rule("own-jobs", action)) == number
