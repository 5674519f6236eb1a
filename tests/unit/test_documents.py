"""Test that YAML is read as kubectl reads it, and that ambiguous input is rejected with its location."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from generator.documents.load import MAX_DEPTH, load
from generator.documents.messages import format_path, format_value
from generator.documents.scalars import resolve
from generator.errors import DocumentError, ExitCode
from tests.conftest import ROOT

# Made by running sigs.k8s.io/yaml v1.4.0 over `x: TEXT` for a list of texts: `YAMLToJSONStrict`.
TABLE: list[dict[str, Any]] = json.loads((ROOT / "tests/fixtures/scalars.json").read_text("utf-8"))
READ = {row["text"]: row["json"] for row in TABLE if "refused" not in row}


def data(text: str | bytes) -> list[Any]:
    """Return the data of every document."""
    return [document.data for document in load(text)]


@pytest.mark.parametrize("text", READ)
def test_a_scalar_has_the_type_that_go_gives_it(text: str) -> None:
    value, expected = resolve(text), READ[text]
    assert data(f"x: {text}") == [{"x": value}]
    assert value == (float(expected) if isinstance(value, float) else expected)
    assert isinstance(value, float) or type(value) is type(expected)  # JSON writes 1.0 as 1


@pytest.mark.parametrize("text", [row["text"] for row in TABLE if "refused" in row])
def test_a_number_outside_json_is_rejected(text: str) -> None:
    with pytest.raises(DocumentError, match=f"1:4: `{text.replace('+', '[+]')}` is not a number in JSON"):
        data(f"x: {text}")
    assert data(f"x: '{text}'") == [{"x": text}]


@given(st.text("0123456789+-._eExXoObBaAfFyYnN~:tTzZiInN", min_size=1, max_size=9))
@example("9" * 5000)
@example("0x" + "f" * 5000)
@example("." + "1" * 5000 + "e" + "9" * 50)
def test_every_scalar_is_a_value_or_its_own_text(text: str) -> None:
    value = resolve(text)
    if isinstance(value, str):
        assert value == text
    elif isinstance(value, float) and math.isfinite(value):
        assert value == float(text.replace("_", ""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on: 1", {"true": 1}),
        ("0x10: 1", {"16": 1}),
        ("1.5: 1", {"1.5": 1}),
        ("2026-01-01: 1", {"2026-01-01": 1}),
        ("'on': 1", {"on": 1}),
        ("!!str 1.10: 1", {"1.10": 1}),
        ("x: !!int '3'", {"x": 3}),
        ("x: !!float 3", {"x": 3}),
        ("x: !!str 1", {"x": "1"}),
        ("x: !!map {k: !!seq [1]}", {"x": {"k": [1]}}),
        ("&k a: *k", {"a": "a"}),
        ("x: &a {b: 1}\nw: {<<: *a, b: 2}", {"x": {"b": 1}, "w": {"b": 2}}),
        (
            "x: &a {b: 1}\nw: &c {b: 2, d: 3}\nz: {<<: [*a, *c]}",
            {"x": {"b": 1}, "w": {"b": 2, "d": 3}, "z": {"b": 1, "d": 3}},
        ),
        ("x: &a 1\nw: &a 2\nz: *a", {"x": 1, "w": 2, "z": 2}),
        ("'<<': {a: 1}", {"<<": {"a": 1}}),
        ("%YAML 1.1\n---\na: 1", {"a": 1}),
        (r'{"a": "b\/c"}', {"a": "b/c"}),
        ("a: 'b\\/c'", {"a": "b\\/c"}),
        (r'a: "b\\/c" # \/', {"a": "b\\/c"}),
        ("x: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1), None),
    ],
)
def test_input_that_kubectl_accepts_is_read(text: str, expected: Any) -> None:
    assert expected is None or data(text) == [expected]
    assert len(data(text)) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "2:1: the key `a` appears twice in this mapping; remove one of the two keys"),
        ("1: a\n'1': b", "2:1: the key `1` appears twice in this mapping; remove one of the two keys"),
        ("1.10: a", "1:1: the key `1.10` is a number, whose spelling Kubernetes clients change; put it in quotes"),
        (
            "123456.789: a",
            "1:1: the key `123456.789` is a number, whose spelling Kubernetes clients change; put it in quotes",
        ),
        (
            "18446744073709551615: a",
            (
                "1:1: the key `18446744073709551615` is a number, whose spelling Kubernetes clients change; "
                "put it in quotes"
            ),
        ),
        (
            r'a: "b\\\/c"',
            (
                "1:4: Kubernetes clients reject the escape sequence `\\/` in a double-quoted string; "
                "write `/` without the backslash"
            ),
        ),
        ("!local a: 1", "1:1: the tag `!local` is not allowed; remove it"),
        ("x: !!set {a}", "1:4: the tag `!!set` is not allowed; remove it"),
        ("x: !!binary aGk=", "1:4: the tag `!!binary` is not allowed; remove it"),
        ("x: !!bool maybe", "1:4: `maybe` is not a value of its tag `!!bool`; remove the tag"),
        ("x: &a [*a]", "1:8: the alias `*a` refers to the value that contains it; write the value out"),
        ("x: &a 1\ny: &a {b: *a}", "2:11: the alias `*a` refers to the value that contains it; write the value out"),
        (
            "x: &a 1\n*a : b",
            "2:1: a key must be a string; write a plain string, and quote a string with brackets",
        ),
        (
            "{b: 1, <<: {b: 2}}",
            "1:8: `<<` sets `b`, which a line above it sets; write `<<` before the keys that override it",
        ),
        ("%YAML 1.2\n---\na: 1", "1:1: Kubernetes clients reject this `%YAML` version; remove the line"),
        (
            "%YAML 1.1\n%YAML 1.1\n---\n",
            "2:1: invalid YAML: found duplicate %YAML directive; quote a string that starts with `%`",
        ),
        ("x: [", "1:5: the document ends before this bracket is closed; close it"),
        ("x: \ud800", "1:4: the byte 0xED is not UTF-8; save the file as UTF-8"),
        (b"x: \xe9\n", "1:4: the byte 0xE9 is not UTF-8; save the file as UTF-8"),
        ("é: é\x07", '1:5: control character U+0007 is not allowed; remove it, or write it as "\\u0007"'),
        (
            "é: 'é\n",
            (
                "1:4: this quote is never closed; close it, or use the other kind of quote "
                "around a string that contains one"
            ),
        ),
    ],
)
def test_ambiguous_input_is_rejected_with_its_location(text: str | bytes, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        data(text)
    assert str(caught.value) == said
    assert caught.value.exit_code is ExitCode.INVALID_INPUT


def test_documents_have_an_index_and_a_first_line() -> None:
    documents = list(load("# a\n---\n# b\nx: 1\n---\n---\n- z\n"))
    assert [(each.data, each.index, each.line) for each in documents] == [({"x": 1}, 0, 4), (None, 1, 6), (["z"], 2, 7)]


def test_documents_before_an_invalid_one_are_read() -> None:
    documents = load("a: 1\n---\nb: [c\n")
    assert next(documents).data == {"a": 1}
    with pytest.raises(DocumentError, match=r"3:4: the `\[` on line 3 is not closed"):
        next(documents)


@settings(deadline=None)
@given(st.text(max_size=30) | st.text("ab:-?[]{}&*!|>'\"%@#, \n\t<~.1", max_size=30) | st.binary(max_size=30))
def test_any_text_is_read_or_rejected_with_its_location(text: str | bytes) -> None:
    try:
        read = data(text)
    except DocumentError as error:
        (problem,) = error.problems
        lines = re.split(
            "\r\n|[\n\r\x85\u2028\u2029]", text.decode(errors="replace") if isinstance(text, bytes) else text
        )
        assert 1 <= problem.line <= len(lines)
        assert problem.column >= 1
        assert problem.message
        assert problem.fix
        assert str(problem).isprintable()
    else:
        json.dumps(read, allow_nan=False)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("a", 0, "b-c"), "a[0].b-c"),
        (("example.com/a", "", "x y"), '["example.com/a"][""]["x y"]'),
        (('a"b\\', "\x1b[31m", "\u202e"), '["a\\"b\\\\"]["\\x1b[31m"]["\\u202e"]'),
        (("k" * 400,), '["' + "k" * 317 + '..."]'),
    ],
)
def test_a_path_is_one_line_without_terminal_escapes(path: tuple[str | int, ...], text: str) -> None:
    assert format_path(path) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "`true`"),
        (1.5, "`1.5`"),
        ("", "an empty string"),
        ({}, "a mapping"),
        ((), "a list"),
        ("a\n\x1b", "`a\\n\\x1b`"),
        ("x" * 61, f"`{'x' * 57}...`"),
    ],
)
def test_a_value_is_formatted_in_few_words(value: object, text: str) -> None:
    assert format_value(value) == text


def test_aliases_respect_the_depth_limit() -> None:
    """Every line is shallow, but the last alias expands to 6,000 levels."""
    lines = [f"a0: &a0 {'[' * 100}x{']' * 100}"]
    lines += [f"a{n}: &a{n} {'[' * 100}*a{n - 1}{']' * 100}" for n in range(1, 60)]
    with pytest.raises(DocumentError, match="2:109: nested more than 128 levels deep"):
        list(load("\n".join(lines)))
    (document,) = load(f"a: &a {'[' * 60}x{']' * 60}\nb: {'[' * 67}*a{']' * 67}\nc: *a\n")
    assert document.data["c"] == document.data["a"]


def test_aliases_of_all_documents_share_one_limit() -> None:
    document = f"a: &a [{','.join('x' * 1000)}]\nb: [{','.join(['*a'] * 100)}]\n"
    with pytest.raises(DocumentError, match="aliases expand to more than 200,000 nodes"):
        list(load("---\n".join([document] * 3)))
