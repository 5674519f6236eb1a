"""Test that a schema is restored from its difference."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from generator.schemas.difference import differ, restore

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
_SCHEMAS = st.dictionaries(st.sampled_from("abcd"), _VALUES, max_size=4)


@given(_SCHEMAS, _SCHEMAS)
def test_a_difference_restores_its_schema(base: dict[str, Any], schema: dict[str, Any]) -> None:
    before = deepcopy(base)
    restored = restore(base, differ(base, schema))
    assert restored == schema
    assert base == before


def test_equal_schemas_have_no_difference() -> None:
    assert differ({"a": {"b": 1}}, {"a": {"b": 1}}) == {"set": {}, "removed": []}


def test_true_is_not_one() -> None:
    assert restore({"a": 1}, differ({"a": 1}, {"a": True}))["a"] is True
