"""Tables and topics for people: within the columns of a terminal, or with one line per row for `grep` and `awk`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from generator.documents.messages import escape_control

_GAP = 2
_COLUMNS = 80


def table(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table, see `table_rows`."""
    for lines in table_rows(header, rows, width):
        yield from lines


def table_rows(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> Iterator[list[str]]:
    """Yield the lines of the header and of each row. An empty cell is a `-`, so that columns can be counted.

    Args:
        header: the names of the columns.
        rows: a cell for each column.
        width: the columns of a line. Long cells are wrapped between words. None for one line per row.
    """
    cells = [list(header), *([escape_control(cell) or "-" for cell in row] for row in rows)]
    widths = _narrow(cells, width) if width else [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        wrapped = [_wrap(cell, size) for cell, size in zip(row, widths, strict=True)]
        yield [
            "".join(part.ljust(size + _GAP) for part, size in zip(line, widths, strict=True)).rstrip()
            for line in zip_longest(*wrapped, fillvalue="")
        ]


def hidden_columns(
    header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None, optional: Sequence[str]
) -> list[str]:
    """Return the columns to hide: the fewest of `optional`, from the first, so that a row fits into `width` columns.

    Rows may wrap between words. Without a width, no column is hidden.
    """
    columns = dict(zip(header, zip(header, *rows, strict=True), strict=True))
    hidden: list[str] = []
    for name in optional:
        if width is None or sum(_minimal_widths(columns.values())) + _GAP * (len(columns) - 1) <= width:
            break
        hidden.append(name)
        del columns[name]
    return hidden


def _minimal_widths(columns: Iterable[Sequence[str]]) -> list[int]:
    """Return the least width of each column: its longest word; for the first column, with names, its longest cell."""
    first, *others = columns
    return [max(map(len, first)), *(max(len(word) for cell in column for word in cell.split()) for column in others)]


def _narrow(cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return column widths that fit into `width` columns of a terminal.

    The widest column shrinks first. No column becomes narrower than its least width, even if the sum is too wide.
    """
    columns = list(zip(*cells, strict=True))
    sizes, least = [max(map(len, column)) for column in columns], _minimal_widths(columns)
    while sum(sizes) + _GAP * (len(sizes) - 1) > width and sizes != least:
        shrinkable = [index for index, size in enumerate(sizes) if size > least[index]]
        sizes[max(shrinkable, key=lambda index: sizes[index])] -= 1
    return sizes


def topics(points: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield (topic, text) pairs in two columns. Consecutive pairs with one topic print the topic once."""
    grouped = [(topic, [point for _, point in group]) for topic, group in groupby(points, key=lambda point: point[0])]
    width = max((len(topic) for topic, _ in grouped), default=0) + _GAP
    for topic, texts in grouped:
        lines = [line for text in texts for line in _wrap(escape_control(text), _COLUMNS - width)]
        for number, line in enumerate(lines):
            yield f"{'' if number else topic:{width}}{line}"


def indent(text: str, width: int | None) -> list[str]:
    """Return the indented lines of a text, wrapped at `width` columns; a single line without a width."""
    return [f"    {line}" for line in _wrap(escape_control(text), (width or len(text) + 4) - 4)]


def _wrap(text: str, width: int) -> list[str]:
    """Return the lines of a text of at most `width` columns. Only the first line keeps the indentation.

    No word breaks, so that names and amounts can be copied.
    """
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
