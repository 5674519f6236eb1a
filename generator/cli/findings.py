"""The options and the output of every command that reports findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.inputs import read_today
from generator.cli.output import counted, emit, has_color
from generator.errors import ConfigError, ExitCode, InputError, Problem, suggest
from generator.report.result import RENDERERS, SEVERITIES, Result

if TYPE_CHECKING:
    from generator.adoption.adoption import Adoption, Outcome
    from generator.adoption.settings import Settings

_HIDDEN = {
    "waived": "accepted by waivers",
    "ignored": "not selected",
    "unchanged": "in unchanged files",
    "baseline": "in the baseline",
}


@dataclass(frozen=True, slots=True)
class FindingOptions:
    """The values of the options that all commands with findings share."""

    form: str
    fail_on: str | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    baseline: Path | None
    write_baseline: bool
    changed_since: str | None
    config: Path | None
    profile: bool

    @contextmanager
    def profiling(self) -> Iterator[None]:
        """Print the time of each check to standard error after the body, if the user asks for it."""
        if not self.profile:
            yield
            return
        from generator.checks.registry import profile
        from generator.report.table import table

        with profile() as seconds:
            yield
        slowest = sorted(seconds.items(), key=lambda entry: -entry[1])
        for line in table(("CHECK", "SECONDS"), [(check, f"{time:.3f}") for check, time in slowest]):
            click.echo(line, err=True)

    def load(self) -> Adoption:
        """Return the settings file, with these options in place of its values.

        Raises:
            ConfigError: the settings, the baseline, the revision or a check id is invalid.
            InputError: a file cannot be read.
        """
        from generator.adoption.adoption import Adoption
        from generator.adoption.baseline import ChangedFiles, load_baseline

        settings = self._settings()
        if self.write_baseline and (self.changed_since or not settings.baseline):
            conflict = "write the baseline from all files" if self.changed_since else "name its file with --baseline"
            raise click.UsageError(f"--write-baseline: {conflict}")
        is_read = settings.baseline and not self.write_baseline
        return Adoption(
            settings=settings,
            today=read_today(),
            **({"known": load_baseline(Path(settings.baseline))} if is_read else {}),
            changed=ChangedFiles(self.changed_since, Path()) if self.changed_since else None,
            checks=known_checks,
        )

    def _settings(self) -> Settings:
        from generator.adoption.settings import Settings, find_settings, is_known, load_settings

        file = self.config or find_settings(Path.cwd())
        if file and file.is_relative_to(Path.cwd()):
            file = file.relative_to(Path.cwd())
        settings = load_settings(file, known_checks()) if file else Settings()
        settings = replace(settings, baseline=str(settings.root / settings.baseline) if settings.baseline else "")
        known = known_checks() if self.select or self.ignore else ()
        given = {"select": _split(self.select), "ignore": _split(self.ignore)}
        wrong = [
            Problem(f"there is no check `{check}`", suggest(check, known), path=f"--{option}")
            for option, checks in given.items()
            for check in checks
            if not is_known(check, known, has_families=True)
        ]
        if wrong:
            raise ConfigError(tuple(wrong))
        changes: dict[str, Any] = {option: checks for option, checks in given.items() if checks}
        changes |= {"fail_on": self.fail_on} if self.fail_on else {}
        changes |= {"baseline": str(self.baseline)} if self.baseline else {}
        return replace(settings, **changes)

    def show(
        self,
        adoption: Adoption,
        outcome: Outcome,
        summary: Mapping[str, Any],
        lines: Iterable[str],
        text_of: Callable[[str], str],
    ) -> ExitCode:
        """Print the findings of a run in the chosen format and return the exit code."""
        notes = [*lines, *_hidden(outcome)]
        is_baseline = False
        if self.write_baseline:
            from generator.adoption.baseline import write_baseline

            file = Path(adoption.settings.baseline)
            count = write_baseline(file, outcome.findings, adoption.settings.root)
            notes, is_baseline = [f"{file}: {counted(count, 'finding')} written"], True
        result = Result(
            summary={**summary, "findings": len(outcome.findings), "hidden": outcome.hidden},
            findings=() if is_baseline else outcome.findings,
            lines=notes,
            text_of=text_of,
            fail_on=adoption.fail_on,
            has_color=has_color(sys.stdout),
            docs=adoption.settings.docs,
        )
        emit(self.form, result)
        return result.exit_code


def _hidden(outcome: Outcome) -> list[str]:
    """Return a line with the numbers of waived, known and unselected findings; empty if there are none."""
    parts = [f"{number} {_HIDDEN[reason]}" for reason, number in outcome.hidden.items()]
    return [f"not reported: {', '.join(parts)}"] if parts else []


def _split(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def known_checks() -> tuple[str, ...]:
    """Return the ids of all checks."""
    from generator.checks.registry import checks

    return tuple(check.id for check in checks())


_OPTIONS = (
    click.option(
        "--format",
        "form",
        type=click.Choice([*RENDERERS]),
        default="text",
        show_default=True,
        help="For people, for programs (json, sarif, junit), or for the pipelines of GitHub and GitLab.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice(SEVERITIES[::-1]),
        help="Exit with 1 if a finding has this severity or a higher one. Default: error.",
    ),
    click.option(
        "--select",
        multiple=True,
        metavar="CHECK,…",
        help="Report only these checks or families, such as quota or quota/lends-nobody.",
    ),
    click.option("--ignore", multiple=True, metavar="CHECK,…", help="Do not report these checks or families."),
    click.option(
        "--baseline",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Report only findings that this file does not hold.",
    ),
    click.option("--write-baseline", is_flag=True, help="Write all findings to the baseline and exit with 0."),
    click.option(
        "--changed-since", metavar="REV", help="Report only findings in files that differ from a revision of Git."
    ),
    click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The settings. Default: mpigen.toml, or [tool.mpigen] in pyproject.toml, here or in a folder above.",
    ),
    click.option("--profile", is_flag=True, help="Print the time of each check to standard error."),
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
