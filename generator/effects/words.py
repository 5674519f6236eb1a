"""Words for the fields of objects: words.yaml lists fields that no topic reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from generator.documents.load import Path
from generator.documents.messages import escape_control, parse_path
from generator.effects.places import join
from generator.facts.table import read_rows

_LISTED = 3  # fields in a sentence
_ANY, _ALL = "*", "**"


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of words.yaml."""

    kind: str
    path: str
    words: str
    risk: str = ""


@cache
def _rows() -> tuple[_Row, ...]:
    return read_rows("words", "rows", _Row, "generator.effects")


def _find(kind: str, path: Path) -> _Row | None:
    return next((row for row in _rows() if row.kind in (kind, _ANY) and contains(parse(row.path), path)), None)


def find_risk(kind: str, path: Path) -> str:
    """Return the risk of a change of a field that no topic reads; empty if its consequence is unknown."""
    row = _find(kind, path)
    return row.risk if row else ""


def name_field(kind: str, path: Path) -> str:
    """Return a field of an object in words, such as `its description`, or ``the field `priority` ``."""
    key = escape_control(next((step for step in reversed(path) if isinstance(step, str)), kind))
    row = _find(kind, path)
    if row is None:
        return f"the field `{key}`"
    second = escape_control(str(path[1])) if len(path) > 1 else ""
    return row.words.replace("{key}", key).replace("{1}", second)


def name_fields(kind: str, paths: Iterable[Path]) -> str:
    """Return fields of an object in words, and only the first ones of many."""
    names = [*dict.fromkeys(name_field(kind, path) for path in paths)]
    more = len(names) - _LISTED
    return join([*names[:_LISTED], *([f"{more} more {'field' if more == 1 else 'fields'}"] if more > 0 else [])])


@cache
def parse(text: str) -> Path:
    """Return a pattern of a path as its steps."""
    return parse_path(text)


def overlaps(pattern: Path, path: Path) -> bool:
    """Return True if a pattern names a field, its parent or a part of it."""
    if not pattern or not path:
        return True
    if pattern[0] == _ALL:
        return len(pattern) == 1 or any(overlaps(pattern[1:], path[number:]) for number in range(len(path)))
    return _is_step(pattern[0], path[0]) and overlaps(pattern[1:], path[1:])


def contains(pattern: Path, path: Path) -> bool:
    """Return True if a pattern names a field or its parent."""
    return len(pattern) <= len(path) and overlaps(pattern, path)


def _is_step(pattern: str | int, step: str | int) -> bool:
    if isinstance(pattern, str) and pattern.endswith(_ANY):
        return str(step).startswith(pattern.removesuffix(_ANY))
    return pattern == step
