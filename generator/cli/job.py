"""`mpigen job`: TrainJobs on the runtimes of a platform."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.output import printing
from generator.errors import OutputError, Problem

if TYPE_CHECKING:
    from generator.manifests import Body


@click.group(epilog="Example: mpigen job new platform.yaml --runtime openmpi -- mpirun ./my-program")
def job() -> None:
    """Write TrainJobs for the runtimes of a platform."""


def _pairs(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for key, sign, value in pairs:
        if not (key and sign and value):
            raise click.BadParameter(f"{key}{sign}{value} is not KEY=VALUE", context, option)
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
    help="The tenant of the job. Default: the only one that can use the runtime.",
)
@click.option("--name", default="", metavar="NAME", help="The name of the TrainJob. Default: the name of the runtime.")
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="The hosts that run ranks (numNodes). Default: the number of the runtime.",
)
@click.option("--queue", default="", metavar="NAME", help="A LocalQueue. Default: the LocalQueue of the tenant.")
@click.option(
    "--namespace", default="", metavar="NAME", help="A namespace of the tenant. Default: the one with its name."
)
@click.option("--priority", default="", metavar="NAME", help="A priority that the platform declares.")
@click.option(
    "--owner", default="", metavar="USER", help="The user who may stop the job. Needed if you may not edit jobs."
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_pairs,
    help="A label, where the platform requires one.",
)
@click.option("--smoke", is_flag=True, help="Test the runtime: 1 launcher, 2 workers, an allreduce of all ranks.")
@click.option(
    "--fabric",
    default="",
    metavar="NAME",
    help="Use the runtime on this fabric. With --smoke, measure the fabric on 2 hosts.",
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
) -> None:
    """Print a TrainJob for PLATFORM, whose launcher runs COMMAND.

    mpigen checks first that the tenant may use the runtime, that Kueue can admit so many hosts, and that
    Trainer, JobSet and Kueue accept the names. Without COMMAND, the TrainJob is an example. If the
    platform isolates jobs from each other, the NetworkPolicy of the job comes first.
    """
    from generator.cli.inputs import load_declared
    from generator.jobs.job import Request, job_network_policies, new_job

    if not runtime and not fabric:
        raise click.UsageError("Missing option '--runtime'.")
    if link and not (smoke and fabric):
        raise click.UsageError("--link is for a measurement: pass --smoke and --fabric too.")
    request = Request(
        runtime, tenant, name, nodes or 0, queue, command, smoke, namespace, priority, owner, labels, fabric, link or 0
    )
    declaration = load_declared(platform)
    done = new_job(declaration, request)
    _write([*job_network_policies(declaration, done.body), done.body], output)
    for note in done.notes:
        click.echo(f"note: {note}", err=True)


def _write(bodies: list[Body], output: Path | None) -> None:
    from generator.documents.emit import BriefEmitter

    text = BriefEmitter().emit(bodies)
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
        raise OutputError((Problem(f"cannot be written: {error.strerror}", file=str(output)),)) from None
