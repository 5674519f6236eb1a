"""`mpigen plan`: the meaning of an update, by topic and risk."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.inputs import (
    against_option,
    environment_option,
    find_platform_file,
    no_python_option,
    output_option,
    read_today,
)
from generator.cli.output import has_color, printing, progress, show
from generator.errors import ExitCode, OutputError, Problem

if TYPE_CHECKING:
    from generator.pipeline import Planned


@click.command(
    epilog="""
    \b
    Example:
      mpigen plan platform.yaml
      mpigen plan platform.yaml --against origin/main --format markdown
      mpigen plan output/prod --against v1.4.0 --fail-on medium
    """
)
@click.argument("platform", type=click.Path(path_type=Path), required=False)
@output_option
@against_option
@environment_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="text is for people, markdown for a comment on a pull request, json for programs.",
)
@click.option("--details", "has_details", is_flag=True, help="Add the details of each effect to the text format.")
@click.option(
    "--fail-on",
    type=click.Choice(["low", "medium", "high"]),
    default="high",
    show_default=True,
    help="Exit with 1 if an effect has this risk or a higher one.",
)
@click.option(
    "--write",
    "is_written",
    is_flag=True,
    help="Write the plan of a release in a folder into its CHANGES.md, as the section of its version.",
)
@no_python_option
def plan(  # noqa: PLR0913 - one argument for each option
    platform: Path | None,
    *,
    output: Path,
    against: str,
    form: str,
    has_details: bool,
    fail_on: str,
    is_written: bool,
) -> int:
    """Show what an update of PLATFORM means for teams, jobs and nodes, and the risk of each effect.

    PLATFORM is a platform.yaml or an mpigen_platform.py, which mpigen renders and compares with the
    release in Git. It can also be the folder of a release, whose files on disk mpigen compares. A
    missing folder is a deleted release. Default: the only platform file in the working folder. mpigen
    contacts no cluster, and writes a file only with --write.

    In a Git repository, a release that is not committed yet is a new release, because no engine applies
    it. If Git ignores OUTPUT, mpigen compares with the release in OUTPUT.

    The risk is high if running jobs stop, nodes restart, data or an object that jobs use is deleted,
    a protection is weaker, a network is open to others, a subject gets a dangerous permission (such
    as to read Secrets, or all permissions of an admin), all users or all ServiceAccounts get any
    permission, or the API server rejects the update. The risk is medium for smaller losses, such as
    of quota, for other new permissions, new admission rules and changed images, and for changed
    fields whose effect mpigen does not know. Otherwise it is low.
    """
    from generator import pipeline
    from generator.report import plan as report

    source = platform or find_platform_file()
    if is_written and not source.is_dir():
        raise click.UsageError("--write needs the folder of a release: run `mpigen synth`, and name OUTPUT/<platform>")
    with progress(f"rendering {source}"):
        done = pipeline.plan(source, output, against, read_today())
    if is_written:
        _write(done, source)
    if form == "markdown":
        with printing():
            click.echo(report.markdown(_title(done), done.effects), nl=False)
    else:
        lines = report.text(_title(done), done.effects, has_details=has_details, has_color=has_color(sys.stdout))
        show(form, report.facts(done.platform, done.version, done.against, done.effects), lines)
    is_risky = any(effect.risk.reaches(fail_on) for effect in done.effects)
    return ExitCode.FINDINGS if is_risky else ExitCode.OK


def _write(done: Planned, folder: Path) -> None:
    """Write a plan into CHANGES.md of a release.

    Raises:
        OutputError: the release before has the same version, or there is none, or the file cannot be written.
    """
    from generator.documents.edit import replace_file
    from generator.documents.files import read_file
    from generator.release import CHANGES, add_section, report_os_errors
    from generator.report.plan import section

    if not done.is_new_version:
        before = f"`{done.against}` has release {done.version} too" if done.against else "there is no release before"
        fix = "raise `release` in the platform file, or name the release before this one with --against"
        raise OutputError((Problem(f"{before}, so the plan is not the change of a version", fix, str(folder)),))
    file = folder / CHANGES
    text = read_file(file).decode() if file.exists() else ""
    with report_os_errors(folder):
        replace_file(file, add_section(text, section(done.version, done.effects)).encode())


def _title(done: Planned) -> str:
    compared = f"compared with {done.against}" if done.against else "a new release"
    return f"{done.platform} {done.version}, {compared}"
