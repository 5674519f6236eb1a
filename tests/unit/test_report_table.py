"""Tables: aligned on a pipe, whole on a terminal, and nothing in them that a terminal would obey."""

from __future__ import annotations

from generator.report import table

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


def test_topics_are_told_once_and_long_points_are_wrapped() -> None:
    lines = list(table.topics([("image", "word " * 30), ("image", "second"), ("user", "x")]))
    assert [line[:7].strip() for line in lines] == ["image", "", "", "", "user"]
    assert all(len(line) <= 80 for line in lines)


def test_a_name_cannot_command_the_terminal() -> None:
    assert list(table.table(("A",), [("\x1b[2J",)]))[1] == "\\x1b[2J"
    assert list(table.topics([("a", "\x1b[2J")])) == ["a  \\x1b[2J"]


def test_words_of_other_columns_break_before_a_line_is_too_long() -> None:
    rows = [(f"a-long-name-of-{number}", "nvidia.com/gpu", "unbreakable" * 3, "x") for number in range(3)]
    lines = list(table.table(("NAME", "RESOURCE", "TEXT", "Y"), rows, 60))
    assert all(len(line) <= 60 for line in lines)
    assert [line.split()[0] for line in lines if line.startswith("a-")] == [row[0] for row in rows]
    assert len(list(table.table_rows(("NAME", "RESOURCE", "TEXT", "Y"), rows, 60))) == 4
