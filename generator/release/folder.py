"""Read release folders: generated files, other files, and edits by hand."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as but
from io import BufferedReader
from pathlib import Path

from generator.documents.files import MAX_FILE
from generator.errors import OutputError, Problem
from generator.facts.names import ARGOCD_FOLDER
from generator.release.exchange import parent_folders
from generator.release.lock import LOCK, Lock, digest, read_lock

EDITED = "was edited by hand"
_PUT_BACK = "restore the file (`git checkout`) and make the change in the platform file, or pass --discard-edits"


@dataclass(frozen=True, slots=True)
class Folder:
    """A release folder on disk.

    Attributes:
        path: the folder, which may be missing.
        digests: path → digest of every file except the lock.
        folders: every folder below it.
        lock: the lock; None if it is missing or unreadable.
        lock_data: the bytes of the lock; empty if it is missing.
        earlier: path → digest of each file that a lock of the earlier layout (a folder per version) lists, and of these
            locks.
        odd: problems: one per link, device or other special file.
        unlocked: the problem of a folder with files but without a readable lock; else empty.
        edits: path of a generated file that was edited or deleted by hand, or that has CRLF line ends → its problem.
    """

    path: Path
    digests: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    lock: Lock | None = None
    lock_data: bytes = b""
    earlier: Mapping[str, str] = field(default_factory=dict)
    odd: tuple[Problem, ...] = ()
    unlocked: tuple[Problem, ...] = ()
    edits: Mapping[str, Problem] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return True if the folder holds no files."""
        return not (self.digests or self.lock_data or self.odd or self.unlocked)

    @property
    def listed(self) -> dict[str, str]:
        """Path → digest of each file that a lock lists, and of the locks of the earlier layout."""
        return {**self.earlier, **(self.lock.files if self.lock else {})}

    @property
    def ours(self) -> dict[str, str]:
        """Path → digest on disk of each file in `listed` that exists."""
        return {path: self.digests[path] for path in self.listed if path in self.digests}

    @property
    def kept(self) -> tuple[str, ...]:
        """The files in the folder that no release.json lists: mpigen keeps them."""
        return tuple(sorted(self.digests.keys() - self.listed.keys()))

    @property
    def spare_folders(self) -> tuple[str, ...]:
        """The folders that hold no generated file."""
        return tuple(sorted({*self.folders} - {*parent_folders(self.listed)}))


def read_folder(path: Path) -> Folder:
    """Read the release folder at `path`. A missing folder is empty. An unreadable lock is a problem of the result.

    Raises:
        OSError: a file or folder cannot be read.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        return Folder(path, odd=(_odd(path),))
    if not path.exists():
        return Folder(path)
    files, folders, odd = _scan(path)
    digests = {name: _digest(path, name) for name in files if name != LOCK}
    folder = Folder(path, digests, tuple(folders), odd=tuple(_odd(path / name) for name in odd))
    try:
        folder = but(folder, earlier=_read_earlier_locks(path, digests))
        return _with_edits(_with_lock(folder) if LOCK in files else folder)
    except OutputError as error:
        return but(folder, lock_data=read_file(path, LOCK) if LOCK in files else b"", unlocked=error.problems)


def _with_lock(folder: Folder) -> Folder:
    data = read_file(folder.path, LOCK)
    return but(folder, lock=read_lock(data, str(folder.path / LOCK)), lock_data=data)


def _with_edits(folder: Folder) -> Folder:
    """Return the folder with its edits: the files that differ from the lock, or that are missing.

    If the folder has files and no lock, it returns the folder with a problem instead.
    """
    path = folder.path
    if folder.lock is None and not folder.earlier:
        missing = Problem(f"holds files but no {LOCK}", "move the folder away: mpigen did not write it", str(path))
        return but(folder, unlocked=(missing,) if folder.digests else ())
    actual, expected = dict(folder.digests), folder.listed
    if folder.lock:
        actual[LOCK], expected[LOCK] = digest(folder.lock_data), digest(folder.lock.encode())
    edited = sorted(name for name, data in expected.items() if actual.get(name) != data)
    return but(
        folder, edits={name: describe_edit(path, name, expected[name], exists=name in actual) for name in edited}
    )


_EARLIER_LOCK = re.compile(rf"(?P<version>[0-9]+\.[0-9]+\.[0-9]+[^/]*)/{re.escape(LOCK)}|{ARGOCD_FOLDER}/pointer\.lock")


def _read_earlier_locks(path: Path, digests: Mapping[str, str]) -> dict[str, str]:
    """Return path → digest of each file of the earlier layout: a folder per version, and a lock of the Application.

    A lock of another platform or version is a copy that the user made, so its files are not listed.
    """
    listed: dict[str, str] = {}
    for name in digests:
        if match := _EARLIER_LOCK.fullmatch(name):
            data = read_file(path, name)
            lock = read_lock(data, str(path / name))
            if lock.platform == path.name and match["version"] in (None, lock.version):
                files = {f"{name.partition('/')[0]}/{file}": expected for file, expected in lock.files.items()}
                listed |= {name: digest(data), **files}
    return listed


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
    """Return the bytes of a regular file of limited size. The operating system rejects a symbolic link.

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
    """Open a regular file. If a FIFO has replaced it, raise OSError instead of waiting for a writer."""
    path = f"{folder}/{name}"
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | getattr(os, "O_NONBLOCK", 0))
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file


def describe_edit(folder: Path, name: str, expected: str, *, exists: bool) -> Problem:
    """Return the problem of a generated file that differs from a lock.

    Args:
        folder: the folder of the release.
        name: the path of the file in the folder.
        expected: its digest in the lock.
        exists: False if the file is missing.
    """
    file = str(folder / name)
    if not exists:
        return Problem("was deleted by hand", _PUT_BACK, file)
    if digest(read_file(folder, name).replace(b"\r\n", b"\n")) == expected:
        return Problem(
            "has CRLF line ends", "set `-text` for the output folder in .gitattributes and check it out again", file
        )
    return Problem(EDITED, _PUT_BACK, file)


def _odd(path: Path) -> Problem:
    kind = "a symbolic link" if path.is_symlink() else "neither a regular file nor a folder"
    return Problem(f"is {kind}", "move it away", file=str(path))
