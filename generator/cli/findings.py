"""The options and the output of every command that reports findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.output import emit, has_color
from generator.errors import ExitCode, InputError
from generator.report.formats import RENDERERS
from generator.report.result import SEVERITIES, Result

if TYPE_CHECKING:
    from generator.checks.finding import Finding


@dataclass(frozen=True, slots=True)
class FindingOptions:
    """The values of the shared options, by the names of their parameters."""

    form: str
    fail_on: str

    def show(
        self,
        summary: Mapping[str, Any],
        findings: Sequence[Finding],
        lines: Iterable[str],
        text_of: Callable[[str], str] | None = None,
    ) -> ExitCode:
        """Print findings in the chosen format and return the exit code."""
        result = Result(
            summary=summary,
            findings=findings,
            lines=lines,
            text_of=text_of or read_text,
            fail_on=self.fail_on,
            has_color=has_color(sys.stdout),
        )
        emit(self.form, result)
        return result.exit_code


_OPTIONS = (
    click.option(
        "--format",
        "form",
        type=click.Choice([*RENDERERS]),
        default="text",
        show_default=True,
        help="For people, for programs (json, sarif, junit), or for a pipeline of GitHub or GitLab.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice(SEVERITIES[::-1]),
        default="error",
        show_default=True,
        help="Exit with 1 if a finding has this severity or a higher one.",
    ),
)


def findings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a command, which gets them as its argument `options`."""

    @wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> Any:
        values = {field.name: kwargs.pop(field.name) for field in fields(FindingOptions)}
        return command(*args, options=FindingOptions(**values), **kwargs)

    decorated: Callable[..., Any] = with_options
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


@lru_cache(8)
def read_text(file: str) -> str:
    """Return the text of a file that a finding names; empty if it cannot be read."""
    from generator.documents.files import read_file

    try:
        return read_file(Path(file)).decode(errors="replace")
    except InputError:
        return ""
