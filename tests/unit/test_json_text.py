"""Test that JSON is read as Go reads it, and rejected with messages that do not depend on the Python version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.documents.scalars import JsonTextError, read_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_valid_json_is_read(value: Any) -> None:
    try:
        text = json.dumps(value)
        text.encode()
    except UnicodeEncodeError:
        return
    if "\\ud" not in text:
        assert read_json(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1,}', 'unexpected `,` before the closing bracket, after `{"a": 1,`'),
        ('{"a": [1,\n]}', 'unexpected `,` before the closing bracket, after `{"a": [1,`'),
        ('{"a" 1}', 'unexpected `1`, after `{"a"`'),
        ("{a: 1}", "unexpected `a`, after `{`"),
        ('{"a": 1', 'unexpected end, after `{"a": 1`'),
        ("", "unexpected end"),
        ('{"a": 1}{', 'unexpected text after the end, after `{"a": 1}`'),
        ('{"a": 1},', 'unexpected text after the end, after `{"a": 1}`'),
        ('{"a": 1, "a": 2}', "the key `a` appears twice"),
        ("[NaN]", "NaN is not JSON"),
        ("1e999", "it contains a number or a character that JSON does not allow"),
        (r'"\ud800"', "it contains a number or a character that JSON does not allow"),
        ("1" * 5000, "it contains a number or a character that JSON does not allow"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[" * 200 + "]" * 200, "it is nested too deeply"),
    ],
)
def test_invalid_json_is_rejected_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(JsonTextError) as caught:
        read_json(text)
    assert str(caught.value) == reason
