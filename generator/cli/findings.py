"""The options and the output of every command that reports findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, wraps
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from generator.cli.inputs import no_python_option, read_today
from generator.cli.output import counted, emit, has_color
from generator.errors import ConfigError, ExitCode, InputError, Problem, suggest
from generator.report.result import RENDERERS, SEVERITIES, Result

if TYPE_CHECKING:
    from generator.adoption.adoption import Adoption, Outcome
    from generator.adoption.settings import Settings
    from generator.checks.registry import Profile

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

    def load(self) -> Adoption:
        """Return the settings of the repository. These options replace the values of the settings file.

        Raises:
            ConfigError: the settings, the baseline, the revision or a check id is invalid.
            InputError: a file cannot be read.
            click.UsageError: `--write-baseline` has no file, or is combined with `--changed-since`.
        """
        from generator.adoption.adoption import Adoption
        from generator.adoption.baseline import ChangedFiles, load_baseline
        from generator.checks.registry import Profile, Suite

        settings = self._settings()
        if self.write_baseline and (self.changed_since or not settings.baseline):
            remove = "the baseline must have the findings of all files: remove --changed-since"
            name = "no baseline file is named: name it with --baseline"
            raise click.UsageError(f"--write-baseline: {remove if self.changed_since else name}")
        is_read = settings.baseline and not self.write_baseline
        return Adoption(
            settings=settings,
            today=read_today(),
            **({"known": load_baseline(Path(settings.baseline))} if is_read else {}),
            changed=ChangedFiles(self.changed_since, Path()) if self.changed_since else None,
            suite=Suite(settings.own, Profile(perf_counter) if self.profile else None),
        )

    def _settings(self) -> Settings:
        from generator.adoption.settings import is_known
        from generator.checks.registry import Suite

        settings = read_settings(self.config)
        known = Suite(settings.own).ids() if self.select or self.ignore else ()
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
        reports: Sequence[Mapping[str, Any]] = (),
    ) -> ExitCode:
        """Print the findings of a run in the chosen format, and return the exit code.

        With `--write-baseline`, write the findings into the baseline instead.

        Args:
            adoption: the settings of the repository.
            outcome: the findings.
            summary: the JSON data of the command.
            lines: the closing lines of the text format.
            text_of: returns the text of a file that a finding names.
            reports: the objects of the format `policyreport`.
        """
        if adoption.suite.profile:
            _show_profile(adoption.suite.profile)
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
            own=adoption.suite.own,
            reports=reports,
        )
        emit(self.form, result)
        return result.exit_code


def _hidden(outcome: Outcome) -> list[str]:
    """Return a line with the number of hidden findings for each reason; empty if there are none."""
    parts = [f"{number} {_HIDDEN[reason]}" for reason, number in outcome.hidden.items()]
    return [f"not reported: {', '.join(parts)}"] if parts else []


def _split(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _show_profile(profile: Profile) -> None:
    """Print the seconds of each check to standard error, the slowest first."""
    from generator.report.table import table

    slowest = sorted(profile.seconds.items(), key=lambda entry: -entry[1])
    for line in table(("CHECK", "SECONDS"), [(check, f"{time:.3f}") for check, time in slowest]):
        click.echo(line, err=True)


def read_settings(config: Path | None) -> Settings:
    """Return the settings of a file. Without a file, read the nearest settings file in the working folder or above it.

    The paths of findings in `config` are relative to the working folder, because `config` can be in another checkout.

    Raises:
        ConfigError: the settings or a file of checks are invalid.
        InputError: the file cannot be read.
    """
    from generator.adoption.settings import Settings, find_settings, load_settings
    from generator.checks.registry import Suite

    file = config or find_settings(Path.cwd())
    if file and file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    settings = load_settings(file, Suite().ids()) if file else Settings()
    return replace(settings, root=Path()) if config else settings


config_option = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The settings file. Default: mpigen.toml, or pyproject.toml with [tool.mpigen], in the working folder or the "
    "nearest folder above it. mpigen runs the Python files that the setting `checks` names, and the plugins that "
    "`plugins` names.",
)
fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES[::-1]),
    help="Exit with 1 if a finding has this severity or a higher one. Default: `fail-on` of the settings, else error.",
)


def _format_option(others: Sequence[str], help_of_others: str) -> Callable[..., Any]:
    """Return the option `--format` with the formats of all commands, and with further formats of one command."""
    return click.option(
        "--format",
        "form",
        type=click.Choice([*RENDERERS, *others]),
        default="text",
        show_default=True,
        help="text is for people; json, sarif and junit for programs; github and gitlab for their CI pipelines"
        f"{help_of_others}.",
    )


_OPTIONS = (
    fail_on_option,
    click.option(
        "--select",
        multiple=True,
        metavar="CHECK,…",
        help="Report only these checks or families, such as the family quota or the check quota/lends-nobody.",
    ),
    click.option("--ignore", multiple=True, metavar="CHECK,…", help="Do not report these checks or families."),
    click.option(
        "--baseline",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A file with known findings, which mpigen does not report.",
    ),
    click.option("--write-baseline", is_flag=True, help="Write the findings to the baseline file, and exit with 0."),
    click.option(
        "--changed-since",
        metavar="REV",
        help="Report only findings in files that changed since the merge base with REV.",
    ),
    config_option,
    no_python_option,
    click.option("--profile", is_flag=True, help="Print the seconds of each check to standard error."),
)


def findings_options(
    command: Callable[..., Any], formats: Sequence[str] = (), help_of_formats: str = ""
) -> Callable[..., Any]:
    """Add the shared options to a command, which gets them as its argument `options`.

    Args:
        command: the command.
        formats: formats that only this command has.
        help_of_formats: the end of the help of `--format`, which describes them.
    """

    @wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> Any:
        values = {field.name: kwargs.pop(field.name) for field in fields(FindingOptions)}
        return command(*args, options=FindingOptions(**values), **kwargs)

    decorated: Callable[..., Any] = with_options
    for option in reversed((_format_option(formats, help_of_formats), *_OPTIONS)):
        decorated = option(decorated)
    return decorated


def text_reader() -> Callable[[str], str]:
    """Return a function that returns the text of a file that a finding names, and caches the last eight texts."""
    return lru_cache(8)(_read_text)


def _read_text(file: str) -> str:
    """Return the text of a file; empty if it cannot be read."""
    from generator.documents.files import read_file

    try:
        return read_file(Path(file)).decode(errors="replace")
    except InputError:
        return ""
