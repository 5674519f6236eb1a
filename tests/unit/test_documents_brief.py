"""Test that brief YAML reads the same with every parser, and that short values stand on one line."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given, settings
from ruamel.yaml import YAML

from generator.documents.emit import BriefEmitter
from generator.documents.load import load
from tests.unit.test_documents_emitter import TREACHEROUS, documents, exact


@settings(deadline=None, max_examples=250)
@given(documents)
@example({text: text for text in TREACHEROUS})
@example({"x": {text: {"y": text} for text in TREACHEROUS}})
@example({text: [text] for text in TREACHEROUS})
def test_every_parser_reads_the_written_value(written: dict[str, Any]) -> None:
    text = BriefEmitter().emit([written])
    assert exact([document.data for document in load(text)]) == exact([written])
    assert exact(yaml.safe_load(text)) == exact(written)
    assert exact(YAML(typ="safe", pure=True).load(text)) == exact(written)


def test_words_and_mappings_without_lists_are_written_on_one_line() -> None:
    text = BriefEmitter().emit([{"a": {"b": "c:d", "e": {"f": 1}}, "g": {"h": ["mpirun", "-n", "on"]}}])
    assert text == '---\na: {b: "c:d", e: {f: 1}}\ng:\n  h: [mpirun, "-n", "on"]\n'


def test_long_and_multiline_values_are_written_on_several_lines() -> None:
    long = [f"word-{number}" for number in range(20)]
    assert BriefEmitter().emit([{"a": long}]).count("\n") == 22
    assert BriefEmitter().emit([{"a": ["sh", "x\ny\n"]}]) == "---\na:\n- sh\n- |\n  x\n  y\n"
