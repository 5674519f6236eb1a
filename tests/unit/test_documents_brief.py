"""What is written briefly means the same to every reader, and short things stand on one line."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given, settings
from ruamel.yaml import YAML

from generator.documents.emit import BriefEmitter
from generator.documents.load import load
from tests.unit.test_documents_written import TREACHEROUS, documents, exact


@settings(deadline=None, max_examples=250)
@given(documents)
@example({text: text for text in TREACHEROUS})
@example({"x": {text: {"y": text} for text in TREACHEROUS}})
@example({text: [text] for text in TREACHEROUS})
def test_every_reader_reads_what_was_written(written: dict[str, Any]) -> None:
    text = BriefEmitter().emit([written])
    assert exact([document.data for document in load(text)]) == exact([written])
    assert exact(yaml.safe_load(text)) == exact(written)
    assert exact(YAML(typ="safe", pure=True).load(text)) == exact(written)


def test_words_and_mappings_without_lists_stand_on_one_line() -> None:
    text = BriefEmitter().emit([{"a": {"b": "c:d", "e": {"f": 1}}, "g": {"h": ["mpirun", "-n", "on"]}}])
    assert text == '---\na: {b: "c:d", e: {f: 1}}\ng:\n  h: [mpirun, "-n", "on"]\n'


def test_what_is_long_or_has_several_lines_is_spread() -> None:
    long = [f"word-{number}" for number in range(20)]
    assert BriefEmitter().emit([{"a": long}]).count("\n") == 22
    assert BriefEmitter().emit([{"a": ["sh", "x\ny\n"]}]) == "---\na:\n- sh\n- |\n  x\n  y\n"
