"""Run a Python file of the user, and report its failures with the line of that file.

All Python of the user runs by `run_python`, so that `forbid_python` refuses all of it.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from generator.errors import ConfigError, MpigenError, Problem

_IS_FORBIDDEN = ContextVar("python_is_forbidden", default=False)


@contextmanager
def forbid_python() -> Iterator[None]:
    """Refuse to run any Python file of the user while the body runs."""
    token = _IS_FORBIDDEN.set(True)
    try:
        yield
    finally:
        _IS_FORBIDDEN.reset(token)


def find_forbidden(file: Path) -> Problem | None:
    """Return the problem that the user's Python is forbidden; None if mpigen may run the file."""
    if not _IS_FORBIDDEN.get():
        return None
    message = "mpigen would run this Python file, and `--no-python` or the variable MPIGEN_NO_PYTHON forbids it"
    return Problem(message, "remove the option and the variable if you trust the file", str(file))


def run_python(file: Path, name: str, fix: str, passed: type[Exception] = MpigenError) -> dict[str, Any]:
    """Run a Python file and return its global names. Its prints go to standard error.

    Args:
        file: the file. It can import modules of its own folder.
        name: the value of `__name__` in the file.
        fix: the fix for code that fails.
        passed: a class of exceptions that reach the caller unchanged.

    Raises:
        ConfigError: `forbid_python` forbids it, or the code fails; with the line in the user's own file.
        MpigenError: the code itself raises an error of mpigen.
    """
    if forbidden := find_forbidden(file):
        raise ConfigError((forbidden,))
    try:
        with _siblings_importable(file), redirect_stdout(sys.stderr):  # noqa: TID251 - the result goes to standard output
            return runpy.run_path(str(file), run_name=name)
    except (MpigenError, passed):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        raise ConfigError((find_failure(error, file, fix),)) from None


@contextmanager
def _siblings_importable(file: Path) -> Iterator[None]:
    """Append the file's folder to the import path while the file runs.

    The folder is last, so that a platform.py in it does not replace the standard module `platform`.
    """
    folder = str(file.resolve().parent)
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def find_failure(error: BaseException, file: Path, fix: str) -> Problem:
    """Return the problem for an exception of the user's code, with the line that raised it."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return Problem(f"not Python: {error.msg}", "", error.filename, error.lineno or 0, error.offset or 0)
    message = f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ")
    return Problem(message, fix, str(file), find_line(error, file))


def find_line(error: BaseException, file: Path | str) -> int:
    """Return the line of the user's file nearest to the failure; 0 if no line of the file was running."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return frames[-1].lineno or 0 if frames else 0
