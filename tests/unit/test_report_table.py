"""Test that tables are aligned on a pipe, whole on a terminal, and free of terminal escapes."""

from __future__ import annotations

import pytest

from generator.cli.inputs import read_cluster
from generator.report import queues as report
from generator.report import table
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.queues import read_queue_tree
from tests.conftest import ROOT

HEADER, ROWS = ("NAME", "FOR"), [("openmpi", "all"), ("mpich", "")]


def test_columns_are_aligned_and_empty_cells_can_be_counted() -> None:
    assert list(table.table(HEADER, ROWS)) == ["NAME     FOR", "openmpi  all", "mpich    -"]


def test_a_table_without_rows_is_its_header() -> None:
    assert list(table.table(HEADER, [])) == ["NAME  FOR"]


def test_names_stay_whole_on_a_narrow_terminal() -> None:
    rows = [("horovod-tensorflow", "a text that is much too long for a line")]
    lines = list(table.table(HEADER, rows, 40))
    assert lines[1].startswith("horovod-tensorflow  a text")
    assert all(len(line) <= 40 for line in lines)


def test_topics_are_printed_once_and_long_points_are_wrapped() -> None:
    lines = list(table.topics([("image", "word " * 30), ("image", "second"), ("user", "x")]))
    assert [line[:7].strip() for line in lines] == ["image", "", "", "", "user"]
    assert all(len(line) <= 80 for line in lines)


def test_a_name_cannot_control_the_terminal() -> None:
    assert list(table.table(("A",), [("\x1b[2J",)]))[1] == "\\x1b[2J"
    assert list(table.topics([("a", "\x1b[2J")])) == ["a  \\x1b[2J"]


def test_no_word_breaks_on_a_terminal_that_is_too_narrow() -> None:
    rows = [(f"a-long-name-of-{number}", "nvidia.com/gpu", "unbreakable" * 3, "x") for number in range(3)]
    lines = list(table.table(("NAME", "RESOURCE", "TEXT", "Y"), rows, 60))
    assert [line.split() for line in lines[1:]] == [list(row) for row in rows]


def test_optional_columns_are_hidden_until_the_words_of_the_others_have_room() -> None:
    header, rows = ("NAME", "LENDS", "NOTE"), [("a" * 10, "100", "two words")]
    assert table.hidden_columns(header, rows, None, ["LENDS"]) == []
    assert table.hidden_columns(header, rows, 24, ["LENDS"]) == []
    assert table.hidden_columns(header, rows, 23, ["LENDS"]) == ["LENDS"]
    assert table.hidden_columns(header, rows, 5, ["LENDS"]) == ["LENDS"]


@pytest.mark.parametrize("name", ["university", "openshift-h100", "cpu-kubernetes"])
def test_the_queues_of_an_example_fit_80_columns_without_breaking_a_word(name: str) -> None:
    files = read_cluster([ROOT / "output" / name])
    manifests, targets = files.manifests, files.targets
    tree = read_queue_tree(manifests, targets.get("kueue", ""))
    largest = list(largest_jobs(tree, manifests))
    words = set(" ".join(report.text(tree, largest)).split())
    lines = list(report.text(tree, largest, 80))
    end = next(index for index, line in enumerate(lines) if line.startswith("Computed by"))
    assert [line for line in lines[:end] if len(line) > 80] == []
    tables = [line for line in lines if not line.startswith(("The terminal is too narrow", "Widen the terminal"))]
    assert {word for line in tables for word in line.split()} <= words
