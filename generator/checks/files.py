"""Files and folders → the manifests files below them, checked on all cores when there are many."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from generator.checks.run import Checked, check_text
from generator.errors import OutputError, Problem
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

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
    # Imported here: it takes as long as checking a few files.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    shares = [files[start::workers] for start in range(workers)]
    with ProcessPoolExecutor(workers - 1, mp_context=get_context("fork")) as pool:
        others = [pool.submit(_check, share, catalog) for share in shares[1:]]
        total = _check(shares[0], catalog)
        for other in others:
            total.add(other.result())
    return total


def _check(files: Sequence[Path], catalog: Catalog) -> Checked:
    engine = Engine(catalog)
    checked = Checked()
    for file in files:
        checked.add(check_text(file.read_bytes(), str(file), engine))
    return checked
