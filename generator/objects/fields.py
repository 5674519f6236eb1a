"""Lenient readers of manifest bodies.

A value of an unexpected type counts as absent: the schema checks report it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: object, *path: str) -> dict[str, Any]:
    """Return the mapping at a path, or an empty one."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: object) -> Sequence[object]:
    """Return the items of a list, or none."""
    return value if isinstance(value, list) else ()


def mappings(value: object) -> tuple[dict[str, Any], ...]:
    """Return the mappings in a list."""
    return tuple(item for item in items(value) if isinstance(item, dict))


def indexed_mappings(value: object) -> list[tuple[int, dict[str, Any]]]:
    """Return the mappings in a list, each with its index in the list."""
    return [(index, item) for index, item in enumerate(items(value)) if isinstance(item, dict)]


def strings(value: object) -> tuple[str, ...]:
    """Return the strings in a list."""
    return tuple(item for item in items(value) if isinstance(item, str))


def string(value: object, default: str = "") -> str:
    """Return a string that is not empty, or the default, which is what the API server would fill in."""
    return value if isinstance(value, str) and value else default


def string_map(value: object) -> Mapping[str, str]:
    """Return the string values of a mapping, such as labels or annotations."""
    return {key: item for key, item in mapping(value).items() if isinstance(item, str)}


def integer(value: object, default: int) -> int:
    """Return an integer, or the default."""
    return value if isinstance(value, int) and not isinstance(value, bool) else default
