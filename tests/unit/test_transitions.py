"""Test the transition rules of CustomResourceDefinitions: their selection, values and results."""

from __future__ import annotations

from typing import Any

import pytest

from generator.schemas.crd import node
from generator.schemas.json_schema import Schema
from generator.schemas.rules import VALIDATIONS, Rule, find_transitions
from generator.schemas.updates import normalize_custom
from generator.upstream.kubernetes.cel.rules import is_accepted

SAME = [{"rule": "self == oldSelf", "message": "immutable"}]
ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}}


def compiled(**fields: Any) -> Schema:
    return {**node({"type": "object", "properties": fields}), "definitions": {}}


def verdicts(schema: Schema, old: Any, new: Any) -> dict[tuple[str | int, ...], bool]:
    return {each.path: is_accepted(each) for each in find_transitions(old, new, schema)}


def test_only_rules_with_the_old_value_are_transition_rules() -> None:
    rules = [*SAME, {"rule": "self > 0"}, {"rule": "myoldSelf == 1"}]
    schema = compiled(a={"type": "integer", VALIDATIONS: rules})
    assert [each.rule for each in find_transitions({"a": 1}, {"a": 1}, schema)] == ["self == oldSelf"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 2}, {("a",): False}),
        ({"a": 1}, {"a": 1}, {("a",): True}),
        ({}, {"a": 2}, {}),
        ({"a": 1}, {}, {}),
        (None, {"a": 1}, {}),
    ],
)
def test_a_rule_is_skipped_if_either_object_has_no_value(old: Any, new: Any, expected: Any) -> None:
    schema = compiled(a={"type": "integer", VALIDATIONS: SAME})
    assert verdicts(schema, old, new) == expected


def test_an_optional_old_value_is_evaluated_on_creation() -> None:
    rule = {"rule": "!oldSelf.hasValue() || oldSelf.value() <= self", "optionalOldSelf": True}
    schema = compiled(a={"type": "integer", VALIDATIONS: [rule]})
    assert verdicts(schema, {}, {"a": 1}) == {("a",): True}
    assert verdicts(schema, {"a": 1}, {"a": 2}) == {("a",): True}
    assert verdicts(schema, {"a": 2}, {"a": 1}) == {("a",): False}


def keyed(**of_items: Any) -> Schema:
    item = {**ITEM, "properties": {**ITEM["properties"], "value": {"type": "integer", **of_items}}}  # type: ignore[dict-item]
    return {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def test_map_list_items_are_correlated_by_key_and_new_items_are_accepted() -> None:
    schema = compiled(a=keyed(**{VALIDATIONS: SAME}))
    old = {"a": [{"name": "x", "value": 1}, {"name": "y", "value": 2}]}
    new = {"a": [{"name": "y", "value": 3}, {"name": "z", "value": 9}, {"name": "x", "value": 1}]}
    assert verdicts(schema, old, new) == {("a", 0, "value"): False, ("a", 2, "value"): True}


def test_items_of_other_lists_are_not_correlated() -> None:
    schema = compiled(a={"type": "array", "items": {"type": "integer", VALIDATIONS: SAME}})
    assert verdicts(schema, {"a": [1]}, {"a": [2]}) == {}


@pytest.mark.parametrize(
    ("kind", "is_equal"),
    [({"x-kubernetes-list-type": "set"}, True), ({"x-kubernetes-list-type": "atomic"}, False), ({}, False)],
)
def test_the_order_of_a_set_is_ignored_and_that_of_a_list_is_compared(kind: Any, is_equal: bool) -> None:
    schema = compiled(a={"type": "array", "items": {"type": "string"}, **kind, VALIDATIONS: SAME})
    assert verdicts(schema, {"a": ["x", "y"]}, {"a": ["y", "x"]}) == {("a",): is_equal}


def test_the_order_of_a_nested_map_list_is_ignored() -> None:
    schema = compiled(a={"type": "object", "properties": {"b": keyed()}, VALIDATIONS: SAME})
    old = {"a": {"b": [{"name": "x", "value": 1}, {"name": "y", "value": 2}]}}
    assert verdicts(schema, old, {"a": {"b": old["a"]["b"][::-1]}}) == {("a",): True}
    assert verdicts(schema, old, {"a": {"b": old["a"]["b"][:1]}}) == {("a",): False}


def test_a_rule_with_an_error_rejects() -> None:
    assert not is_accepted(Rule((), "self.absent == oldSelf.absent", {"a": 1}, {"a": 1}))


def test_map_values_are_correlated_by_key() -> None:
    schema = compiled(a={"type": "object", "additionalProperties": {"type": "integer", VALIDATIONS: SAME}})
    assert verdicts(schema, {"a": {"x": 1}}, {"a": {"x": 2, "y": 3}}) == {("a", "x"): False}


def test_defaults_are_added_to_both_objects() -> None:
    schema = compiled(
        a={
            "type": "object",
            "properties": {"b": {"type": "string", "default": "x"}, "c": {"type": "integer"}},
            VALIDATIONS: SAME,
        }
    )
    written, absent, null = ({"a": each} for each in ({"c": 1, "b": "x"}, {"c": 1}, {"c": 1, "b": None}))
    assert normalize_custom(written, schema, schema) == normalize_custom(absent, schema, schema)
    assert normalize_custom(null, schema, schema) == normalize_custom(absent, schema, schema)
