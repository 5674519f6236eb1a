"""Test that the parser of block-style YAML gives the documents that libyaml gives, or leaves a text to libyaml."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.documents.block import read_block, read_sections
from generator.documents.load import load, read_events
from generator.errors import DocumentError
from tests.conftest import ROOT

PIECES = (ROOT / "tests/fixtures/yaml-lines.txt").read_text("utf-8").splitlines()
RELEASED = sorted((ROOT / "output").rglob("*.yaml"))


def compare(text: str) -> bool:
    """Return True if the block parser reads the text; assert that libyaml then reads the same."""
    blocks = read_block(text.encode())
    if blocks is None:
        return False
    try:
        events = [(document.data, document.line) for document in read_events(text.encode())]
    except DocumentError as error:
        pytest.fail(f"libyaml rejects what the block parser reads: {text!r}: {error}")
    assert repr(blocks) == repr(events), text  # True is not 1, and the order of keys counts
    return True


lines = st.lists(
    st.tuples(st.sampled_from((0, 0, 0, 1, 2, 2, 3, 4, 6)), st.sampled_from(PIECES)), min_size=1, max_size=8
)


@settings(max_examples=3000, deadline=None)
@given(lines, st.sampled_from(("", "\n", "\n\n")))
def test_random_lines_have_one_meaning(rows: list[tuple[int, str]], end: str) -> None:
    compare("\n".join(" " * indent + piece for indent, piece in rows) + end)


@settings(max_examples=3000, deadline=None)
@given(lines, lines, st.sampled_from(("", "\n", "\n\n")))
def test_random_sections_have_one_meaning(head: list[tuple[int, str]], rows: list[tuple[int, str]], end: str) -> None:
    before = "\n".join(" " * indent + piece for indent, piece in head)
    after = "\n".join(" " * (indent + 2) + piece for indent, piece in rows)
    for start in ("kind: A", before):
        compare_sections(f"{start}\nspec:\n{after}{end}")


def compare_sections(text: str) -> bool:
    """Return True if `read_sections` reads the text; assert that libyaml then reads the same."""
    root = read_sections(text.encode())
    if root is None:
        return False
    try:
        documents = [document.data for document in read_events(text.encode() + b"\n")]
    except DocumentError as error:
        pytest.fail(f"libyaml rejects what the block parser reads: {text!r}: {error}")
    assert repr([root]) == repr(documents), text
    return True


def test_a_literal_block_before_the_sections_keeps_its_last_newline() -> None:
    assert compare_sections("kind: A\nmetadata:\n  a: |\n    b\nspec:\n  c: 1\n")
    assert compare_sections("kind: A\nmetadata:\n  a: |-\n    b\nspec:\n  c: |\n    d\n  e: 1")


def test_sections_of_a_queue_are_shared() -> None:
    queue = "kind: ClusterQueue\nmetadata:\n  name: {}\nspec:\n  a:\n  - b: 1\n  # c\n  d: |\n    e\n"
    assert compare_sections(queue.format("x"))
    first, second = (read_sections(queue.format(name).encode()) for name in ("x", "y"))
    assert first is not None
    assert second is not None
    assert first["spec"] == {"a": [{"b": 1}], "d": "e\n"}
    assert first["spec"]["a"] is second["spec"]["a"]
    assert first["metadata"] != second["metadata"]


@pytest.mark.parametrize(
    "text",
    [
        "kind: A\n",
        "kind: A\nspec:\n- b\n",
        "kind: A\nspec:\n  a: 1\nb: 2\n",
        "kind: A\nspec:\n  a: 1\n---\nb: 2\n",
        "kind: A\nspec:\n  a: 1\n  a: 2\n",
        "spec: 1\nspec:\n  a: 1\n",
        "kind: A\nspec:\n  a: {b: 1}\n",
        "kind: A\n---\nkind: B\nspec:\n  a: 1\n",
        "kind: A\nspec:\n   a: 1\n",
    ],
)
def test_a_text_without_shared_sections_is_left_to_other_parsers(text: str) -> None:
    assert read_sections(text.encode()) is None


@pytest.mark.parametrize("file", RELEASED[::8], ids=lambda file: str(file.relative_to(ROOT / "output")))
def test_a_damaged_release_has_one_meaning(file: Path) -> None:
    text = file.read_text("utf-8")
    assert compare(text), "the block parser reads every file of a release"
    rows, choose = text.split("\n"), random.Random(file.name)
    for _ in range(25):
        damaged = [*rows]
        number = choose.randrange(len(rows))
        match choose.randrange(5):
            case 0:
                del damaged[number]
            case 1:
                damaged[number] = f" {rows[number]}"
            case 2:
                damaged[number] = rows[number][1:]
            case 3:
                damaged[number] = rows[number][:-1]
            case _:
                damaged.insert(number, choose.choice(PIECES))
        compare("\n".join(damaged))


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: 1\nb:\n- x\n-  y: 1\n", None),
        ("a: b\n---\n---\n", None),
        ("a: &x 1\n", None),
        ("a: {b: c}\n", None),
        ("a: 1\na: 2\n", None),
        ("a:\n  b: 1\n c: 2\n", None),
        ("yes: 1\n", None),
        ("", []),
        ("# only a comment\n", []),
        (
            "---\na: 1\n---\n# b\nb:\n- c\n- - d\n- e: f\n  g:\nh: |\n  i\n\n  j\n",
            [{"a": 1}, {"b": ["c", ["d"], {"e": "f", "g": None}], "h": "i\n\nj\n"}],
        ),
        ("a: |-\n  b\nc: |\n  d", [{"a": "b", "c": "d"}]),
    ],
)
def test_a_text_in_another_style_is_left_to_libyaml(text: str, data: list[object] | None) -> None:
    blocks = read_block(text.encode())
    assert blocks is None if data is None else [document for document, _ in blocks or []] == data


def test_load_uses_both_parsers() -> None:
    assert [(item.data, item.index, item.line) for item in load("# c\na: 1\n---\nb: 2\n")] == [
        ({"a": 1}, 0, 2),
        ({"b": 2}, 1, 4),
    ]
    assert [(item.data, item.index, item.line) for item in load("# c\na: [1]\n---\nb: 2\n")] == [
        ({"a": [1]}, 0, 2),
        ({"b": 2}, 1, 4),
    ]
