"""Test that the fast parser of JSON texts gives the documents of the complete parser, or leaves the text to it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.documents.load import MAX_DEPTH, Document, load, read_events, read_json
from generator.errors import DocumentError

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_KEYS = st.text() | st.text("a\x00", min_size=160, max_size=180)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=8
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4), st.sampled_from([None, 2, 4]))
def test_a_json_text_has_the_document_of_the_complete_parser(data: object, indent: int | None) -> None:
    raw = json.dumps(data, indent=indent).encode()
    document = read_json(raw)
    if document is not None:
        assert [document] == list(read_events(raw))


@pytest.mark.parametrize("text", ["a: {}: 1\n", 'a: "{}": 1\n', "a: b,{}: 1\n", "a: b {}: 1\n"])
def test_a_long_value_before_a_colon_is_not_a_long_key(text: str) -> None:
    with pytest.raises(DocumentError, match="unexpected `:`"):
        list(load(text.format("x" * 1100)))


def test_the_line_of_the_document_counts_empty_lines() -> None:
    assert read_json(b'\n\n{"a": 1.5, "b": [true, null, "x"]}\n') == Document({"a": 1.5, "b": [True, None, "x"]}, 0, 3)


@pytest.mark.parametrize("text", ['{{"a": {{"{}": 1}}}}', "{{a: {{{}: 1}}}}", "b: 2\n{}: 1\n", '"{}": 1\n'])
def test_a_key_that_is_too_long_for_yaml_is_named(text: str) -> None:
    (document,) = load(text.format("x" * 900))
    assert document.data
    with pytest.raises(
        DocumentError, match=r": the key before this `:` has 110[02] characters, and YAML allows 1024; s"
    ):
        list(load(text.format("x" * 1100)))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1',
        '{"a": 1} {"b": 2}',
        '{"a":\t1}',
        '{"a": "\\ud83d\\ude00"}',
        '{"a": "é"}',
        "{a: 1}",
        "[1]",
        "",
        '{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1),
        '{"a":' * 100_000 + "1" + "}" * 100_000,
    ],
)
def test_other_texts_are_left_to_the_complete_parser(text: str) -> None:
    assert read_json(text.encode()) is None


@pytest.mark.parametrize(("text", "message"), [('{"a": 1, "a": 2}', "appears twice"), ('{"a": [1, 2', "")])
def test_errors_in_json_have_places(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as raised:
        list(load(text))
    assert message in raised.value.problems[0].message
    assert raised.value.problems[0].line == 1
