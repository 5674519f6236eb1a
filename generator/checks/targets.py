"""Which release a file on disk belongs to, and which versions it was made for: the lock of the release says so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from generator.documents.files import read_file
from generator.errors import InputError

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
    passed = []
    origin = Origin()
    for each in (folder, *folder.parents):
        if each in known:
            origin = known[each]
            break
        passed.append(each)
        if found := _said(each):
            origin = found
            break
    known.update(dict.fromkeys(passed, origin))
    return origin


def _said(folder: Path) -> Origin | None:
    """What the lock of a folder says; None where there is none."""
    with suppress(InputError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        lock = json.loads(read_file(folder / LOCK))
        targets = tuple(sorted((str(name), str(minor)) for name, minor in lock["spec"]["targets"].items()))
        name = lock.get("metadata", {}).get("name")
        if not targets:
            return None
        return Origin(folder, targets, name if isinstance(name, str) and name else folder.parent.name)
    return None
