"""Where a platform file declares what a checked platform has at a path of names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generator.documents.files import read_file
from generator.documents.load import load
from generator.documents.locate import format_path, locate_all
from generator.errors import MpigenError


@dataclass(frozen=True, slots=True)
class Written:
    """A place in a platform file.

    Attributes:
        path: such as `tenants[0].egress[1].cidr`; of a platform in Python `tenants.team-a.egress.s3.cidr`.
        line: 1-based; 0 if unknown.
        column: 1-based; 0 if unknown.
    """

    path: str
    line: int = 0
    column: int = 0


def written_places(file: Path, paths: Sequence[tuple[str, ...]]) -> list[Written]:
    """Return the place of each path of a platform; without line and column if the file is no YAML.

    Args:
        file: the platform file.
        paths: fields, as spelt in YAML, and names of entries: a platform has its entries in another order.
    """
    unplaced = [Written(".".join(path)) for path in paths]
    if not paths or file.suffix == ".py":
        return unplaced
    try:
        text = read_file(file)
        document = next(document for document in load(text) if document.data is not None)
    except (MpigenError, StopIteration):  # it has changed since it was read
        return unplaced
    written = [_in_file(path, document.data) for path in paths]
    places = locate_all(text, document.index, written)
    return [Written(format_path(path), *places[path].node) for path in written]


def _in_file(path: tuple[str, ...], data: Any) -> tuple[str | int, ...]:
    """Replace names of entries by their positions; the path ends where the file leaves something out."""
    found: list[str | int] = []
    for step in path:
        if isinstance(data, list):
            index = next((at for at, entry in enumerate(data) if _name(entry) == step), None)
            if index is None:
                break
            found.append(index)
            data = data[index]
        elif isinstance(data, dict) and step in data:
            found.append(step)
            data = data[step]
        else:
            break
    return tuple(found)


def _name(entry: Any) -> Any:
    return entry.get("name") if isinstance(entry, dict) else entry
