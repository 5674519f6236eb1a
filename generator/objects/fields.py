"""Readers of fields of manifest bodies.

A value of an unexpected type counts as absent. The checks of the family `schema` report it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: object, *path: str) -> dict[str, Any]:
    """Return the mapping at a path below a value; empty if there is no mapping."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: object) -> Sequence[object]:
    """Return the items of a list; empty for any other value."""
    return value if isinstance(value, list) else ()


def mappings(value: object) -> tuple[dict[str, Any], ...]:
    """Return the items of a list that are mappings, without their indexes; empty for any other value."""
    return tuple(item for item in items(value) if isinstance(item, dict))


def indexed_mappings(value: object) -> list[tuple[int, dict[str, Any]]]:
    """Return (index, item) for the items of a list that are mappings."""
    return [(index, item) for index, item in enumerate(items(value)) if isinstance(item, dict)]


def strings(value: object) -> tuple[str, ...]:
    """Return the items of a list that are strings; empty for any other value."""
    return tuple(item for item in items(value) if isinstance(item, str))


def string(value: object, default: str = "") -> str:
    """Return the value if it is a string and not empty; else `default`."""
    return value if isinstance(value, str) and value else default


def string_map(value: object) -> Mapping[str, str]:
    """Return the entries of a mapping whose values are strings, such as labels; empty for any other value."""
    return {key: item for key, item in mapping(value).items() if isinstance(item, str)}


def integer(value: object, default: int) -> int:
    """Return the value if it is an integer, but not a boolean; else `default`."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default
