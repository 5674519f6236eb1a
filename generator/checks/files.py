"""Files and folders → the manifests files below them, checked on all cores when there are many."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from generator.checks.run import Checked, check_text, unreadable
from generator.errors import OutputError, Problem
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

SUFFIXES = (".yaml", ".yml", ".json")
_WORTH_A_PROCESS = 300_000  # bytes; below it a second process costs more than it saves


@dataclass(frozen=True, slots=True)
class Search:
    """What lies at some paths.

    Attributes:
        files: the regular files, each once, in order.
        refused: what cannot be looked into, and why.
    """

    files: tuple[Path, ...]
    refused: tuple[Problem, ...]


def manifest_files(paths: Sequence[Path]) -> Search:
    """The files named, and all YAML and JSON files below the folders named.

    Raises:
        OutputError: a path does not exist; with all that do not.
    """
    missing = [Problem("there is no such file or folder", file=str(path)) for path in paths if _is_missing(path)]
    if missing:
        raise OutputError(tuple(missing))
    found = dict.fromkeys(each for path in paths for each in _below(path))
    files = tuple(each for each in found if isinstance(each, Path))
    return Search(files, tuple(each for each in found if isinstance(each, Problem)))


def _is_missing(path: Path) -> bool:
    """Whether nothing is there: a link to nothing is something."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _below(path: Path) -> Iterator[Path | Problem]:
    """A file, or those of a folder, and why others are not among them.

    Hidden files and folders are not entered: editors, Git and unfinished releases keep theirs there.
    """
    if not _is_folder(path):
        yield _looked_at(path)
        return
    refused: list[OSError] = []
    for parent, folders, files in os.walk(path, onerror=refused.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield _looked_at(Path(parent, name))
    yield from (cannot_read(Path(error.filename), error) for error in refused)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def _looked_at(file: Path) -> Path | Problem:
    """The file if it can be one of manifests. Nothing is opened: opening a pipe waits for its writer."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        return cannot_read(file, error)
    if stat.S_ISREG(mode):
        return file
    return Problem("is a pipe or a device, not a file", "name a file, or pipe it in and pass `-`", str(file))


def cannot_read(file: Path, error: OSError) -> Problem:
    """Why a file or a folder says nothing."""
    if isinstance(error, FileNotFoundError):
        return Problem("is a link to nothing, or has just gone", "mend or remove it", str(file))
    fix = "give yourself access" if isinstance(error, PermissionError) else "mend or remove it"
    return Problem(f"cannot be read: {error.strerror}", fix, str(file))


def cores() -> int:
    """How many processors this process may use, which in a container are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_everywhere(files: Sequence[Path], catalog: Catalog, processes: int) -> Checked:
    """Check every object of many files, on several processes where that is faster."""
    sizes = {file: _size(file) for file in files}
    workers = min(processes, sum(sizes.values()) // _WORTH_A_PROCESS + 1)
    if workers == 1 or not hasattr(os, "fork"):
        return _check(files, catalog)
    # A pool of `concurrent.futures` costs as much as it saves here: threads, queues, and 30 ms of imports.
    from multiprocessing import get_context

    # Dealt by size: in the order of folders one might get all the large files, which every team has.
    files = sorted(files, key=sizes.__getitem__, reverse=True)
    context = get_context("fork")
    answers = []
    for start in range(1, workers):
        answer, sender = context.Pipe(duplex=False)
        context.Process(target=_send, args=(sender, files[start::workers], catalog), daemon=True).start()
        sender.close()
        answers.append(answer)
    total = _check(files[::workers], catalog)
    for answer in answers:
        total.add(answer.recv())
    return total


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # gone since; reading it will say so
        return 0


def _send(sender: Connection, files: Sequence[Path], catalog: Catalog) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends us
    sender.send(_check(files, catalog))


def _check(files: Sequence[Path], catalog: Catalog) -> Checked:
    engine = Engine(catalog)
    checked = Checked()
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as error:
            checked.add(unreadable(cannot_read(file, error)))
        else:
            checked.add(check_text(text, str(file), engine))
    return checked
