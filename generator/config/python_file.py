"""Run a platform file in Python and return what it defines. Report its failures with the line of the user's file."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from generator.config.load import hide_credentials
from generator.config.mistakes import mistakes_in
from generator.config.model.fields import Section
from generator.config.platform import Platform
from generator.documents.credentials import find_exposures
from generator.documents.files import find_read_problem, read_file
from generator.documents.messages import format_path
from generator.documents.python import find_forbidden, find_line, run_python
from generator.errors import ConfigError, Problem

_SECTIONS = {section.__name__: section for section in Section.__subclasses__()}


def run_platform_file(file: Path) -> dict[str, Any]:
    """Run an mpigen_platform.py and return its module namespace. The output of the file goes to standard error.

    Raises:
        ConfigError: the file cannot be read or holds a credential, or its code fails; then with the line in the file.
    """
    check_platform_file(file)
    if outside := find_exposures(read_file(file).decode("utf-8", "replace")):
        raise ConfigError(hide_credentials((), outside, (), str(file)))
    try:
        return run_python(file, "__platform__", "fix the platform file", ValidationError)
    except ValidationError as error:
        line = find_line(error, file)
        model = _SECTIONS.get(error.title, Platform)
        mistakes = mistakes_in(error, model, prefix=() if error.title == "Platform" else (error.title,))
        raise ConfigError(
            tuple(Problem(one.message, one.fix, str(file), line, path=format_path(one.path)) for one in mistakes)
        ) from None


def check_platform_file(file: Path) -> None:
    """Reject a path that is not a file of limited size, or that mpigen may not run, without opening it.

    Raises:
        ConfigError: the file is missing, not a regular file, or too large, or `forbid_python` forbids it.
    """
    if forbidden := find_forbidden(file):
        raise ConfigError((forbidden,))
    if refused := find_read_problem(file):
        raise ConfigError((replace(refused, fix="name a platform.yaml or mpigen_platform.py"),))


def find_shadowed_module(file: Path) -> str:
    """Return the name of an installed module that this file shadows; "" if it shadows none.

    pytest, mypy, `python -m` and an interactive Python put the folder in which they start first on `sys.path`. There,
    `import platform` imports a `platform.py`.
    """
    name = file.stem
    if not name.isidentifier() or name == "__init__":
        return ""
    if name in sys.stdlib_module_names:
        return name
    spec = PathFinder.find_spec(name, [entry for entry in sys.path if entry and not _is_same(entry, file.parent)])
    return name if spec is not None else ""


def _is_same(entry: str, folder: Path) -> bool:
    return Path(entry).resolve() == folder.resolve()
