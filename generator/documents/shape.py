"""Values of the shape that a reader expects. A value of another shape counts as absent: documents may have any."""

from __future__ import annotations

from typing import Any


def mapping(value: object, *path: str) -> dict[str, Any]:
    """Return the mapping at a path, or an empty one."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def texts(value: object) -> tuple[str, ...]:
    """Return the strings of a list; none if it is no list."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
