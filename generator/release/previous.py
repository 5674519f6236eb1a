"""The release that a new one replaces in the cluster: the one that the pointer names, or the newest before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from generator.errors import OutputError, Problem
from generator.manifests import Manifest, read
from generator.release.exchange import report_os_errors
from generator.release.folder import read_file, read_pointer
from generator.release.lock import LOCK, NAME, Lock, Release, digest

_Size = tuple[int, str]
"""The number of digits, and the digits: Python reads no integer of more than 4,300 digits."""


def precedence(version: str) -> tuple[list[_Size], bool, list[tuple[bool, _Size, str]]]:
    """A sort key for versions: numbers as numbers, a pre-release before its release (semver.org, 11)."""
    core, _, pre = version.partition("+")[0].partition("-")
    return [_size(number) for number in re.findall(r"[0-9]+", core)], not pre, [_rank(one) for one in pre.split(".")]


def _size(digits: str) -> _Size:
    significant = digits.lstrip("0")
    return len(significant), significant


def _rank(identifier: str) -> tuple[bool, _Size, str]:
    """A sort key for a part of a pre-release: numbers by size and before words, which go by their letters."""
    return (False, _size(identifier), "") if identifier.isdecimal() else (True, (0, ""), identifier)


def read_previous(release: Release, tree: Sequence[Manifest], root: Path) -> list[Manifest]:
    """The objects of the release below `root` that this one replaces, each with its file; none if there is none.

    A release that is made anew does not replace itself. Files that are not ours are left out, on both sides.

    Args:
        release: the one to be written.
        tree: its manifests.
        root: the output folder.

    Raises:
        OutputError: the system refuses to read it, or its lock is damaged.
        DocumentError: a file of it is not YAML.
    """
    home = root / release.platform
    with report_os_errors(home):
        folder = _folder(release, home)
        return list(_manifests(folder, release, tree)) if folder else []


def _folder(release: Release, home: Path) -> Path | None:
    """The pointer is only believed where there is to be one."""
    versions = {path.parent.name for path in home.glob(f"*/{LOCK}") if NAME.fullmatch(path.parent.name)}
    versions.discard(release.version)
    named = read_pointer(release, home).version if release.pointer(release.version) else ""
    if named in versions:
        return home / named
    ours = precedence(release.version)
    older = sorted((version for version in versions if precedence(version) < ours), key=precedence)
    return home / older[-1] if older else None


def _manifests(folder: Path, release: Release, tree: Sequence[Manifest]) -> Iterator[Manifest]:
    """Of a file that stays as it is, those of the new tree: most do, and reading YAML takes its time."""
    same: dict[str, list[Manifest]] = {}
    for manifest in tree:
        same.setdefault(manifest.file, []).append(manifest)
    for path in _lock(folder).files:
        try:
            data = read_file(folder, path)
        except FileNotFoundError:  # deleted by hand, so that nobody applies it
            continue
        file = str(folder / path)
        if path in release.files and digest(data) == digest(release.files[path].encode()):
            yield from (replace(manifest, file=file) for manifest in same.get(path, ()))
        else:
            yield from read(data, file)


def _lock(folder: Path) -> Lock:
    try:
        return Lock.decode(read_file(folder, LOCK))
    except ValueError as error:
        problem = Problem(f"cannot be read: {error}", "put it back (`git checkout`)", str(folder / LOCK))
        raise OutputError((problem,)) from None
