"""The changed fields of objects that no effect of a plan explains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from generator.checks.objects import Change, ChangedObject
from generator.documents.load import Path
from generator.documents.messages import parse_path
from generator.facts.table import read_rows
from generator.manifests import Manifest
from generator.plan.effect import Effect
from generator.plan.parameters import find_read_parameters

_Identity = tuple[str, str, str, str]
_ANY, _ALL = "*", "**"
_NO_ITEM = (0, None)


@dataclass(frozen=True, slots=True)
class _Row:
    """The fields that a topic reads in the objects of a kind (explained.yaml)."""

    topic: str
    kind: str
    fields: tuple[str, ...]
    without: tuple[str, ...] = ()
    group: str = ""

    def reads(self, path: Path) -> bool:
        """Return True if the topic reads a field, a part of the field or its parent; False for a field in `without`."""
        return _is_one_of(path, self.fields) and not any(_contains(_parse(text), path) for text in self.without)


@cache
def _rows() -> Mapping[tuple[str, str, str], _Row]:
    """Return (topic, group, kind) → row. The kind `*` has the group ""."""
    return {(row.topic, row.group, row.kind): row for row in read_rows("explained", "rows", _Row, "generator.plan")}


def _row(topic: str, group: str, kind: str) -> _Row:
    return _rows().get((topic, group, kind)) or _rows().get((topic, "", _ANY)) or _Row(topic, kind, ())


def is_known(manifest: Manifest, path: Path) -> bool:
    """Return True if a topic reads a field of an object, so that a change without an effect has no consequence."""
    key = (manifest.group, manifest.kind)
    return any((row.group, row.kind) == key and row.reads(path) for row in _rows().values())


def find_unexplained(change: Change, effects: Iterable[Effect]) -> Iterator[tuple[Manifest, Sequence[Path]]]:
    """Yield each changed object with its changed fields that no effect explains.

    Args:
        change: the manifests before and after the update.
        effects: the effects of the topics.
    """
    topics: dict[_Identity, set[str]] = {}
    fields: dict[_Identity, set[Path]] = {}
    for effect in effects:
        for cause in effect.causes:
            if effect.fields:
                fields.setdefault(cause.identity, set()).update(effect.fields)
            else:
                topics.setdefault(cause.identity, set()).add(effect.topic)
    for identity, annotation in find_read_parameters(change):
        fields.setdefault(identity, set()).add(("metadata", "annotations", annotation))
    for item in ChangedObject.between(change):
        identity = item.new.identity
        rows = [_row(topic, item.new.group, item.new.kind) for topic in sorted(topics.get(identity, ()))]
        own = fields.get(identity, ())

        def is_explained(path: Path, rows: Sequence[_Row] = rows, own: Iterable[Path] = own) -> bool:
            return any(row.reads(path) for row in rows) or any(_overlaps(field, path) for field in own)

        if paths := _unexplained(item.old.body, item.new.body, (), is_explained):
            yield item.new, paths


def _unexplained(old: Any, new: Any, path: Path, is_explained: Callable[[Path], bool]) -> list[Path]:
    """Return the paths of changed fields. An added or removed mapping is one field if no part of it is explained."""
    if old == new:
        return []
    sides = [side for side in (old, new) if side is not None and side != {}]
    if sides and all(isinstance(side, dict) for side in sides):
        was, now = (side or {} for side in (old, new))
        keys = {**was, **now}
        parts = [_unexplained(was.get(key), now.get(key), (*path, str(key)), is_explained) for key in keys]
        is_whole = path and len(sides) == 1 and parts == [[(*path, str(key))] for key in keys]
        return [path] if is_whole else [one for part in parts for one in part]
    if isinstance(old, list) and isinstance(new, list) and (pairs := _pair(old, new)):
        parts = [_unexplained(was, now, (*path, index), is_explained) for index, was, now in pairs]
        return list(dict.fromkeys(one for part in parts for one in part))
    return [] if is_explained(path) else [path]


def _pair(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[int, Any, Any]]:
    """Return (position, old item, new item) of changed items: items with equal names, or at equal positions.

    The result is empty if the lists have different lengths and items without names, or the same named items in another
    order.
    """
    was, now = _by_name(old), _by_name(new)
    if was is not None and now is not None:
        names = {**was, **now}
        both = [(names[name][0], was.get(name, _NO_ITEM)[1], now.get(name, _NO_ITEM)[1]) for name in names]
        return [pair for pair in both if pair[1] != pair[2]]
    if len(old) != len(new):
        return []
    triples = ((number, *pair) for number, pair in enumerate(zip(old, new, strict=True)))
    return [triple for triple in triples if triple[1] != triple[2]]


def _by_name(items: Sequence[Any]) -> dict[str, tuple[int, Any]] | None:
    """Return name → (position, item); None if an item has no name of its own."""
    named = {
        item["name"]: (number, item)
        for number, item in enumerate(items)
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    }
    return named if len(named) == len(items) else None


@cache
def _parse(text: str) -> Path:
    return parse_path(text)


def _is_one_of(path: Path, patterns: Iterable[str]) -> bool:
    return any(_overlaps(_parse(text), path) for text in patterns)


def _overlaps(pattern: Path, path: Path) -> bool:
    """Return True if a pattern names a field, its parent or a part of it."""
    if not pattern or not path:
        return True
    if pattern[0] == _ALL:
        return len(pattern) == 1 or any(_overlaps(pattern[1:], path[number:]) for number in range(len(path)))
    return _is_step(pattern[0], path[0]) and _overlaps(pattern[1:], path[1:])


def _contains(pattern: Path, path: Path) -> bool:
    """Return True if a pattern names a field or its parent."""
    return len(pattern) <= len(path) and _overlaps(pattern, path)


def _is_step(pattern: str | int, step: str | int) -> bool:
    if isinstance(pattern, str) and pattern.endswith(_ANY):
        return str(step).startswith(pattern.removesuffix(_ANY))
    return pattern == step
