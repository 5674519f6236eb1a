"""A schema as its difference from the schema of the next newer version, which has most of the same fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from generator.schemas.json_schema import Schema

_SET, _REMOVED = "set", "removed"


def differ(base: Schema, schema: Schema) -> Schema:
    """Return the difference of a schema from another: `set`, a tree of the new values, and `removed`, paths of keys.

    >>> differ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4}})
    {'set': {'b': {'c': 4}}, 'removed': [['a'], ['b', 'd']]}
    """
    return {_SET: _changed(base, schema), _REMOVED: [list(path) for path in sorted(_removed(base, schema))]}


def restore(base: Schema, difference: Schema) -> Schema:
    """Return the schema of which `differ` returned the difference.

    The base stays unchanged. The result shares with it the parts that are equal, so do not change either.
    """
    schema = _merge(base, difference[_SET])
    for path in difference[_REMOVED]:
        schema = _drop(schema, path)
    return schema


def _changed(base: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    changed = {}
    for key, value in schema.items():
        old = base.get(key)
        if key in base and isinstance(old, dict) and isinstance(value, dict):
            if below := _changed(old, value):
                changed[key] = below
        elif key not in base or old != value or type(old) is not type(value):
            changed[key] = value
    return changed


def _removed(base: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, old in base.items():
        if key not in schema:
            yield (key,)
        elif isinstance(old, dict) and isinstance(schema[key], dict):
            yield from ((key, *path) for path in _removed(old, schema[key]))


def _merge(base: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base with the values of a tree."""
    merged = dict(base)
    for key, value in changed.items():
        old = base.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _drop(schema: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return a schema without the key at a path."""
    first, *rest = path
    if rest:
        return {**schema, first: _drop(schema[first], rest)}
    return {key: value for key, value in schema.items() if key != first}
