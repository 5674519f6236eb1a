"""Read release folders: generated files, other files, edits by hand, and the release that a new one replaces."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import replace as but
from io import BufferedReader
from pathlib import Path

from generator.documents.files import MAX_FILE
from generator.errors import OutputError, Problem
from generator.manifests import Manifest, read
from generator.release.exchange import parent_folders, report_os_errors
from generator.release.lock import LOCK, NAME, POINTER, POINTER_LOCK, Lock, Release, digest, target_pointer

_PUT_BACK = "restore the file (`git checkout`) and make the change in the platform file, or pass --discard-edits"


@dataclass(frozen=True, slots=True)
class Folder:
    """A release or pointer folder on disk.

    Attributes:
        path: the folder, which may be missing.
        digests: path → digest of every file except the lock.
        folders: every folder below it.
        lock: the lock; None if it is missing or unreadable.
        lock_data: the bytes of the lock; empty if it is missing.
        odd: problems: one per link, device or other special file.
        unlocked: the problem of files without a readable lock.
        edits: path of a generated file that was edited by hand → its problem.
    """

    path: Path
    digests: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    lock: Lock | None = None
    lock_data: bytes = b""
    odd: tuple[Problem, ...] = ()
    unlocked: tuple[Problem, ...] = ()
    edits: Mapping[str, Problem] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return True if the folder holds no files."""
        return not (self.digests or self.lock_data or self.odd or self.unlocked)

    @property
    def version(self) -> str:
        """The release that the lock names; empty without a lock."""
        return self.lock.version if self.lock else ""

    @property
    def ours(self) -> dict[str, str]:
        """Path → digest of each file that the lock lists and that exists."""
        return {path: self.digests[path] for path in (self.lock.files if self.lock else ()) if path in self.digests}

    @property
    def kept(self) -> tuple[str, ...]:
        """The files that the lock does not list."""
        return tuple(sorted(self.digests.keys() - self.ours.keys()))

    @property
    def spare_folders(self) -> tuple[str, ...]:
        """The folders that hold no generated file."""
        return tuple(sorted({*self.folders} - {*parent_folders(self.lock.files if self.lock else ())}))


def read_folder(path: Path, lock_name: str) -> Folder:
    """Read the folder at `path`, which may be missing."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        return Folder(path, odd=(_odd(path),))
    if not path.exists():
        return Folder(path)
    files, folders, odd = _scan(path)
    digests = {name: _digest(path, name) for name in files if name != lock_name}
    folder = Folder(path, digests, tuple(folders), odd=tuple(_odd(path / name) for name in odd))
    if lock_name not in files:
        missing = Problem(f"holds files but no {lock_name}", "move the folder away: mpigen did not write it", str(path))
        return but(folder, unlocked=(missing,) if files else ())
    data = read_file(path, lock_name)
    try:
        lock = Lock.decode(data)
        canonical = lock.encode()
    except ValueError as error:
        broken = Problem(f"cannot be read: {error}", "restore the file (`git checkout`)", str(path / lock_name))
        return but(folder, lock_data=data, unlocked=(broken,))
    actual, expected = {**digests, lock_name: digest(data)}, {**lock.files, lock_name: digest(canonical)}
    edited = [name for name, digest in expected.items() if actual.get(name) != digest]
    edits = {name: _edit(path, name, expected[name], exists=name in actual) for name in sorted(edited)}
    return but(folder, lock=lock, lock_data=data, edits=edits)


def read_pointer(release: Release, home: Path) -> Folder:
    """Read the pointer folder, and find the release that its files name, even after a roll-back by hand."""
    pointer = read_folder(home / POINTER, POINTER_LOCK)
    if not pointer.lock_data:  # a folder of the user, in which mpigen may add files
        pointer = but(pointer, unlocked=())
    others = sorted(path.parent.name for path in home.glob(f"*/{LOCK}") if NAME.fullmatch(path.parent.name))
    for version in (release.version, *others):
        lock = target_pointer(release, version).lock
        if lock.files and lock.files.items() <= pointer.digests.items():
            edits = {path: edit for path, edit in pointer.edits.items() if path not in {POINTER_LOCK, *lock.files}}
            files = {**(pointer.lock.files if pointer.lock else {}), **lock.files}
            return but(pointer, lock=but(lock, files=files), unlocked=(), edits=edits)
    return pointer


def _scan(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Return the files, the folders and the special files below `folder`, as relative posix paths."""
    files: list[str] = []
    folders: list[str] = []
    odd: list[str] = []
    todo = [""]
    while todo:
        within = todo.pop()
        with os.scandir(folder / within) as entries:
            for entry in entries:
                path = within + entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                    todo.append(f"{path}/")
                else:
                    (files if entry.is_file(follow_symlinks=False) else odd).append(path)
    return files, folders, odd


def read_file(folder: Path, name: str) -> bytes:
    """Return the bytes of a regular file of limited size. The operating system refuses a link in its place.

    Raises:
        OSError: it is not a regular file, is larger than `MAX_FILE`, or cannot be read.
    """
    with _opened(folder, name) as file:
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), f"{folder}/{name}")
    return content


def _digest(folder: Path, name: str) -> str:
    """Return the digest of a regular file of any size, because users may keep large files in the folder."""
    with _opened(folder, name) as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _opened(folder: Path, name: str) -> BufferedReader:
    """Open a regular file. If a FIFO has replaced it, opening does not wait for a writer."""
    path = f"{folder}/{name}"
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | getattr(os, "O_NONBLOCK", 0))
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file


def _edit(folder: Path, name: str, expected: str, *, exists: bool) -> Problem:
    file = str(folder / name)
    if not exists:
        return Problem("was deleted by hand", _PUT_BACK, file)
    if digest(read_file(folder, name).replace(b"\r\n", b"\n")) == expected:
        return Problem(
            "has CRLF line ends", "set `-text` for the output folder in .gitattributes and check it out again", file
        )
    return Problem("was edited by hand", _PUT_BACK, file)


def _odd(path: Path) -> Problem:
    kind = "a symbolic link" if path.is_symlink() else "neither a regular file nor a folder"
    return Problem(f"is {kind}", "move it away", file=str(path))


_Size = tuple[int, str]
"""The number of digits, and the digits, because Python rejects integers of more than 4,300 digits."""


def precedence(version: str) -> tuple[list[_Size], bool, list[tuple[bool, _Size, str]]]:
    """Return a sort key for versions: numbers as numbers, a pre-release before its release (semver.org, 11)."""
    core, _, pre = version.partition("+")[0].partition("-")
    return [_size(number) for number in re.findall(r"[0-9]+", core)], not pre, [_rank(one) for one in pre.split(".")]


def _size(digits: str) -> _Size:
    significant = digits.lstrip("0")
    return len(significant), significant


def _rank(identifier: str) -> tuple[bool, _Size, str]:
    """Return a sort key for a part of a pre-release: numbers by size, then words in alphabetical order."""
    return (False, _size(identifier), "") if identifier.isdecimal() else (True, (0, ""), identifier)


def read_previous(release: Release, tree: Sequence[Manifest], root: Path) -> list[Manifest]:
    """Return the generated objects of the release that `release` replaces in the cluster; empty if there is none.

    That is the release that the pointer names, or else the newest older release. `tree` has the new manifests, and
    `root` is the output folder.

    Raises:
        OutputError: the release on disk cannot be read, or its lock is damaged.
        DocumentError: a file of the release on disk is not YAML.
    """
    home = root / release.platform
    with report_os_errors(home):
        folder = _folder(release, home)
        return list(_manifests(folder, release, tree)) if folder else []


def _folder(release: Release, home: Path) -> Path | None:
    """Return the folder of the release to replace. The pointer counts only if the new release has one."""
    versions = {path.parent.name for path in home.glob(f"*/{LOCK}") if NAME.fullmatch(path.parent.name)}
    versions.discard(release.version)
    named = read_pointer(release, home).version if release.pointer(release.version) else ""
    if named in versions:
        return home / named
    ours = precedence(release.version)
    older = sorted((version for version in versions if precedence(version) < ours), key=precedence)
    return home / older[-1] if older else None


def _manifests(folder: Path, release: Release, tree: Sequence[Manifest]) -> Iterator[Manifest]:
    """Yield the manifests of a release on disk. Files that equal new files are not parsed again."""
    same: dict[str, list[Manifest]] = {}
    for manifest in tree:
        same.setdefault(manifest.file, []).append(manifest)
    for path in _lock(folder).files:
        try:
            data = read_file(folder, path)
        except FileNotFoundError:  # deleted by hand, so it is no longer applied
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
        problem = Problem(f"cannot be read: {error}", "restore the file (`git checkout`)", str(folder / LOCK))
        raise OutputError((problem,)) from None
