"""Run a Python file of the user, and report its failures with the line of that file.

All Python of the user runs by `run_python`, so that `forbid_python` refuses all of it.
"""

from __future__ import annotations

import os.path
import re
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any

from generator.documents.side_effects import SideEffectError, forbid_side_effects, is_below
from generator.errors import ConfigError, MpigenError, Problem, exception_text

_IS_FORBIDDEN = ContextVar("python_is_forbidden", default=False)
_OF_JSII = "__jsii_assembly__"
"""A global name of all modules that jsii-pacmak generates, such as the classes of `cdk8s import`."""
_REJECTION = re.compile(r"Passed to parameter \w+ of (?:new )?(?P<target>[\w@/.-]+): ")
_STEP = re.compile(r"─ (?:Key '(?P<key>.*)'|Index (?P<index>\d+)): Unable to deserialize value as ")
_UNREAD = re.compile(r"Command failed: .*/_loadurl\.mjs (.+)")
"""The message of cdk8s 2.70 for a file that does not exist: src/yaml.ts loads every other name as a URL."""


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
    """Run a Python file and return its global names. Its prints go to standard error, and it has no standard input.

    Args:
        file: the file. It can import modules of its own folder.
        name: the value of `__name__` in the file.
        fix: the fix for code that fails.
        passed: a class of exceptions that reach the caller unchanged.

    Raises:
        ConfigError: `forbid_python` forbids it, or the code fails, changes a file or the working folder, starts a
            thread, or reads standard input; with the line in the user's own file.
        MpigenError: the code itself raises an error of mpigen. A problem without a file gets the line of the code.
    """
    if forbidden := find_forbidden(file):
        raise ConfigError((forbidden,))
    try:
        return _run(file, name, fix, passed)
    except MpigenError as error:
        error.problems = tuple(
            replace(problem, file=shorten_path(problem.file, str(file))) for problem in error.problems
        )
        raise


def _run(file: Path, name: str, fix: str, passed: type[Exception]) -> dict[str, Any]:
    folder = file.resolve().parent
    with _siblings_importable(folder), forbid_side_effects(folder) as refused:
        try:
            with redirect_stdout(sys.stderr):  # noqa: TID251 - the result goes to standard output
                defined = runpy.run_path(str(file), run_name=name)
        except SideEffectError:
            raise ConfigError(tuple(refused)) from None
        except MpigenError as error:
            place, line, _ = find_place(error, file)
            error.problems = tuple(
                problem if problem.file else replace(problem, file=place, line=line) for problem in error.problems
            )
            raise
        except passed:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
            raise ConfigError((find_failure(error, file, fix),)) from None
    if refused:
        raise ConfigError(tuple(refused))
    return defined


@contextmanager
def watch_function(file: str) -> Iterator[None]:
    """Apply the rules of `run_python` to the body, which calls a function of a file that has run.

    Raises:
        ConfigError: the function changes a file or the working folder, starts a thread, or reads standard input.
    """
    with forbid_side_effects(Path(file).resolve().parent) as refused, redirect_stdout(sys.stderr):  # noqa: TID251
        try:
            yield
        finally:
            if refused:
                raise ConfigError(tuple(refused)) from None


@contextmanager
def _siblings_importable(folder: Path) -> Iterator[None]:
    """Append the file's folder to the import path while the file runs.

    The folder is last, so that a platform.py in it does not replace the standard module `platform`.
    """
    for name in [name for name, (_, home) in _SIBLINGS.items() if home != folder and _has_module(folder, name)]:
        module, _ = _SIBLINGS.pop(name)
        if sys.modules.get(name) is module:  # a file in another folder imported it, and this folder has its own
            del sys.modules[name]
    before = {*sys.modules}
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in sys.modules.keys() - before:
            if is_below(getattr(sys.modules[name], "__file__", None) or "<none>", folder):
                _SIBLINGS[name] = sys.modules[name], folder


def _has_module(folder: Path, name: str) -> bool:
    """Return True if a folder has the source of a module or of a package, such as `imports.io.cert_manager`."""
    path = folder.joinpath(*name.split("."))
    return path.with_name(f"{path.name}.py").exists() or path.is_dir()


_SIBLINGS: dict[str, tuple[object, Path]] = {}
"""The modules that the user's files imported from their own folders: name → module and folder."""


def find_failure(error: BaseException, file: Path, fix: str) -> Problem:
    """Return the problem for an exception of the user's code, with the line and the method that raised it."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        source = shorten_path(error.filename, str(file))
        return Problem(f"not Python: {error.msg}", "", source, error.lineno or 0, error.offset or 0)
    text = exception_text(error)
    if isinstance(error, KeyError) and " " in text:  # a sentence, and not a key: `str` puts it in quotes
        text = str(error.args[0])
    message = f"{type(error).__name__}: {_shorten(text)}".removesuffix(": ")
    if unread := _UNREAD.match(text):
        message, fix = f"`cdk8s.Include` cannot read `{unread[1]}`", "write the path of an existing file"
    place, line, code = find_place(error, file)
    if code and "." in code.co_qualname and "<" not in code.co_qualname:
        message = f"`{code.co_qualname}` raises {message}"
    if isinstance(error, ImportError | AttributeError) and "partially initialized module" in message:
        fix = "move the names that both modules need to a third module"
    if message.startswith("RuntimeError: cannot find a parent chart"):
        fix = 'create the object in a chart: `cdk8s.Chart(app, "NAME")`'
    if Path(place).parent.name == "_jsii":
        fix = "run `cdk8s import` again, and commit all files that it writes"
    return Problem(message, fix, shorten_path(place, str(file)), line)


def shorten_path(module: str, file: str) -> str:
    """Return the path of a Python file as a user would write it, because Python gives imported modules absolute paths.

    Args:
        module: the path in the code of a module.
        file: the platform file, or another file of the user that mpigen runs; empty for none. If its path is relative
            to the working folder, the result is too, for modules in the same folder or below the working folder.
    """
    if not file or not os.path.isabs(module):  # noqa: PTH117 - a path such as `<string>` is not a file
        return module
    folder = Path(file).resolve().parent
    relative = os.path.relpath(module, folder)
    path = os.path.normpath(Path(file).parent / relative)
    return module if relative.startswith("..") and path.startswith("..") else path


def _shorten(text: str) -> str:
    """Return the first line of a message; if a class of jsii rejects a value, return the value's path and the reason.

    jsii prints the reasons as a tree. The tree has branches if a value can have several types. Then there is no single
    reason.

    Source: aws/jsii v1.142.0 packages/@jsii/kernel/src/serialization.ts, `SerializationError`.
    """
    first, *tree = text.splitlines() or [""]
    rejection = _REJECTION.match(first)
    steps = [step for line in tree if (step := _STEP.search(line))]
    if not rejection or not steps or any(" [as " in line for line in tree):
        return first
    path = "".join(f"[{step['index']}]" if step["index"] else f".{step['key']}" for step in steps)
    return f"{rejection['target']} rejects `{path.removeprefix('.')}`: {tree[-1].strip(' │├╰─')}"


def find_line(error: BaseException, file: Path | str) -> int:
    """Return the line of the user's file nearest to the failure; 0 if no line of the file was running."""
    lines = [line for place, line, _ in _places(error) if place == str(file)]
    return lines[-1] if lines else 0


def find_place(error: BaseException, file: Path) -> tuple[str, int, CodeType | None]:
    """Return file, line and code of the user's function nearest to the failure: in a file or a module beside it."""
    folder = file.resolve().parent
    places = [place for place in _places(error) if place[0] == str(file) or is_below(place[0], folder)]
    return places[-1] if places else (str(file), 0, None)


def _places(error: BaseException) -> Iterator[tuple[str, int, CodeType]]:
    """Yield file, line and code of each running function, from the outermost, without classes that jsii generated."""
    entry = error.__traceback__
    while entry:
        code = entry.tb_frame.f_code
        if _OF_JSII not in entry.tb_frame.f_globals:
            yield code.co_filename, entry.tb_lineno, code
        entry = entry.tb_next
