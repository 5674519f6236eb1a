"""Test the admission rules of a plan with policies that mpigen does not generate."""

from __future__ import annotations

import copy
from typing import Any

from generator.checks.objects import Change
from generator.effects.admission import find_admission_effects
from generator.effects.effect import Effect, Risk
from generator.manifests import Body, Manifest

API = "admissionregistration.k8s.io/v1"
POLICY: Body = {
    "apiVersion": API,
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "registries"},
    "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "validations": [
            {
                "expression": "object.spec.containers.all(one, one.image.startsWith(params.data.registry))",
                "message": "a",
            },
            {"expression": "object.metadata.name != 'debug'", "message": "b"},
        ],
    },
}
BINDING: Body = {
    "apiVersion": API,
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "registries"},
    "spec": {
        "policyName": "registries",
        "validationActions": ["Deny"],
        "paramRef": {"name": "registries", "namespace": "platform", "parameterNotFoundAction": "Deny"},
    },
}
PARAMETERS: Body = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "registries", "namespace": "platform"},
    "data": {"registry": "registry.example.com"},
}


def effects(**changes: Any) -> list[Effect]:
    """Return the effects of a change of the spec of the policy, of the binding, or of the data of the parameters."""
    old = [POLICY, BINDING, PARAMETERS]
    policy, binding, parameters = copy.deepcopy(old)
    policy["spec"].update(changes.get("policy", {}))
    binding["spec"].update(changes.get("binding", {}))
    parameters["data"].update(changes.get("parameters", {}))
    new = [policy, binding] if changes.get("is_removed") else [policy, binding, parameters]
    before, after = ([Manifest(body, "rules.yaml") for body in side] for side in (old, new))
    return list(find_admission_effects(Change(before, after, {})))


def test_changed_parameters_have_their_old_and_new_values() -> None:
    (effect,) = effects(parameters={"registry": "docker.io"})
    assert effect.text == "admission rule `registries` reads changed parameters of ConfigMap platform/registries"
    assert effect.details == ("`data.registry` changes from `registry.example.com` to `docker.io`",)


def test_removed_parameters_are_a_high_risk() -> None:
    (effect,) = effects(is_removed=True)
    assert (effect.risk, effect.text) == (
        Risk.HIGH,
        "admission rule `registries` reads its parameters from ConfigMap platform/registries, which is removed",
    )


def test_parameters_of_another_object() -> None:
    (effect,) = effects(binding={"paramRef": {"name": "others", "namespace": "platform"}})
    assert effect.text == "admission rule `registries` reads its parameters from another object"


def test_the_order_of_validations_is_no_change() -> None:
    assert effects(policy={"validations": POLICY["spec"]["validations"][::-1]}) == []


def test_a_further_validation_is_no_weaker_rule() -> None:
    more = [*POLICY["spec"]["validations"], {"expression": "object.metadata.name != 'x'", "message": "c"}]
    (effect,) = effects(policy={"validations": more})
    assert (effect.risk, effect.text) == (Risk.MEDIUM, "admission rule `registries` gets 1 further validation")
    assert effect.details == ("c",)


def test_a_rule_can_become_stricter_again() -> None:
    audited = {"validationActions": ["Audit"]}
    (effect,) = effects(binding=audited)
    assert (effect.risk, effect.text) == (Risk.HIGH, "admission rule `registries` only audits requests")
    bodies = [POLICY, {**BINDING, "spec": {**BINDING["spec"], **audited}}, PARAMETERS]
    old, new = ([Manifest(body, "rules.yaml") for body in side] for side in (bodies, [POLICY, BINDING, PARAMETERS]))
    (effect,) = find_admission_effects(Change(old, new, {}))
    assert (effect.risk, effect.text) == (
        Risk.MEDIUM,
        "admission rule `registries` denies requests that it only audited before",
    )


def test_a_condition_that_is_false_for_all_requests_ends_the_rule() -> None:
    (effect,) = effects(policy={"matchConditions": [{"name": "never", "expression": "false && object.x"}]})
    assert (effect.risk, effect.text) == (Risk.HIGH, "admission rule `registries` never applies")
