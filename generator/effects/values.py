"""Values of fields before and after an update, for sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generator.checks.change.immutable import written
from generator.documents.load import Path
from generator.documents.messages import escape_control, format_path

_LISTED = 3  # items of a list in a sentence


def differences(old: Any, new: Any, depth: int, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Yield (path, old value, new value) of each field that differs, with at most `depth` keys in the path.

    A missing field is None.
    """
    if isinstance(old, dict) and isinstance(new, dict) and len(path) < depth:
        for key in {**old, **new}:
            yield from differences(old.get(key), new.get(key), depth, (*path, str(key)))
    elif old != new:
        yield path, old, new


def format_field(path: Path) -> str:
    """Return the path of a field for a sentence, in backticks."""
    return f"`{format_path(path)}`"


def name_path(path: Path) -> str:
    """Return a field below a well-known one in words: `qps` of `clientConnection`."""
    return " of ".join(f"`{escape_control(str(step))}`" for step in reversed(path))


def format_change(old: object, new: object) -> str:
    """Describe a change of a field: ``from `1` to `2` ``, or ``to `2` `` if there was no value.

    For two lists, the text has the added and removed items. It is `in a part of its value` if both values are so long
    that their shortened texts are equal.
    """
    if isinstance(old, list) and isinstance(new, list):
        added, removed = ([item for item in one if item not in other] for one, other in ((new, old), (old, new)))
        parts = [f"with {format_items(added)} added"] if added else []
        parts += [f"with {format_items(removed)} removed"] if removed else []
        return " and ".join(parts) or "in the order of its items"
    was, now = written(old), written(new)
    if old is None:
        return f"to {now}"
    return f"from {was} to {now}" if was != now else "in a part of its value"


def format_items(items: list[object]) -> str:
    """Return the first items of a list, and the number of the others."""
    first = ", ".join(written(item) for item in items[:_LISTED])
    return f"{first} and {len(items) - _LISTED} more" if len(items) > _LISTED else first
