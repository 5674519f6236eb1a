"""`mpigen promote`: change the Git revision that the GitOps engine follows for an environment, and show the plan."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from generator.cli.inputs import find_platform_file, output_option, read_today
from generator.cli.output import format_option, has_color, progress, show


@click.command(
    epilog="""
    \b
    Example:
      mpigen promote prod --to prod-east-prod/1.4.0
      mpigen promote --platform platform.yaml --to cpu-kubernetes/1.1.0
    """
)
@click.argument("environment", default="", required=False)
@click.option("--to", "revision", required=True, metavar="REV", help="The tag to apply, or a branch or commit.")
@click.option(
    "--platform",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The platform.yaml. Default: the only platform file in the working folder.",
)
@output_option
@format_option
def promote(environment: str, revision: str, platform: Path | None, output: Path, form: str) -> None:
    """Set `gitops.revision` of ENVIRONMENT to REV, and show what the change means for teams, jobs and nodes.

    Without `environments` in the platform file, leave out ENVIRONMENT. mpigen edits one line of the platform
    file, and writes the Application of Argo CD or the source of Flux with this revision. To roll back, name an
    older tag.

    mpigen compares the releases of both revisions in the local clone of the Git repository, as `mpigen plan`
    does. It contacts no cluster: the cluster changes only after you merge the commit. The root Application of
    Argo CD then updates the other Applications. For Flux, an admin applies the source: a GitRepository or
    OCIRepository. The release of the artifact `1.1.0` in an OCI registry is at the Git tag `<platform>/1.1.0`.
    """
    from generator import pipeline
    from generator.report import plan as report

    source = platform or find_platform_file()
    with progress(f"rendering {source}"):
        done = pipeline.promote(source, environment, revision, output, read_today())
    planned, written = done.planned, done.written
    compared = f"compared with {planned.against}" if planned.against else "a new release"
    title = f"{planned.platform} {planned.version}, {compared}"
    lines = [
        f"{source}: `{done.path}` changes from `{done.before}` to `{done.after}`",
        f"{written.folder}: {', '.join(written.changed) or 'no file'} changed",
        *report.text(title, planned.effects, has_color=has_color(sys.stdout)),
    ]
    facts = report.facts(planned.platform, planned.version, planned.against, planned.effects)
    summary = {"platformFile": str(source), "path": done.path, "from": done.before, "to": done.after, "plan": facts}
    show(form, summary, lines)
