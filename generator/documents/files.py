"""Bounded reading: read regular files of limited size, and reject everything else before it can block."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from generator.errors import InputError, Problem

MAX_FILE = 10_000_000
"""The size of the largest file that mpigen reads, in bytes."""
MAX_STDIN = 50_000_000
"""The most bytes that mpigen reads from standard input: a release of 1,000 tenants has about 20 MB."""
MAX_EXPORT = 500_000_000
"""The size of the largest export of a cluster that mpigen reads, in bytes: 20,000 pods have about 75 MB as JSON."""
MAX_FILES = 100_000
"""The most files that one command reads: a release of 10,000 tenants has about 70,000."""
_CHUNK = 1 << 20
# Opening a FIFO without a writer would wait; a terminal must not become the controlling one. Windows has neither flag.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def read_file(file: Path, limit: int = MAX_FILE) -> bytes:
    """Return the content of a regular file. A device is not opened, because that can have side effects.

    Raises:
        InputError: the file is missing, not regular, larger than `limit` bytes, or unreadable.
    """
    name = str(file)  # a call with a Path takes twice as long
    try:
        status = os.stat(name)  # noqa: PTH116
        if refused := _problem_of_status(file, status, limit):
            raise InputError((refused,))
        handle = os.open(name, _FLAGS)
        try:
            status = os.fstat(handle)
            if refused := _problem_of_status(file, status, limit):  # the file may be a new one
                raise InputError((refused,))
            # A buffer of the size of the file: to allocate a larger buffer takes longer than to read a small file.
            content = os.read(handle, min(limit, status.st_size + 1 if status.st_size else _CHUNK))
            if len(content) != status.st_size:
                content += _read_at_most(lambda size: os.read(handle, size), limit + 1 - len(content))
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError((os_error_problem(file, error),)) from None
    except ValueError as error:
        raise InputError((_wrong_name(file, error),)) from None
    if len(content) > limit:  # a file below /proc has no size until it is read
        raise InputError((_too_large(file, "does not end", limit),))
    return content


def open_file(file: Path) -> BinaryIO:
    """Open a regular file of any size for reading. A device is not opened, because that can have side effects.

    Raises:
        InputError: the file is missing, not regular, or unreadable.
    """
    try:
        if refused := _problem_of_status(file, file.stat(), sys.maxsize):
            raise InputError((refused,))
        stream = os.fdopen(os.open(str(file), _FLAGS), "rb")
    except OSError as error:
        raise InputError((os_error_problem(file, error),)) from None
    except ValueError as error:
        raise InputError((_wrong_name(file, error),)) from None
    if refused := _problem_of_status(file, os.fstat(stream.fileno()), sys.maxsize):  # the file may be a new one
        stream.close()
        raise InputError((refused,))
    return stream


def find_read_problem(file: Path, limit: int = MAX_FILE) -> Problem | None:
    """Return the problem that prevents reading a file, without opening it; None if there is none.

    A lack of read permission shows only when a file is opened, so it is not found.
    """
    try:
        status = file.stat()
    except OSError as error:
        return os_error_problem(file, error)
    except ValueError as error:
        return _wrong_name(file, error)
    return _problem_of_status(file, status, limit)


def find_link_problem(file: Path, named: Path) -> Problem | None:
    """Return the problem of a symbolic link that leads out of the repository, or into its `.git`; None if it does not.

    Findings print lines of a file, so a link in a pull request would publish credentials of the machine. Argo CD
    rejects such links too: argo-cd v3.2.1 util/app/path/path.go CheckOutOfBoundsSymlinks.

    Args:
        file: the file.
        named: the file or folder that the user named. A named file outside of a Git work tree can be any link. Below a
            named folder outside of a work tree, a link must not leave the folder.
    """
    if not file.is_symlink():
        return None
    is_folder = named.is_dir()
    start = Path(os.path.realpath(named if is_folder else named.parent))
    root = next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), None)
    root = root or (start if is_folder else None)
    target = Path(os.path.realpath(file))
    if root is None or (target.is_relative_to(root) and ".git" not in target.relative_to(root).parts):
        return None
    message = f"is a symbolic link to a file outside of `{root}`, which mpigen does not read"
    return Problem(message, "replace the link by a copy of the file", str(file))


def _wrong_name(file: Path, error: ValueError) -> Problem:
    """Return the problem of a file name with a null character or half of a surrogate pair."""
    return Problem(f"cannot be read: {error}", "name a file", str(file))


def os_error_problem(file: Path, error: OSError) -> Problem:
    """Return the problem of a file that the operating system cannot open or read."""
    if isinstance(error, FileNotFoundError):
        is_link = file.is_symlink()
        message = "is a dangling symbolic link" if is_link else f"cannot be read: {error.strerror}"
        return Problem(message, "correct or remove the link" if is_link else "correct the path", str(file))
    fix = "get read access" if isinstance(error, PermissionError) else "name a file that can be read"
    return Problem(f"cannot be read: {error.strerror}", fix, str(file))


def read_stream(stream: BinaryIO, name: str, limit: int = MAX_STDIN) -> bytes:
    """Return the content of a stream that ends, such as standard input.

    Raises:
        InputError: the stream has more than `limit` bytes, so it may be endless.
        OSError: the stream cannot be read.
    """
    content = _read_at_most(stream.read, limit + 1)
    if len(content) > limit:
        message = f"{name} does not end within {limit:,} bytes, and mpigen reads no more"
        raise InputError((Problem(message, "write it to several files, and name their folder"),))
    return content


def _read_at_most(read: Callable[[int], bytes], limit: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < limit and (chunk := read(min(_CHUNK, limit - len(chunks)))):
        chunks += chunk
    return bytes(chunks)


def _problem_of_status(file: Path, status: os.stat_result, limit: int) -> Problem | None:
    if not stat.S_ISREG(status.st_mode):
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFDIR:
            return Problem("is a folder, not a file", "name a file in it", str(file))
        fix = "write its content to a file, or pipe it into a command that reads standard input as `-`"
        return Problem(
            f"is {_KINDS.get(kind, 'a special file')}, which mpigen does not read because it may be endless",
            fix,
            str(file),
        )
    if status.st_size > limit:
        return _too_large(file, f"is {status.st_size:,} bytes large", limit)
    return None


def _too_large(file: Path, size: str, limit: int) -> Problem:
    message = f"{size}, and mpigen reads files of at most {limit:,} bytes"
    return Problem(message, "split it into smaller files", str(file))
