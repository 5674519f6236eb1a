"""A schema as its difference from the schema of the next newer version, which has most of the same fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """Return the schema of which `differ` returned the difference. The base stays unchanged."""
    schema = _merge(base, difference[_SET])
    for *above, key in difference[_REMOVED]:
        part: dict[str, Any] = schema
        for step in above:
            part = part[step]
        del part[key]
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
    """Return the base with the values of a tree. Each mapping of the result is new."""
    merged = {key: _merge(value, {}) if isinstance(value, dict) else value for key, value in base.items()}
    for key, value in changed.items():
        old = base.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
