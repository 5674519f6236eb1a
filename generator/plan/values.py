"""Values of fields before and after an update, for sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generator.checks.change.immutable import written
from generator.documents.load import Path
from generator.documents.messages import format_path


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


def format_change(old: object, new: object) -> str:
    """Describe a change of a field: ``from `1` to `2` ``, ``to `2` ``, or ``from `1` to nothing``."""
    return f"to {written(new)}" if old is None else f"from {written(old)} to {written(new)}"
