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
    """

    folder: Path | None = None
    targets: Targets = ()


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
        if targets := _targets(folder / LOCK):
            known[folder] = Origin(folder, targets)
        else:
            known[folder] = Origin() if above == folder else _of_folder(above, known)
    return known[folder]


def _targets(lock: Path) -> Targets:
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        targets = json.loads(lock.read_bytes())["spec"]["targets"]
        return tuple(sorted((str(name), str(minor)) for name, minor in targets.items()))
    return ()
