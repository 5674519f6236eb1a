"""Test that update rules use existing fields of their kinds and compare the right objects."""

from __future__ import annotations

from typing import Any

import pytest

from generator.checks import run
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.schemas.json_schema import resolve
from generator.upstream.kubernetes import update_rules

KINDS = update_rules.kinds()


@pytest.mark.parametrize("kind", [kind for kind, rules in KINDS.items() if rules.rules], ids="/".join)
def test_every_rule_uses_a_field_of_its_kind(kind: tuple[str, str]) -> None:
    catalog = Catalog.bundled()
    group, name = kind
    schemas = [
        catalog.load(entry)
        for entry in catalog.everything
        if (entry.api_version.rpartition("/")[0], entry.kind) == (group, name)
    ]
    assert schemas
    for rule in KINDS[kind].rules:
        paths = [rule.path, *((*rule.path, *below) for below in (*rule.excepted, *(rule.suspended or ())))]
        conditions = [*rule.when, *rule.when_new, *rule.unless]
        for path in (*paths, *conditions):
            assert any(leads(schema, path) for schema in schemas), path


def leads(schema: Any, path: tuple[str, ...]) -> bool:
    node = schema
    for step in path:
        _, node = resolve(node, schema)
        below = (
            node.get("items") if step == "*" else node.get("properties", {}).get(step, node.get("additionalProperties"))
        )
        if not isinstance(below, dict):
            return False
        node = below
    return True


QUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "a", "namespace": "a"}}


def errors(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    found = run.judge_change([Manifest(old, "old.yaml")], [Manifest(new, "new.yaml")], {})
    return [breach.check for _, breach in found if breach.check == "change/immutable"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ["change/immutable"]),
        ({"metadata": {"name": "a", "namespace": "b"}}, []),
        ({"metadata": {"name": "b", "namespace": "a"}}, []),
        ({"kind": "ClusterQueue"}, []),
        ({"apiVersion": "kueue.x-k8s.io/v1beta1"}, ["change/immutable"]),
        ({"apiVersion": "example.com/v1"}, []),
    ],
)
def test_objects_are_compared_by_group_kind_namespace_and_name(changed: dict[str, Any], expected: list[str]) -> None:
    old = {**QUEUE, "spec": {"clusterQueue": "one"}}
    assert errors(old, {**QUEUE, "spec": {"clusterQueue": "two"}, **changed}) == expected


def template(version: str, request: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "a", "namespace": "a"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", **request}]}}},
    }


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"deviceClassName": "a"}, {"exactly": {"deviceClassName": "a"}}, []),
        ({"deviceClassName": "a"}, {"exactly": {"deviceClassName": "a", "count": 1}}, []),
        ({"deviceClassName": "a", "count": 2}, {"exactly": {"deviceClassName": "a"}}, ["change/immutable"]),
    ],
)
def test_a_claim_in_an_older_version_is_converted_before_the_comparison(
    old: dict[str, Any], new: dict[str, Any], expected: list[str]
) -> None:
    assert errors(template("v1beta1", old), template("v1", new)) == expected
    assert errors(template("v1", new), template("v1beta1", old)) == expected
