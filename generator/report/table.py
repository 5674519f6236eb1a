"""Tables and topics for people: within the columns of a terminal, or with one line per row for `grep` and `awk`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from generator.documents.messages import shorten

_GAP = 2
_COLUMNS = 80
_NARROWEST = 6


def table(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table, see `table_rows`."""
    for lines in table_rows(header, rows, width):
        yield from lines


def table_rows(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> Iterator[list[str]]:
    """Yield the lines of the header and of each row. An empty cell is a `-`, so that columns can be counted.

    Args:
        header: the names of the columns.
        rows: a cell for each column.
        width: the most columns of a line, so that long cells are wrapped; None for one line per row.
    """
    cells = [list(header), *([_safe(cell) or "-" for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if width:
        words = [max(len(word) for cell in column for word in cell.split()) for column in zip(*cells, strict=True)]
        widths = _narrow(widths, words, width)
    for row in cells:
        wrapped = [_wrap(cell, size) for cell, size in zip(row, widths, strict=True)]
        yield [
            "".join(part.ljust(size + _GAP) for part, size in zip(line, widths, strict=True)).rstrip()
            for line in zip_longest(*wrapped, fillvalue="")
        ]


def _narrow(widths: Sequence[int], words: list[int], width: int) -> list[int]:
    """Return widths of columns that fit a line.

    The widest column shrinks first. Words break only if they must, and the names in the first column stay whole.
    """
    sizes = list(widths)
    room = width - _GAP * (len(sizes) - 1)
    for least in (words, [_NARROWEST] * len(sizes)):
        least[0] = widths[0]
        while sum(sizes) > room:
            spare = [size - limit for size, limit in zip(sizes, least, strict=True)]
            if max(spare) <= 0:
                break
            sizes[max(range(len(sizes)), key=lambda index: (spare[index] > 0, sizes[index]))] -= 1
    return sizes


def topics(points: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield points below their topics, in two columns."""
    grouped = [(topic, [point for _, point in group]) for topic, group in groupby(points, key=lambda point: point[0])]
    width = max((len(topic) for topic, _ in grouped), default=0) + _GAP
    for topic, texts in grouped:
        lines = [line for text in texts for line in _wrap(_safe(text), _COLUMNS - width, breaks_words=False)]
        for number, line in enumerate(lines):
            yield f"{'' if number else topic:{width}}{line}"


def _wrap(text: str, width: int, *, breaks_words: bool = True) -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=breaks_words)


def _safe(text: str) -> str:
    """Return a text without characters that control a terminal: names come from files of other people."""
    return shorten(text, len(text))
