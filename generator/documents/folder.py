"""Read the files of a folder that belong to a program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from generator.documents.files import os_error_problem, read_file
from generator.errors import InputError

_SKIPPED = {"__pycache__"}


def read_folder(path: Path) -> dict[str, bytes]:
    """Return the path below `path` → the content of each file; for a file, its name → its content.

    Files and folders whose names begin with a dot are left out, and `__pycache__`.

    Raises:
        InputError: a file or a folder does not exist, or cannot be read.
    """
    try:
        files = sorted(_find(path))
    except OSError as error:
        raise InputError((os_error_problem(path, error),)) from None
    root = path if path.is_dir() else path.parent
    return {file.relative_to(root).as_posix(): read_file(file) for file in files}


def is_of_program(path: str) -> bool:
    """Return True if a path below a folder has no name that `read_folder` leaves out."""
    return not any(name.startswith(".") or name in _SKIPPED for name in path.split("/"))


def _find(path: Path) -> Iterator[Path]:
    """Yield a file, or the files of a folder and its folders. Symbolic links to folders are not followed."""
    if not path.is_dir():
        yield path
        return

    def fail(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(path, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        yield from (Path(folder, name) for name in names if not name.startswith("."))
