"""`mpigen upgrade`: the steps of an upgrade of components, and what they do to a release and to jobs."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from generator.cli.inputs import environment_option, find_platform_file, no_python_option, read_export_texts, read_today
from generator.cli.output import has_color, printing, progress, show
from generator.errors import ExitCode


@click.command(
    epilog="""
    \b
    Example:
      mpigen upgrade platform.yaml --to kueue=0.20,trainer=2.4
      mpigen upgrade output/prod --to trainer=2.4 --jobs cluster.yaml --format markdown
      mpigen upgrade --to kubernetes=1.37 --from kubernetes=1.36 --fail-on blocked
    """
)
@click.argument("platform", type=click.Path(exists=True, path_type=Path), required=False)
@click.option(
    "--to",
    "to",
    multiple=True,
    required=True,
    metavar="COMPONENT=MINOR,...",
    help="The versions after the upgrade, such as kueue=0.20,trainer=2.4. May be repeated. `mpigen versions` lists "
    "the versions.",
)
@click.option(
    "--from",
    "present",
    multiple=True,
    metavar="COMPONENT=MINOR,...",
    help="The present versions. Default: the versions of PLATFORM.",
)
@click.option(
    "--jobs",
    multiple=True,
    metavar="EXPORT",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The objects and jobs of the cluster: the output of `kubectl get … -A -o yaml` (or json). Files, folders, or "
    "- for standard input. May be repeated.",
)
@environment_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json"]),
    default="text",
    show_default=True,
    help="text is for people, markdown for a comment on a pull request, json for programs.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["safe", "mechanical", "manual", "blocked"]),
    default="manual",
    show_default=True,
    help="Exit with 1 if a change has this class or one that needs more work.",
)
@no_python_option
def upgrade(
    platform: Path | None,
    *,
    to: tuple[str, ...],
    present: tuple[str, ...],
    jobs: tuple[Path, ...],
    form: str,
    fail_on: str,
) -> int:
    """Show what an upgrade of Kubernetes, Trainer, JobSet, Kueue or Argo CD does to a release and to jobs.

    PLATFORM is a platform file, which mpigen renders for both versions, or the folder of a release. Default: the only
    platform file in the working folder. mpigen contacts no cluster, and writes no file.

    mpigen lists the steps in an order in which the versions work together at each time, and what to do before and
    after each step. It lists each change with its class, the objects and jobs that it hits, and its source. It leaves
    out changes that hit nothing.

    The class is blocked if the versions do not work together or the platform file is invalid for them, manual if a
    person changes objects or lets jobs finish, mechanical if `mpigen synth` makes the change, and safe otherwise.

    mpigen has not read the code of announced versions, and knows only changes in their release notes.
    """
    from generator import pipeline
    from generator.report import upgrade as report

    source = platform or find_platform_file()
    texts = dict(read_export_texts(jobs, "upgrade --jobs -")) if jobs else None
    with progress(f"rendering {source}"):
        done = pipeline.upgrade(pipeline.UpgradeRequest(source, to, present, texts, read_today()))
    if form == "markdown":
        with printing():
            click.echo(report.markdown(done), nl=False)
    else:
        show(form, report.facts(done), report.text(done, has_color=has_color(sys.stdout)))
    return ExitCode.FINDINGS if any(entry.impact.reaches(fail_on) for entry in done.entries) else ExitCode.OK
