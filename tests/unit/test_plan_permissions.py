"""Test the comparison of permissions for a plan."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from generator.checks.objects import Change
from generator.effects.access import find_access_effects
from generator.effects.effect import Effect, Risk
from generator.effects.permissions import Permission, describe, find_dangers, find_missing
from generator.manifests import Manifest
from generator.upstream.kubernetes.access import Grant, Rule

VERBS, GROUPS, RESOURCES, NAMES = ("get", "create"), ("", "batch"), ("pods", "pods/log", "jobs"), ("", "one")


def grant(*rules: Rule, gap: str = "", role: str = "Role a/b") -> Grant:
    return Grant("RoleBinding a/b", role, "a", (), rules, gap, "")


def random_rule(chance: Random) -> Rule:
    def some(*values: str) -> tuple[str, ...]:
        return tuple(chance.sample(values, chance.randint(1, 2)))

    names = some("one", "two") if chance.random() < 0.3 else ()
    return Rule(some("*", *VERBS), some("*", *GROUPS), some("*", "*/log", *RESOURCES), names, ())


@pytest.mark.parametrize("number", range(200))
def test_missing_permissions_are_the_requests_that_only_one_side_allows(number: int) -> None:
    chance = Random(number)
    some, others = ([random_rule(chance) for _ in range(chance.randint(1, 3))] for _ in range(2))
    missing = find_missing([grant(*some)], [grant(*others)])
    requests = [Permission(*row).request for row in product(VERBS, GROUPS, RESOURCES, NAMES)]
    for request in requests:
        is_gained = any(rule.allows(request) for rule in some) and not any(rule.allows(request) for rule in others)
        rules = [
            Rule((one.verb,), (one.group,), (one.resource,), (one.name,) if one.name else (), ()) for one in missing
        ]
        assert not is_gained or any(rule.allows(request) for rule in rules)
    assert not any(rule.allows(one.request) for one in missing for rule in others)


def test_a_role_with_unknown_rules_is_a_permission_of_its_own() -> None:
    unknown = grant(gap="its role is not among the files", role="ClusterRole edit")
    assert find_missing([unknown], []) == {Permission(role="ClusterRole edit")}
    assert find_missing([unknown], [unknown]) == frozenset()


@pytest.mark.parametrize(
    ("permission", "danger"),
    [
        (Permission("*", "*", "*"), "read and change all objects, also Secrets"),
        (Permission("get", "", "secrets"), "read Secrets"),
        (Permission("get", "*", "*"), "read Secrets"),
        (Permission("impersonate", "", "users"), "act as other users"),
        (Permission("impersonate:user-info", "authentication.k8s.io", "groups"), "act as other users"),
        (Permission("create", "", "pods/exec"), "run commands in pods, or connect to them"),
        (
            Permission(role="ClusterRole admin"),
            "read Secrets, run pods outside the queues, and give its own permissions to others",
        ),
    ],
)
def test_dangerous_permissions_have_their_consequence(permission: Permission, danger: str) -> None:
    assert danger in find_dangers(frozenset({permission}))


@pytest.mark.parametrize(
    "permission",
    [
        Permission("create", "trainer.kubeflow.org", "trainjobs"),
        Permission("get", "", "pods"),
        Permission("get", url="/metrics"),
    ],
)
def test_ordinary_permissions_are_not_dangerous(permission: Permission) -> None:
    assert list(find_dangers(frozenset({permission}))) == []


def test_a_sentence_groups_verbs_and_resources() -> None:
    permissions = [Permission(verb, "", kind) for kind in ("pods", "events") for verb in ("list", "get")]
    assert describe(frozenset(permissions))[:2] == ("get and list on events and pods", ())
    more = [*permissions, Permission("get", "", "services"), Permission("get", "", "nodes")]
    assert describe(frozenset(more))[:2] == (
        "permissions on 4 resources",
        ("get and list on events and pods", "get on nodes and services"),
    )


RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1"}


def role(name: str, *rules: tuple[str, str], namespace: str = "") -> Manifest:
    place = {"namespace": namespace} if namespace else {}
    body = {
        **RBAC,
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": {"name": name, **place},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]} for verb, resource in rules],
    }
    return Manifest(body, "roles.yaml")


def binding(name: str, of: Manifest, *groups: str, namespace: str = "") -> Manifest:
    place = {"namespace": namespace} if namespace else {}
    body: dict[str, Any] = {
        **RBAC,
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, **place},
        "roleRef": {"kind": of.kind, "name": of.name},
        "subjects": [{"kind": "Group", "name": group} for group in groups],
    }
    return Manifest(body, "bindings.yaml")


def effects(old: list[Manifest], new: list[Manifest]) -> list[Effect]:
    return list(find_access_effects(Change(old, new, {})))


READER = role("reader", ("get", "pods"))


def test_a_permission_of_all_users_is_no_gain_of_a_group() -> None:
    everyone = binding("all", READER, "system:authenticated", namespace="a")
    (effect,) = effects([READER, everyone], [READER, everyone, binding("one", READER, "students", namespace="a")])
    assert (effect.risk, effect.text) == (Risk.LOW, "`RoleBinding a/one` changes no permission of a subject")


def test_a_narrower_binding_names_the_namespaces_that_remain() -> None:
    whole, part = binding("all", READER, "students"), binding("one", READER, "students", namespace="a")
    (effect,) = effects([READER, whole], [READER, part])
    assert effect.text == "group `students` loses get on pods in the whole cluster"
    assert effect.details == ("the subject keeps these permissions in namespace `a`",)


def test_a_lost_wildcard_names_the_verbs_that_remain() -> None:
    everything, bound = role("r", ("*", "pods")), binding("one", role("r"), "students", namespace="a")
    (effect,) = effects([everything, bound], [role("r", ("get", "pods")), bound])
    assert effect.text == "group `students` loses all verbs on pods in namespace `a`"
    assert effect.details == ("the subject keeps get on pods",)


def test_a_removed_role_takes_its_permissions_along() -> None:
    bound = binding("one", READER, "students", namespace="a")
    (effect,) = effects([READER, bound], [bound])
    assert effect.text == "group `students` loses get on pods in namespace `a`"


def test_a_role_without_bindings_in_the_files_may_have_holders() -> None:
    (effect,) = effects([READER], [role("reader", ("get", "pods"), ("get", "secrets"))])
    assert effect.text == "every subject with ClusterRole `reader` gains get on secrets in the whole cluster"
    assert effect.risk is Risk.HIGH


def test_two_objects_of_one_name_leave_the_permissions_unknown() -> None:
    (effect,) = effects([READER], [READER, role("reader", ("get", "secrets"))])
    assert effect.risk is Risk.MEDIUM
    assert effect.text.startswith("mpigen cannot compare the permissions: ClusterRole reader differs from")


def test_equal_rules_under_another_name_change_no_permission() -> None:
    other = role("viewer", ("get", "pods"))
    old, new = binding("one", READER, "students", namespace="a"), binding("two", other, "students", namespace="a")
    (effect,) = effects([READER, old], [other, new])
    assert (effect.risk, len(effect.causes)) == (Risk.LOW, 4)
    assert effect.text == "4 objects of RBAC change no permission of a subject"
