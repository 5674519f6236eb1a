"""How results reach the user: the console, the options that all commands share, progress on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

    from generator.checks.finding import Finding

_Command = TypeVar("_Command", bound=Callable[..., Any])

ENGINES = ("embedded", "kubeconform", "both")


def format_option(command: _Command) -> _Command:
    """`--format`, the same everywhere."""
    return click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For people, or for machines."
    )(command)


def console(*, stderr: bool = False) -> Console:
    """A console that is plain on a pipe and heeds NO_COLOR."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True)


@contextmanager
def progress(message: str) -> Iterator[None]:
    """A spinner on a terminal; nothing on a pipe."""
    from rich.console import Console

    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield
        return
    with errors.status(message):
        yield


def show(form: str, summary: dict[str, Any], findings: Iterable[Finding], lines: Iterable[str]) -> None:
    """Findings first, then what was done; or one JSON document of both."""
    from generator.report import machine, text

    if form == "json":
        click.echo(machine.report(summary, findings))
        return
    text.print_findings(findings, console())
    for line in lines:
        click.echo(line)


def counted(number: int, noun: str) -> str:
    """`1 finding`, `2 findings`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
