"""Test which object the API server stores when a manifest is applied over an older one."""

from __future__ import annotations

from typing import Any

import pytest

from generator.schemas.crd import node
from generator.schemas.json_schema import Schema
from generator.schemas.updates import apply

KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "a": {"type": "string"}, "b": {"type": "string"}}}
MAP = {"type": "object", "additionalProperties": {"type": "string"}}


def result(field: dict[str, Any], written: Any, stored: Any, new: Any) -> tuple[Any, list[Any]]:
    """Return the field after the apply, and the paths that become null."""
    schema: Schema = {**node({"type": "object", "properties": {"f": field}}), "definitions": {}}
    old, live, now = ({"kind": "A", **({} if value is None else {"f": value})} for value in (written, stored, new))
    found = apply(old, live, now, schema)
    return found.body.get("f"), [path for path, _ in found.emptied]


@pytest.mark.parametrize(
    ("written", "stored", "new", "expected"),
    [
        ({"a": "1"}, {"a": "1", "b": "set by a default"}, {"a": "2"}, {"a": "2", "b": "set by a default"}),
        ({"a": "1", "b": "1"}, {"a": "1", "b": "1"}, {"a": "1"}, {"a": "1"}),
        ({"a": "1"}, {"a": "1", "b": "set by a default"}, {"b": "2"}, {"b": "2"}),
        ({"a": "1"}, {"a": "1", "b": "set by a default"}, None, None),
        (None, {"b": "set by a default"}, {"a": "1"}, {"a": "1", "b": "set by a default"}),
    ],
)
def test_unowned_fields_stay_and_removed_fields_are_deleted(written: Any, stored: Any, new: Any, expected: Any) -> None:
    assert result(ITEM, written, stored, new) == (expected, [])


def test_an_atomic_mapping_is_replaced() -> None:
    atomic = {**ITEM, "x-kubernetes-map-type": "atomic"}
    assert result(atomic, {"a": "1"}, {"a": "1", "b": "2"}, {"a": "2"}) == ({"a": "2"}, [])
    assert result(atomic, {"a": "1"}, {"a": "1"}, {}) == ({}, [])


def test_list_items_are_merged_by_their_keys() -> None:
    field = {"type": "array", "items": ITEM, **KEYED}
    written = [{"name": "x", "a": "1"}, {"name": "y", "a": "1"}]
    stored = [{**item, "b": "set by a default"} for item in written]
    new = [{"name": "z"}, {"name": "y", "a": "2"}]
    expected = [{"name": "z"}, {"name": "y", "a": "2", "b": "set by a default"}]
    assert result(field, written, stored, new) == (expected, [])
    assert result({"type": "array", "items": ITEM}, written, stored, new) == (new, [])


@pytest.mark.parametrize(
    ("field", "written", "stored", "new", "nulls"),
    [
        (MAP, {"a": "1"}, {"a": "1"}, {}, [("f",)]),
        (ITEM, {"a": "1"}, {"a": "1"}, {}, [("f",)]),
        (ITEM, {"a": "1"}, {"a": "1", "b": "set by a default"}, {}, []),
        (MAP, {}, {}, {}, []),
        (MAP, {"a": "1"}, {"a": "1"}, None, []),
        ({**MAP, "nullable": True}, {"a": "1"}, {"a": "1"}, {}, []),
        ({"type": "array", "items": {"type": "string"}}, ["a"], ["a"], [], []),
    ],
)
def test_a_mapping_that_loses_its_last_key_becomes_null(
    field: Any, written: Any, stored: Any, new: Any, nulls: Any
) -> None:
    assert result(field, written, stored, new)[1] == nulls
