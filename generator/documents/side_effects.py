"""Side effects of the user's Python while mpigen runs it: changed files, threads, another working folder, input.

Python reports each of these actions to audit hooks before it happens (sys.addaudithook, PEP 578). The hook of this
module refuses the actions of the user's own files. mpigen, installed packages and imports may do anything.
"""

from __future__ import annotations

import io
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from generator.errors import Problem

_CHANGE = "this line changes `{path}`, and every command of mpigen that reads this file would repeat the change"
_CHANGE_FIX = "change files in a script of your own, and run mpigen after the script"
_THREAD = "this line starts a thread, which could change objects after mpigen has read them"
_FORK = "this line starts a second process, which would write the output of mpigen too"
_FOLDER = "this line changes the working folder, so mpigen would write its output into another folder"
_END = "this line ends the process, so mpigen would write nothing and report nothing"
_INPUT = "this line reads standard input, but mpigen must get the same result from the same files"
_SERIAL_FIX = "compute the values in the main thread"
_EVENTS = {
    "os.chdir": (_FOLDER, "build paths from `Path(__file__).parent` instead"),
    "os.fork": (_FORK, _SERIAL_FIX),
    "os.forkpty": (_FORK, _SERIAL_FIX),
    **dict.fromkeys(
        (
            *("os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.link", "os.symlink", "os.truncate"),
            *("os.chmod", "os.chown", "os.utime"),
        ),
        (_CHANGE, _CHANGE_FIX),
    ),
}
"""Audit event → message and fix. Source: the audit events table of Python 3.13, and `open` below."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_STANDARD = (sysconfig.get_path("stdlib"), "<frozen ", "<string>")
_OF_MPIGEN = Path(__file__).resolve().parent.parent
_INSTALLED = {"site-packages", "dist-packages"}


class SideEffectError(Exception):
    """The user's code does something that mpigen refuses. The problem is in the list of `forbid_side_effects`."""


@dataclass
class _Watch:
    """The folder of the file that runs, and the refused actions in it."""

    folder: Path
    refused: list[Problem] = field(default_factory=list)

    def refuse(self, message: str, fix: str) -> None:
        """Raise an error if a file of the folder does something that mpigen refuses."""
        if place := self._find_line():
            self.refused.append(Problem(message, fix, *place))
            raise SideEffectError(message)

    def _find_line(self) -> tuple[str, int] | None:
        """Return file and line of the nearest code outside of the standard library; None if it is not the user's."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - `inspect.stack` would open the sources
        while frame and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        if frame and frame.f_code.co_filename.startswith("<frozen importlib"):  # Python stores compiled modules
            return None
        while frame and is_standard(frame.f_code.co_filename):
            frame = frame.f_back
        is_of_user = frame is not None and is_below(frame.f_code.co_filename, self.folder)
        return (frame.f_code.co_filename, frame.f_lineno) if frame and is_of_user else None


def is_python_running() -> bool:
    """Return True while a Python file of the user runs."""
    return bool(_WATCHES)


def is_standard(file: str) -> bool:
    """Return True if a source file is of the standard library."""
    return file.startswith(_STANDARD) and _INSTALLED.isdisjoint(Path(file).parts)


def is_below(file: str, folder: Path) -> bool:
    """Return True if a source file is in a folder, and not of a package that is installed there."""
    path = Path(file).resolve()
    is_installed = path.is_relative_to(_OF_MPIGEN) or not _INSTALLED.isdisjoint(path.parts)
    return path.is_relative_to(folder) and not is_installed and not file.startswith("<")


_WATCHES: list[_Watch] = []
"""The running files; the last one runs at the moment."""
_HOOKS: list[str] = []
"""Not empty after the audit hook is installed. Python cannot remove an audit hook."""


@contextmanager
def forbid_side_effects(folder: Path) -> Iterator[list[Problem]]:
    """Refuse side effects of the Python files in a folder while the body runs.

    Yields:
        the refused actions, each with its line. An action is in the list even if the user's code catches the error.
    """
    if not _HOOKS:
        sys.addaudithook(_hear)
        _HOOKS.append(__name__)
    watch, stdin = _Watch(folder.resolve()), sys.stdin  # noqa: TID251 - only to hide it from the user's code
    start = threading.Thread.start

    def start_thread(thread: threading.Thread) -> None:
        watch.refuse(_THREAD, _SERIAL_FIX)
        start(thread)

    _WATCHES.append(watch)
    sys.stdin = _NoInput()  # noqa: TID251
    vars(threading)["Thread"].start = start_thread  # Python 3.11 reports no thread to audit hooks
    end = os._exit

    def end_process(status: int) -> NoReturn:
        watch.refuse(_END, "raise an exception instead")
        end(status)

    vars(os)["_exit"] = end_process
    try:
        yield watch.refused
    finally:
        sys.stdin = stdin  # noqa: TID251
        vars(threading)["Thread"].start = start
        vars(os)["_exit"] = end
        _WATCHES.remove(watch)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _WATCHES:
        return
    if event == "open":
        path, _, flags = arguments
        name = os.fsdecode(path) if isinstance(path, str | bytes) else os.devnull  # a number is open already
        if isinstance(flags, int) and flags & _WRITES and name != os.devnull:
            _WATCHES[-1].refuse(_CHANGE.format(path=name), _CHANGE_FIX)
    elif event in _EVENTS:
        message, fix = _EVENTS[event]
        path = os.fsdecode(arguments[0]) if arguments and isinstance(arguments[0], str | bytes) else "a file"
        _WATCHES[-1].refuse(message.format(path=path), fix)


class _NoInput(io.TextIOBase):
    """Standard input that the user's code must not read."""

    def _refuse(self, *_: object) -> NoReturn:
        if _WATCHES:
            _WATCHES[-1].refuse(_INPUT, "read a file beside this one instead")
        raise EOFError(_INPUT)

    read = readline = readlines = __next__ = __iter__ = _refuse
    buffer = property(_refuse)

    def fileno(self) -> int:
        """Raise the error of a stream without a file descriptor."""
        raise io.UnsupportedOperation("fileno")
