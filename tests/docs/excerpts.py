"""Excerpts of manifests for the pages of checks: the changed lines, their neighbours, and the objects around them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

_NEIGHBOURS = 1
_WHOLE = 12
"""An object of at most this many lines is shown whole."""
_NAMES = re.compile(r"^(apiVersion|kind|metadata):|^  (name|namespace):")

Row = tuple[str, str]
"""The sign of a diff (` `, `-` or `+`) and a line."""


def show_marked(text: str, other: str, marks: Mapping[int, str]) -> str:
    """Return the lines of a text that differ from another text or have a mark, with the lines that give them a place.

    Args:
        text: YAML documents.
        other: the documents that the text is compared with.
        marks: number of a line, from 1 → the comment to show behind the line.
    """
    lines = text.splitlines()
    changed = {row for row, line in _positions(other.splitlines(), lines) if line != "---"}
    shown = [(" ", f"{line}  # {marks[row]}" if row in marks else line) for row, line in enumerate(lines, start=1)]
    return _join(_excerpt(shown, {*changed, *(row - 1 for row in marks)}), signs=False)


def show_change(before: str, after: str) -> str:
    """Return the change of YAML documents as a diff, with the lines that give each change a place."""
    old, new = before.splitlines(), after.splitlines()
    rows: list[Row] = []
    for kind, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            rows += [(" ", line) for line in old[start:end]]
        else:
            rows += [("-", line) for line in old[start:end]] + [("+", line) for line in new[first:last]]
    return _join(
        _excerpt(rows, {index for index, (sign, line) in enumerate(rows) if sign != " " and line.strip()}), signs=True
    )


def _positions(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (index, line) of the lines of `new` that `old` lacks."""
    for kind, _, _, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from ((index, new[index]) for index in range(first, last))


def _excerpt(rows: Sequence[Row], wanted: set[int]) -> Iterator[Row]:
    """Yield the wanted rows of documents with their places, and `# ...` in place of other rows."""
    is_first = True
    for start, end in _documents(rows):
        chosen = {index for index in wanted if start <= index < end}
        if not chosen:
            continue
        kept = set(range(start, end)) if end - start <= _WHOLE else {*_places(rows, start, end, chosen)}
        if not is_first:
            yield " ", "---"
        is_first = False
        last = start - 1
        for index in sorted(index for index in kept if rows[index][1].strip()):
            if index > last + 1:
                yield " ", f"{' ' * _indent(rows[index][1])}# ..."
            yield rows[index]
            last = index
        if last < end - 1:
            yield " ", "# ..."


def _documents(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Yield the first row of each document, and the row behind its last one."""
    starts = [index + 1 for index, (_, line) in enumerate(rows) if line == "---"]
    yield from zip([0, *starts], [*(start - 1 for start in starts), len(rows)], strict=True)


def _places(rows: Sequence[Row], start: int, end: int, chosen: set[int]) -> Iterator[int]:
    """Yield the chosen rows, their neighbours, the keys that they are below, and the names of their object."""
    near = chain.from_iterable(range(index - _NEIGHBOURS, index + _NEIGHBOURS + 1) for index in chosen)
    yield from (index for index in near if start <= index < end)
    yield from (index for index in range(start, end) if _NAMES.match(rows[index][1]) and not _in_text(rows, index))
    for index in chosen:
        indent = _indent(rows[index][1])
        for above in range(index - 1, start - 1, -1):
            if rows[above][1].strip() and _indent(rows[above][1]) < indent:
                indent = _indent(rows[above][1])
                yield above


def _in_text(rows: Sequence[Row], index: int) -> bool:
    """Return True for a `name:` that is not below `metadata:`."""
    if rows[index][1][:1] != " ":
        return False
    above = next((line for _, line in reversed(rows[:index]) if line[:1] not in {" ", ""}), "")
    return not above.startswith("metadata:")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _join(rows: Iterator[Row], *, signs: bool) -> str:
    return "\n".join(f"{sign}{line}" if signs else line for sign, line in rows)
