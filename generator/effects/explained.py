"""The changed fields of objects that no effect of a plan explains."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from generator.checks.objects import Change, ChangedObject
from generator.documents.load import Path
from generator.effects.effect import Effect
from generator.effects.parameters import find_read_parameters
from generator.effects.words import contains, overlaps, parse
from generator.facts.table import read_rows
from generator.manifests import Manifest
from generator.quantities import amount_of

Finder = Callable[[Change], Iterator[Effect]]
_Identity = tuple[str, str, str, str]
_ANY = "*"
_NO_ITEM = (0, None)


@dataclass(frozen=True, slots=True)
class _Row:
    """The fields that a topic reads in the objects of a kind (explained.yaml).

    Any effect of the topic explains the changed fields in `together`.
    """

    topic: str
    kind: str
    fields: tuple[str, ...]
    without: tuple[str, ...] = ()
    group: str = ""
    together: tuple[str, ...] = ()

    def reads(self, path: Path) -> bool:
        """Return True if the topic reads a field, a part of the field or its parent; False for a field in `without`."""
        return _is_one_of(path, self.fields) and not any(contains(parse(text), path) for text in self.without)

    def field_of(self, path: Path) -> str:
        """Return the first field of the table that contains a path that the topic reads."""
        return next(text for text in self.fields if overlaps(parse(text), path))

    def ignores(self, path: Path) -> bool:
        """Return True if the topic reads no part of a field."""
        return not self.reads(path)


@cache
def _rows() -> Mapping[tuple[str, str, str], _Row]:
    """Return (topic, group, kind) → row. The kind `*` has the group ""."""
    return {(row.topic, row.group, row.kind): row for row in read_rows("explained", "rows", _Row, "generator.effects")}


_MOST_UPDATES = 40


def _row(topic: str, group: str, kind: str) -> _Row:
    return _rows().get((topic, group, kind)) or _rows().get((topic, "", _ANY)) or _Row(topic, kind, ())


def is_known(manifest: Manifest, path: Path) -> bool:
    """Return True if a topic reads a field of an object, so that a change without an effect has no consequence."""
    key = (manifest.group, manifest.kind)
    return any((row.group, row.kind) == key and row.reads(path) for row in _rows().values())


def find_unexplained(
    change: Change, effects: Sequence[Effect], finders: Mapping[str, Finder]
) -> Iterator[tuple[Manifest, Sequence[Path]]]:
    """Yield each changed object with its changed fields that no effect explains.

    If a topic reads several changed fields of an object, its effects explain a field only if the topic has other
    effects when the field keeps its old value.

    Args:
        change: the manifests before and after the update.
        effects: the effects of the topics.
        finders: topic → the function that finds its effects.
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
    changed = ChangedObject.between(change)
    rows = {
        item.new.identity: [
            _row(topic, item.new.group, item.new.kind) for topic in sorted(topics.get(item.new.identity, ()))
        ]
        for item in changed
    }
    idle = _find_idle(change, changed, rows, effects, finders)
    for item in changed:
        identity = item.new.identity
        own = fields.get(identity, ())

        def is_explained(path: Path, identity: _Identity = identity, own: Iterable[Path] = own) -> bool:
            return any(row.reads(path) and (row.topic, identity, path) not in idle for row in rows[identity]) or any(
                overlaps(field, path) for field in own
            )

        if paths := _unexplained(item.old.body, item.new.body, (), is_explained):
            yield item.new, paths


def _find_idle(
    change: Change,
    changed: Sequence[ChangedObject],
    rows: Mapping[_Identity, Sequence[_Row]],
    effects: Sequence[Effect],
    finders: Mapping[str, Finder],
) -> set[tuple[str, _Identity, Path]]:
    """Return (topic, object, field) of the changed fields without an influence on the effects of a topic.

    The function plans an update in which all objects of a kind keep the old values of a field of the table, and
    compares the effects. At most `_MOST_UPDATES` such updates are compared, because each of them is a plan of its own.
    """
    groups: dict[tuple[str, str, str, str], list[tuple[ChangedObject, list[Path]]]] = {}
    for item in changed:
        for row in rows[item.new.identity]:
            fields: dict[str, list[Path]] = {}
            for path in _unexplained(item.old.body, item.new.body, (), row.ignores):
                fields.setdefault(row.field_of(path), []).append(path)
            for field, paths in fields.items() if len(fields) > 1 else ():
                if field not in row.together:
                    groups.setdefault((row.topic, item.new.group, item.new.kind, field), []).append((item, paths))
    idle: set[tuple[str, _Identity, Path]] = set()
    for (topic, *_), items in [*groups.items()][:_MOST_UPDATES]:
        kept = {item.new.identity: _keep(item, paths) for item, paths in items}
        new = [kept.get(item.identity, item) for item in change.new]
        others = finders[topic](Change(change.old, new, change.targets, change.today))
        if _meanings(others) == _meanings(effect for effect in effects if effect.topic == topic):
            idle |= {(topic, item.new.identity, path) for item, paths in items for path in paths}
    return idle


def _keep(item: ChangedObject, paths: Sequence[Path]) -> Manifest:
    """Return the new object with the old values at changed paths."""
    body = item.new.body
    for path in reversed(paths):  # so that a removed item of a list moves no item of a later path
        body = _revert(item.old.body, body, path)
    return replace(item.new, body=body)


def _meanings(effects: Iterable[Effect]) -> list[str]:
    return sorted(
        repr((effect.risk, effect.subject, effect.text, effect.details, effect.before, effect.after))
        for effect in effects
    )


def _revert(old: Any, new: Any, path: Path) -> Any:
    """Return a value with the old value at a path that `_unexplained` returned."""
    if not path:
        return copy.deepcopy(old)
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        was, now = (side if isinstance(side, dict) else {} for side in (old, new))
        value = _revert(was.get(step), now.get(step), rest)
        kept = {key: one for key, one in now.items() if key != step}
        return kept if value is None else {**kept, step: value}
    items = list(new)
    for index, was, now in _pair(old, new):
        if index == step:
            place = items.index(now) if now is not None else len(items)
            items[place : place + (now is not None)] = [] if was is None else [_revert(was, now, rest)]
    return items


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
    return [] if is_explained(path) or _is_same_amount(path, old, new) else [path]


def _is_same_amount(path: Path, old: object, new: object) -> bool:
    """Return True if a field has an equal quantity in another form, such as `1k` and `1000`."""
    is_amount = path[-1] in _AMOUNTS or any(step in _AMOUNTS_OF for step in path[-2:-1])
    amounts = [amount_of(value) for value in (old, new)] if is_amount and None not in (old, new) else [None]
    return amounts[0] is not None and amounts[0] == amounts[-1]


_AMOUNTS = frozenset({"nominalQuota", "borrowingLimit", "lendingLimit", "sizeLimit"})
_AMOUNTS_OF = frozenset({"limits", "requests", "hard", "min", "max", "default", "defaultRequest", "capacity"})
"""The fields with a quantity, and the fields with a quantity for each resource."""


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


def _is_one_of(path: Path, patterns: Iterable[str]) -> bool:
    return any(overlaps(parse(text), path) for text in patterns)
