"""`mpigen job`: TrainJobs on the runtimes of a platform."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.findings import FindingOptions, config_option, fail_on_option
from generator.cli.inputs import environment_option, no_python_option
from generator.cli.output import has_color, printing
from generator.errors import OutputError, Problem

if TYPE_CHECKING:
    from generator.components.app import App
    from generator.config.platform import Platform
    from generator.jobs.job import Job
    from generator.report.result import Result


@click.group(epilog="Example: mpigen job new platform.yaml --runtime openmpi -- mpirun ./my-program")
def job() -> None:
    """Write TrainJobs for the runtimes of a platform."""


def _pairs(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for key, sign, value in pairs:
        if not (key and sign and value):
            raise click.BadParameter(f"`{key}{sign}{value}` is not KEY=VALUE; write a key and a value", context, option)
    return {key: value for key, _, value in pairs}


@job.command(
    epilog="""
    \b
    Example:
      mpigen job new platform.yaml --runtime openmpi --nodes 3 -- mpirun ./my-program > job.yaml
      mpigen job new platform.yaml --runtime openmpi --smoke | kubectl create -f -
      mpigen job new platform.yaml --fabric ib --smoke | kubectl create -f -
    """
)
@click.argument("platform", type=click.Path(path_type=Path))
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--runtime", default="", metavar="NAME", help="A runtime that the platform declares.")
@click.option(
    "--tenant",
    default="",
    metavar="NAME",
    help="The tenant (team) of the job. Needed if several tenants can use the runtime.",
)
@click.option(
    "--name",
    default="",
    metavar="NAME",
    help="The name of the TrainJob. Default: the name of the runtime, with -smoke or -bench for a test.",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="numNodes of the TrainJob: the number of pods that run ranks. Default: `nodes` of the runtime in the "
    "platform file, or 2; with --smoke, 2 or 3; fewer if the tenant's limit or quota is lower.",
)
@click.option("--queue", default="", metavar="NAME", help="A LocalQueue. Default: the LocalQueue of the tenant.")
@click.option(
    "--namespace", default="", metavar="NAME", help="A namespace of the tenant. Default: the one with its name."
)
@click.option("--priority", default="", metavar="NAME", help="A priority that the platform declares.")
@click.option(
    "--owner",
    default="",
    metavar="USER",
    help="Your user name, so that you can delete the job even if you have no role as editor.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_pairs,
    help="A label of the TrainJob, for example one that the platform requires. May be repeated.",
)
@click.option("--smoke", is_flag=True, help="Test the runtime: the ranks run an allreduce, by default on 2 workers.")
@click.option(
    "--fabric",
    default="",
    metavar="NAME",
    help="Use the runtime on this fabric. With --smoke, measure the fabric between 2 nodes.",
)
@click.option(
    "--link",
    type=click.IntRange(min=1),
    metavar="GBIT",
    help="Gbit/s of each NIC. Default: the rate of the server type.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A new file for the TrainJob. Default: standard output.",
)
@fail_on_option
@config_option
@environment_option
@no_python_option
def new(  # noqa: PLR0913 - one for each option
    platform: Path,
    command: tuple[str, ...],
    *,
    runtime: str,
    tenant: str,
    name: str,
    nodes: int | None,
    queue: str,
    namespace: str,
    priority: str,
    owner: str,
    labels: dict[str, str],
    smoke: bool,
    fabric: str,
    link: int | None,
    output: Path | None,
    fail_on: str | None,
    config: Path | None,
) -> int:
    """Print a TrainJob for PLATFORM, whose launcher runs COMMAND.

    mpigen fails if the tenant may not use the runtime, if Kueue can never admit so many pods, or if
    Trainer, JobSet or Kueue would reject a name. Then it checks the TrainJob as `mpigen check-job`
    does, and reports errors and warnings on standard error. If one reaches the severity of --fail-on, by
    default error, mpigen prints no TrainJob. Without COMMAND, the TrainJob runs an example program.

    If the platform isolates jobs from each other, the output starts with the NetworkPolicy of the job.
    """
    from generator.cli.inputs import load_with_app
    from generator.documents.emit import BriefEmitter
    from generator.jobs.job import Request, job_network_policies, new_job
    from generator.report.result import RENDERERS

    if not runtime and not fabric:
        raise click.UsageError("the job has no runtime: name it with --runtime, or name a fabric with --fabric")
    if link and not (smoke and fabric):
        raise click.UsageError("--link is for the measurement of a fabric: add --smoke and --fabric.")
    request = Request(
        runtime, tenant, name, nodes or 0, queue, command, smoke, namespace, priority, owner, labels, fabric, link or 0
    )
    options = FindingOptions("text", fail_on, (), (), None, False, None, config, False)
    declaration, app = load_with_app(platform)
    done = new_job(declaration, request)
    policies = "".join(BriefEmitter().emit([body]) for body in job_network_policies(declaration, done.body))
    text = BriefEmitter().emit([done.body])
    result = _check(declaration, app, done, "\n" * policies.count("\n") + text, str(output or "stdout"), options)
    if result.findings:
        click.echo(RENDERERS["text"](result), err=True, color=result.has_color or None)
    if not result.failures:
        _write(policies + text, output)
        for note in done.notes:
            click.echo(f"note: {note}", err=True)
    return result.exit_code


def _check(
    platform: Platform, app: App | None, job: Job, text: str, file: str, options: FindingOptions
) -> Result:  # the lines of the NetworkPolicy are empty in `text`, so that findings have the lines of the output
    """Check the text of a new job as `check-job` does. Leave out infos, unless `--fail-on` is `info`."""
    from generator import pipeline
    from generator.adoption.adoption import Run
    from generator.checks.finding import Severity
    from generator.checks.submission import Destination
    from generator.gitops.metadata import label_owner
    from generator.jobs.reach import deciding_objects, queue_of_team
    from generator.report.result import Result

    adoption = options.load()
    world = (
        pipeline.render(platform, app)
        if app
        else label_owner(deciding_objects(platform, job.tenant, job.runtime), platform.platform)  # needs no Node.js
    )
    world = [*world, *queue_of_team(platform, job.tenant, job.body, world)]
    destination = Destination(world, platform.cluster.versions.model_dump(), is_complete=True)
    verdicts = pipeline.check_jobs({file: text.encode()}, destination, adoption.suite)
    run = Run(verdicts.jobs, [file], lambda _: True, lambda _: text)
    findings = adoption.apply(verdicts.findings, run).findings
    if adoption.fail_on != "info":  # without the user, check-job cannot answer all questions
        findings = [finding for finding in findings if finding.severity is not Severity.INFO]
    return Result(
        findings=findings,
        text_of=lambda _: text,
        fail_on=adoption.fail_on,
        has_color=has_color(sys.stderr),
        docs=adoption.settings.docs,
        own=adoption.suite.own,
    )


def _write(text: str, output: Path | None) -> None:
    if output is None:
        with printing():
            click.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OutputError((Problem("exists already", "name another file, or remove it", str(output)),)) from None
    except OSError as error:
        fix = "choose a path that you can write to"
        raise OutputError((Problem(f"cannot be written: {error.strerror}", fix, str(output)),)) from None
