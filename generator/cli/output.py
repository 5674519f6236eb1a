"""How results reach the user: what all commands share, colour and progress on a terminal, silence on a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from generator.errors import OutputError, Problem

if TYPE_CHECKING:
    from generator.checks.finding import Finding

_Command = TypeVar("_Command", bound=Callable[..., Any])

_MOST = 1_000
"""The most findings or problems that text output prints; JSON prints all."""
ENGINES = ("embedded", "kubeconform", "both")


def format_option(command: _Command) -> _Command:
    """`--format`, the same everywhere."""
    return click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people, or for machines."
    )(command)


@contextmanager
def progress(message: str) -> Iterator[None]:
    """A spinner while something takes long, if standard error is a terminal."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(message):
        yield


def show(form: str, summary: dict[str, Any], findings: Iterable[Finding], lines: Iterable[str]) -> None:
    """Findings first, then what was done; or one JSON document of both.

    A reader that has seen enough (`| head`) changes nothing of what the command returns.
    """
    with printing():
        if form == "json":
            from generator.report import machine

            click.echo(machine.report(summary, findings))
            return
        _show_findings(findings)
        for line in lines:
            click.echo(line)


class StdoutError(OutputError):
    """Standard output cannot be written: there is nobody to whom anything could be said there."""


@contextmanager
def printing() -> Iterator[None]:
    """Where standard output is written: a reader that has gone is no error, a full disk is no bug of ours."""
    try:
        yield
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        abandon_stdout()
        message = f"standard output cannot be written: {error.strerror}"
        raise StdoutError((Problem(message, "make room, or write elsewhere"),)) from None


def abandon_stdout() -> None:
    """Let go of a standard output that fails; Python would complain once more when it closes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_findings(findings: Iterable[Finding]) -> None:
    from generator.report import text

    found = list(findings)
    if not (sys.stdout and sys.stdout.isatty()):
        for finding in found[:_MOST]:
            click.echo(text.plain(finding))
    else:
        from rich.console import Console  # heeds NO_COLOR

        console = Console(highlight=False, soft_wrap=True)
        for finding in found[:_MOST]:
            console.print(text.coloured(finding))
    if len(found) > _MOST:
        click.echo(f"and {len(found) - _MOST:,} more findings; pass `--format json` to see all")


def show_problems(problems: Sequence[Problem]) -> None:
    """Print bad input to standard error: one line for each problem, and the number of those beyond a thousand."""
    for problem in problems[:_MOST]:
        click.echo(f"error: {problem}", err=True)
    if len(problems) > _MOST:
        click.echo(f"error: and {len(problems) - _MOST:,} more problems; fix these first", err=True)


def counted(number: int, noun: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
