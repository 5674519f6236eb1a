"""`mpigen checks` and `mpigen explain`: the list of all checks, and the page of one."""

from __future__ import annotations

from pathlib import Path

import click

from generator.cli.findings import config_option, read_settings
from generator.cli.inputs import no_python_option
from generator.cli.output import format_option, printing, table_width
from generator.errors import ConfigError, Problem, suggest

_HEADER = ("ID", "SEVERITY", "SINCE", "REPORTS")
_PACKAGE = Path(__file__).parent.parent


def _complete(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    from generator.checks.registry import checks

    return [check.id for check in checks() if check.id.startswith(begun)]


@click.command(
    "checks",
    epilog="""
    \b
    Example:
      mpigen checks quota
      mpigen checks --format json | jq -r '.[].id'
    """,
)
@click.argument("family", default="", shell_complete=_complete)
@format_option
@config_option
@no_python_option
def list_checks(family: str, form: str, config: Path | None) -> None:
    """List all checks, or the checks of FAMILY.

    The list includes your own checks, in the Python files that the setting `checks` names.
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
    page = files[0].read_text("utf-8") if files and registered not in suite.own else format_page(registered)
    code, with_line = (format_code(registered, has_line=has_line) for has_line in (False, True))
    with printing():
        click.echo(page.replace(f"\n{code}\n", f"\n{with_line}\n"), nl=False)
