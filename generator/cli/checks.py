"""`mpigen checks` and `mpigen explain`: the list of all checks, and the page of one."""

from __future__ import annotations

from pathlib import Path

import click

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
def list_checks(family: str, form: str) -> None:
    """List all checks, or the checks of FAMILY."""
    from generator.checks.registry import checks
    from generator.report import table
    from generator.report.json import dump
    from generator.report.result import page_url

    known = checks()
    chosen = [check for check in known if family in ("", check.family)]
    if not chosen:
        families = {check.family for check in known}
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
                    "url": page_url(check.id),
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
def explain(check: str) -> None:
    """Print the page of CHECK: what it reports, why, an example, and what to use instead."""
    from generator.checks.registry import checks, get

    registered = get(check)
    if registered is None:
        fix = suggest(check, [known.id for known in checks()])
        raise ConfigError((Problem(f"there is no check `{check}`", fix, path="CHECK"),))
    folders = (_PACKAGE / "data/docs", _PACKAGE.parent / "docs")
    file = next(folder / registered.page for folder in folders if (folder / registered.page).is_file())
    with printing():
        click.echo(file.read_text("utf-8"), nl=False)
