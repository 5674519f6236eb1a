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
from generator.report.result import RENDERERS, Result, render

_Command = TypeVar("_Command", bound=Callable[..., Any])

ENGINES = ("embedded", "kubeconform", "both")
_SHORT = 1.0
"""Seconds that a command runs before it shows progress."""


def format_option(command: _Command) -> _Command:
    """Add `--format` to a command that reports no findings."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        help="text is for people, json for programs.",
    )(command)


@contextmanager
def progress(message: str) -> Iterator[None]:
    """Show a spinner on a terminal while the body runs, if the body takes longer than a second."""
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
    """Print the summary (JSON) or the lines (text) of a command that reports no findings.

    Args:
        form: the format, `text` or `json`.
        summary: the JSON data.
        lines: the lines of the text format.
    """
    emit(form, Result(summary=summary, lines=lines))


def emit(form: str, result: Result) -> None:
    """Print a result in a format. A closed pipe does not change the exit code."""
    with printing():
        if text := render(form, result):
            click.echo(text, color=result.has_color or None)


def show_problems(problems: Iterable[Problem]) -> None:
    """Print invalid input to standard error, one line for each problem."""
    click.echo(RENDERERS["text"](Result(problems=tuple(problems))), err=True)


class StdoutError(OutputError):
    """Standard output cannot be written, so mpigen reports the error on standard error only."""


@contextmanager
def printing() -> Iterator[None]:
    """Ignore a closed pipe, and report any other write error of standard output, such as a full disk."""
    try:
        yield
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        abandon_stdout()
        message = f"standard output cannot be written: {error.strerror}"
        raise StdoutError((Problem(message, "free disk space, or redirect the output to another place"),)) from None


def abandon_stdout() -> None:
    """Redirect standard output to the null device, because Python reports a second error when it closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 finding`, `2 findings`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
