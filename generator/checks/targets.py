"""Which versions a file on disk was made for: the lock of its release says so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

LOCK = "release.json"
Targets = tuple[tuple[str, str], ...]
"""Component and minor version, sorted."""


def by_targets(files: Iterable[Path]) -> Mapping[Targets, list[Path]]:
    """The files, by the target versions of the release that each belongs to; of none: no targets."""
    found: dict[Targets, list[Path]] = {}
    known: dict[Path, Targets] = {}
    for file in files:
        found.setdefault(_of_folder(file.parent.absolute(), known), []).append(file)
    return found


def _of_folder(folder: Path, known: dict[Path, Targets]) -> Targets:
    """Those of the nearest lock, in the folder or above it."""
    if folder not in known:
        above = folder.parent
        known[folder] = _targets(folder / LOCK) or (() if above == folder else _of_folder(above, known))
    return known[folder]


def _targets(lock: Path) -> Targets:
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        targets = json.loads(lock.read_bytes())["spec"]["targets"]
        return tuple(sorted((str(name), str(minor)) for name, minor in targets.items()))
    return ()
