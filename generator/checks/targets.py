"""Which release a file on disk belongs to, and which versions it was made for: the lock of the release says so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOCK = "release.json"
Targets = tuple[tuple[str, str], ...]
"""Component and minor version, sorted."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The release that a file belongs to.

    Attributes:
        folder: where its lock is; None if the file belongs to no release.
        targets: what it was made for.
        platform: the name of the platform that it is a release of.
    """

    folder: Path | None = None
    targets: Targets = ()
    platform: str = ""


def by_release(files: Iterable[Path]) -> Mapping[Origin, list[Path]]:
    """The files, by the release that each belongs to."""
    found: dict[Origin, list[Path]] = {}
    known: dict[Path, Origin] = {}
    for file in files:
        found.setdefault(_of_folder(file.parent.absolute(), known), []).append(file)
    return found


def _of_folder(folder: Path, known: dict[Path, Origin]) -> Origin:
    """That of the nearest lock, in the folder or above it."""
    if folder not in known:
        above = folder.parent
        if found := _said(folder):
            known[folder] = found
        else:
            known[folder] = Origin() if above == folder else _of_folder(above, known)
    return known[folder]


def _said(folder: Path) -> Origin | None:
    """What the lock of a folder says; None where there is none."""
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        lock = json.loads((folder / LOCK).read_bytes())
        targets = tuple(sorted((str(name), str(minor)) for name, minor in lock["spec"]["targets"].items()))
        name = lock.get("metadata", {}).get("name")
        if not targets:
            return None
        return Origin(folder, targets, name if isinstance(name, str) and name else folder.parent.name)
    return None
