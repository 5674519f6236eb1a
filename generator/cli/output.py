"""Standard output and standard error: formats, colors, progress, and streams that fail."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO, TypeVar

import click

from generator.errors import OutputError, Problem
from generator.report.result import RENDERERS, Result

_Command = TypeVar("_Command", bound=Callable[..., Any])

ENGINES = ("embedded", "kubeconform", "both")
_SHORT = 1.0
"""Seconds that a command runs before it shows progress."""


def format_option(command: _Command) -> _Command:
    """Add `--format` to a command that reports no findings."""
    return click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people, or for programs."
    )(command)


@contextmanager
def progress(message: str) -> Iterator[None]:
    """Show a spinner on a terminal while the body runs, from its second second on."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield
        return
    from threading import Lock, Timer

    from rich.console import Console

    status = Console(stderr=True).status(message)
    lock, is_over = Lock(), False

    def start() -> None:
        with lock:
            if not is_over:
                status.start()

    timer = Timer(_SHORT, start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            is_over = True
            status.stop()


def has_color(stream: TextIO | None) -> bool:
    """Return True if text on a stream may have colors.

    Source: no-color.org and force-color.org. NO_COLOR wins, and an empty variable counts as absent.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or bool(stream and stream.isatty())


def table_width() -> int | None:
    """Return the columns of the terminal; None if standard output is no terminal, so that `grep` sees whole rows."""
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None


def show(form: str, summary: Mapping[str, Any], lines: Iterable[str]) -> None:
    """Print the result of a command that reports no findings."""
    emit(form, Result(summary=summary, lines=lines))


def emit(form: str, result: Result) -> None:
    """Print a result in a format. A reader that closes the pipe early changes nothing of the exit code."""
    with printing():
        if text := RENDERERS[form](result):
            click.echo(text, color=result.has_color or None)


def show_problems(problems: Iterable[Problem]) -> None:
    """Print invalid input to standard error, one line for each problem."""
    click.echo(RENDERERS["text"](Result(problems=tuple(problems))), err=True)


class StdoutError(OutputError):
    """Standard output cannot be written, so nothing can be reported there."""


@contextmanager
def printing() -> Iterator[None]:
    """Treat a closed pipe as success, and a full disk as a problem of the user."""
    try:
        yield
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        abandon_stdout()
        message = f"standard output cannot be written: {error.strerror}"
        raise StdoutError((Problem(message, "make room, or write elsewhere"),)) from None


def abandon_stdout() -> None:
    """Point a standard output that fails to the null device, because Python complains again when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 finding`, `2 findings`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
