"""Files and folders → the manifests files below them, checked on all cores when there are many."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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


def manifest_files(paths: Sequence[Path]) -> list[Path]:
    """The files named, and all YAML and JSON files below the folders named, each once, in order.

    Raises:
        OutputError: a path does not exist; with all that do not.
    """
    missing = [Problem("there is no such file or folder", file=str(path)) for path in paths if not path.exists()]
    if missing:
        raise OutputError(tuple(missing))
    return list(dict.fromkeys(file for path in paths for file in (_below(path) if path.is_dir() else [path])))


def _below(folder: Path) -> Iterator[Path]:
    """Hidden files and folders are not entered: editors, Git and unfinished releases keep theirs there."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield Path(parent, name)


def check_everywhere(files: Sequence[Path], catalog: Catalog, processes: int) -> Checked:
    """Check every object of many files, on several processes where that is faster."""
    size = sum(file.stat().st_size for file in files)
    workers = min(processes, size // _WORTH_A_PROCESS + 1)
    if workers == 1 or not hasattr(os, "fork"):
        return _check(files, catalog)
    # A pool of `concurrent.futures` costs as much as it saves here: threads, queues, and 30 ms of imports.
    from multiprocessing import get_context

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


def _send(sender: Connection, files: Sequence[Path], catalog: Catalog) -> None:
    sender.send(_check(files, catalog))


def _check(files: Sequence[Path], catalog: Catalog) -> Checked:
    engine = Engine(catalog)
    checked = Checked()
    for file in files:
        try:
            text = file.read_bytes()
        except OSError as error:
            checked.add(unreadable(Problem(f"cannot be read: {error.strerror}", "give yourself access", str(file))))
        else:
            checked.add(check_text(text, str(file), engine))
    return checked
