"""`mpigen checks`, `explain` and `plugins`: the list of all checks, the page of one, tests of rules, and plugins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.findings import config_option, read_settings
from generator.cli.inputs import no_python_option
from generator.cli.listing import Listing
from generator.cli.output import counted, format_option, printing, show, table_width
from generator.errors import ConfigError, Problem, suggest

if TYPE_CHECKING:
    from generator.adoption.own_rules import OwnRule
    from generator.checks.registry import Check

_HEADER = ("ID", "SEVERITY", "SINCE", "REPORTS")
_TESTED = ("RULE", "BAD", "GOOD", "FILE")
_PLUGINS = ("NAME", "VERSION", "DISTRIBUTION", "ACTIVE", "CHECKS")
_PACKAGE = Path(__file__).parent.parent


def _complete(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    from generator.checks import registry

    return [check.id for check in registry.checks() if check.id.startswith(begun)]


@click.group(
    cls=Listing,
    epilog="""
    \b
    Example:
      mpigen checks quota
      mpigen checks test rules.yaml
    """,
)
def checks() -> None:
    """List all checks, or test your own rules.

    `mpigen checks` lists all checks, and `mpigen checks FAMILY` the checks of a family.
    """


@checks.command(
    "list",
    epilog="""
    \b
    Example:
      mpigen checks list quota
      mpigen checks list --format json | jq -r '.[].id'
    """,
)
@click.argument("family", default="", shell_complete=_complete)
@format_option
@config_option
@no_python_option
def list_checks(family: str, form: str, config: Path | None) -> None:
    """List all checks, or the checks of FAMILY.

    The list includes your own checks: from the files that the setting `checks` names, and from active plugins.
    """
    from generator.checks.registry import Suite
    from generator.report import table
    from generator.report.json import dump
    from generator.report.result import Result

    suite = Suite(read_settings(config).own)
    chosen = [check for check in suite.all() if family in ("", check.family)]
    if not chosen:
        families = {check.family for check in suite.all()}
        raise ConfigError((Problem(f"there is no family `{family}`", suggest(family, families), path="FAMILY"),))
    with printing():
        if form == "json":
            facts = [
                {
                    "id": check.id,
                    "severity": check.severity,
                    "since": check.since,
                    "summary": check.summary,
                    "why": check.why,
                    "source": check.source,
                    "url": Result(own=suite.own).url_of(check.id),
                    "file": check.file,
                    "line": check.line,
                    "function": check.function,
                }
                for check in chosen
            ]
            click.echo(dump(facts))
            return
        rows = [(check.id, check.severity, check.since, check.summary.split("\n")[0]) for check in chosen]
        for line in table.table(_HEADER, rows, table_width()):
            click.echo(line)


@checks.command(
    "test",
    epilog="""
    \b
    Example:
      mpigen checks test
      mpigen checks test checks/rules.yaml
    """,
)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@format_option
@config_option
@no_python_option
def test_rules(files: tuple[Path, ...], form: str, config: Path | None) -> None:
    """Run the cases of your own rules in YAML, and count them.

    FILES are files of rules. Default: the files of rules that the setting `checks` names, and the files of
    active plugins. The command fails if a case has another result, or if a rule has no good or no bad case.
    """
    from generator.adoption.own_rules import OwnRule
    from generator.report import table

    rules = [check.rule for check in _own_of(files, config) if isinstance(check.rule, OwnRule)]
    if not rules:
        fix = "name a YAML file of rules, or write its name into the setting `checks`; test checks in Python by pytest"
        raise ConfigError((Problem("there are no rules in YAML to test", fix, path="FILES"),))
    if untested := [problem for rule in rules for problem in _untested(rule)]:
        raise ConfigError(tuple(untested))
    facts = [{"id": rule.id, "file": rule.place.file, "good": rule.cases[0], "bad": rule.cases[1]} for rule in rules]
    rows = [(rule.id, str(rule.cases[1]), str(rule.cases[0]), rule.place.file) for rule in rules]
    total = counted(sum(sum(rule.cases) for rule in rules), "case")
    lines = [*table.table(_TESTED, rows, table_width()), f"{total}, {counted(len(rules), 'rule')}"]
    show(form, {"rules": facts}, lines)


def _own_of(files: tuple[Path, ...], config: Path | None) -> Sequence[Check]:
    """Return the checks of files of rules; without files, the user's own checks of the settings."""
    if not files:
        return read_settings(config).own
    from generator.adoption.own_checks import SUFFIXES, CheckFile, load_own_checks
    from generator.checks.registry import Suite

    if others := [file for file in files if file.suffix not in SUFFIXES]:
        problems = (Problem("not a file of rules", "name a file that ends with .yaml", str(file)) for file in others)
        raise ConfigError(tuple(problems))
    named = [CheckFile(file, Problem("", "name a file of rules", str(file))) for file in files]
    return load_own_checks(named, Suite().ids()).checks


def _fix(check: Check) -> list[str]:
    """Return the lines of the page about the fix of a rule in YAML. A function gives each finding its own fix."""
    from generator.adoption.own_rules import OwnRule

    if not isinstance(check.rule, OwnRule):
        return []
    fix = check.rule.texts[2]
    return ["", "## Use instead", "", f"{fix[:1].upper()}{fix[1:]}."]


def _untested(rule: OwnRule) -> Iterator[Problem]:
    """Yield a problem if a rule has no good case, and one if it has no bad case."""
    for name, number in zip(("good", "bad"), rule.cases, strict=True):
        if not number:
            fix = f"add an object to `cases.{name}` of the rule"
            yield replace(rule.place, message=f"the rule `{rule.id}` has no {name} case", fix=fix)


@click.command(
    epilog="""
    \b
    Example:
      mpigen plugins
      mpigen plugins --format json | jq -r '.summary.plugins[] | select(.active).name'
    """
)
@format_option
@config_option
@no_python_option
def plugins(form: str, config: Path | None) -> None:
    """List the installed plugins, and the checks that each active plugin adds.

    A plugin is a Python package with an entry point of the group `mpigen.plugins`. A plugin is active if the
    setting `plugins` names it. mpigen runs no code of other plugins, so their checks are not listed.
    """
    from generator.adoption.plugins import installed_plugins
    from generator.report import table

    active = read_settings(config).plugins
    installed = [(plugin, [check.id for check in active.get(plugin.name, ())]) for plugin in installed_plugins()]
    facts = [
        {
            "name": plugin.name,
            "version": plugin.version,
            "distribution": plugin.distribution,
            "active": plugin.name in active,
            "checks": added,
        }
        for plugin, added in installed
    ]
    rows = [
        (
            plugin.name,
            plugin.version,
            plugin.distribution,
            "yes" if plugin.name in active else "no",
            ", ".join(added) or "-",
        )
        for plugin, added in installed
    ]
    lines = table.table(_PLUGINS, rows, table_width()) if rows else ["no installed distribution has a plugin"]
    show(form, {"plugins": facts}, lines)


@click.command(epilog="Example: mpigen explain quota/lends-nobody")
@click.argument("check", shell_complete=_complete)
@config_option
@no_python_option
def explain(check: str, config: Path | None) -> None:
    """Print the page of CHECK: what it reports, why, an example, and what to use instead.

    The last line of the page is the place of the check in the source code.
    """
    from generator.checks.registry import Suite
    from generator.report.check_page import format_code, format_page

    suite = Suite(read_settings(config).own)
    registered = suite.get(check)
    if registered is None:
        raise ConfigError((Problem(f"there is no check `{check}`", suggest(check, suite.ids()), path="CHECK"),))
    folders = (_PACKAGE / "data/docs", _PACKAGE.parent / "docs")
    files = [folder / registered.page for folder in folders if (folder / registered.page).is_file()]
    has_page = files and registered not in suite.own
    page = files[0].read_text("utf-8") if has_page else format_page(registered, _fix(registered))
    code, with_line = (format_code(registered, has_line=has_line) for has_line in (False, True))
    with printing():
        click.echo(page.replace(f"\n{code}\n", f"\n{with_line}\n"), nl=False)
