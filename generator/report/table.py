"""Tables and topics for people: as wide as the terminal, or on a pipe in plain columns for `grep` and `awk`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from generator.documents.syntax import on_one_line

if TYPE_CHECKING:
    from rich.table import Table

_GAP = 2
_COLUMNS = 100


def plain(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A line for the header and for each row; an empty cell is a `-`, so that columns can be counted."""
    cells = [header, *([_safe(cell) or "-" for cell in row] for row in rows)]
    widths = [max(map(len, column)) + _GAP for column in zip(*cells, strict=True)]
    for row in cells:
        yield "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def coloured(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """The same, wrapped within columns where the terminal is narrow."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for number, name in enumerate(header):
        table.add_column(name, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(_safe(cell) or "-") for cell in row))
    return table


def topics(points: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Points below their topics, in two columns."""
    grouped = [(topic, [point for _, point in found]) for topic, found in groupby(points, key=lambda point: point[0])]
    width = max((len(topic) for topic, _ in grouped), default=0) + _GAP
    for topic, found in grouped:
        lines = [line for point in found for line in _wrapped(point, _COLUMNS - width)]
        for number, line in enumerate(lines):
            yield f"{'' if number else topic:{width}}{line}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(_safe(text), width, break_on_hyphens=False, break_long_words=False)


def _safe(text: str) -> str:
    """Nothing in it that a terminal would obey: names come from anybody's files."""
    return on_one_line(text, len(text))
