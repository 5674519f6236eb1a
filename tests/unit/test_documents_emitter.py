"""Test that written YAML reads the same with every parser, and that every path is located."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from generator.documents.emit import Emitter
from generator.documents.load import Path, load
from generator.documents.locate import Place, locate, locate_all, locate_everywhere
from generator.documents.scalars import is_plain_safe
from tests.conftest import ROOT

# What some reader takes for something else, or for the end of something, when it stands there without quotes.
TREACHEROUS: list[str] = json.loads((ROOT / "tests/fixtures/treacherous.json").read_text("utf-8"))
texts = (
    st.sampled_from(TREACHEROUS)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.text("ab:# -\n\"'0.1\t{}[],&*!|>%@`?_~=<\\yn", max_size=8)
)
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    texts | numbers | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(texts, values, max_size=4)


def exact(value: Any) -> Any:
    """Return the value with the type of each part and the order of its keys, which `==` ignores."""
    if isinstance(value, dict):
        return [(key, exact(item)) for key, item in value.items()]
    if isinstance(value, list):
        return ["list", *map(exact, value)]
    return type(value), value


@settings(deadline=None, max_examples=250)
@given(st.lists(documents, max_size=2))
@example([{text: text} for text in TREACHEROUS])
@example([{"x": [[text], {"y": [text]}]} for text in TREACHEROUS])
def test_every_parser_reads_the_written_documents(written: list[dict[str, Any]]) -> None:
    text = Emitter().emit(written)
    assert exact([document.data for document in load(text)]) == exact(written)
    assert exact(list(yaml.safe_load_all(text))) == exact(written)
    assert exact(list(YAML(typ="safe", pure=True).load_all(text))) == exact(written)


@settings(deadline=None)
@given(st.lists(documents, max_size=3))
def test_the_same_data_is_always_written_as_the_same_text(written: list[dict[str, Any]]) -> None:
    emitter = Emitter()
    first = emitter.emit(written)
    assert emitter.emit(written) == first == Emitter().emit(written)
    assert emitter.emit(document.data for document in load(first)) == first


# Most texts need quotes, so Hypothesis discards many before it has all its examples.
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    texts.filter(is_plain_safe) | st.from_regex(r"\A[A-Za-z_/][A-Za-z0-9_./+@%$()=~: -]{0,8}\Z").filter(is_plain_safe)
)
@example("a:b")
@example("n-")
def test_a_plain_scalar_is_a_string_for_every_parser(text: str) -> None:
    for document, expected in ((f"x: {text}", {"x": text}), (f"- {text}", [text]), (f"{text}: 1", {text: 1})):
        assert [each.data for each in load(document)] == [expected]
        assert yaml.safe_load(document) == expected
        assert YAML(typ="safe", pure=True).load(document) == expected


@pytest.mark.parametrize("text", ["nginx", "quay.io/a/b:1", "a b", "/etc/ssh", "_x", "a=b", "x" * 200, "group:ml-all"])
def test_ordinary_words_are_written_without_quotes(text: str) -> None:
    assert Emitter().emit([{"x": text}]) == f"---\nx: {text}\n"


@pytest.mark.parametrize("text", TREACHEROUS)
def test_ambiguous_words_are_never_plain(text: str) -> None:
    assert not is_plain_safe(text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("\ud800", "half of a surrogate pair"),
        (2**64, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (float("nan"), "no form in JSON"),
        (float("inf"), "no form in JSON"),
        (b"x", "no form in JSON"),
        ({1: 2}, "a key must be a string"),
        ({None: 2}, "a key must be a string"),
    ],
)
def test_values_without_a_json_form_are_rejected(value: object, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Emitter().emit([{"x": value}])


@pytest.mark.parametrize("text", ["word " * 60 + "end", "a: word " * 60 + "end", "word " * 60 + "end\nend"])
def test_a_long_line_stays_one_line(text: str) -> None:
    assert max(map(len, Emitter().emit([{"x": text}]).splitlines())) > 300


def test_multiline_strings_are_written_as_blocks() -> None:
    assert Emitter().emit([{"x": "#!/bin/sh\n  echo 'a: b'\n"}]) == "---\nx: |\n  #!/bin/sh\n    echo 'a: b'\n"


def places(node: yaml.Node, path: tuple[str | int, ...], holder: yaml.Node) -> dict[tuple[str | int, ...], Place]:
    """Return every path below a composed node, with PyYAML's positions."""
    is_scalar = isinstance(node, yaml.ScalarNode)
    found = {
        path: Place(
            *(
                (mark.line + 1, mark.column + 1)
                for mark in ((node if is_scalar else holder).start_mark, holder.start_mark)
            )
        )
    }
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            found |= places(value, (*path, key.value), key)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            found |= places(item, (*path, index), item)
    return found


@settings(deadline=None)
@given(st.lists(documents, min_size=1, max_size=3))
def test_every_path_has_its_exact_location(written: list[dict[str, Any]]) -> None:
    text = Emitter().emit(written)
    everywhere: dict[tuple[int, Path], Place] = {}
    for index, node in enumerate(yaml.compose_all(text, yaml.SafeLoader)):
        expected = places(node, (), node)
        assert locate_all(text, index, expected) == expected
        assert all(locate(text, index, path) == place.node for path, place in list(expected.items())[-3:])
        everywhere |= {(index, path): place for path, place in expected.items()}
    assert locate_everywhere(text, reversed(everywhere)) == everywhere


@pytest.mark.parametrize(
    ("path", "position"),
    [
        (("a", "b"), (2, 6)),
        (("a", "b", "deeper"), (2, 6)),
        (("a", "missing"), (1, 1)),
        (("c", 1, "true"), (5, 7)),
        (("c", 9), (3, 1)),
        (("empty",), (6, 1)),
        (("quoted",), (7, 9)),
        (("alias", "b"), (8, 1)),
        (("missing", 3), (1, 1)),
    ],
)
def test_a_missing_path_is_located_at_its_nearest_parent(
    path: tuple[str | int, ...], position: tuple[int, int]
) -> None:
    text = "a: &a\n  b: 1\nc:\n- x\n- on: 2\nempty:\nquoted: ''\nalias: *a\n"
    assert locate(text, 0, path) == position
    assert locate(f"first: 1\n---\n{text}", 1, path) == (position[0] + 2, position[1])
