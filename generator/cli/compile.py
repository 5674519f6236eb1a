"""`mpigen compile`: the JobSet, Jobs and Pods that a TrainJob becomes, by the rules of Trainer and JobSet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.inputs import environment_option, kustomize_option, no_python_option, target_option
from generator.cli.output import counted, printing, progress, table_width
from generator.errors import Problem, SimulationError, suggest

if TYPE_CHECKING:
    from generator.manifests import Manifest
    from generator.upstream.compile import Compiled
    from generator.upstream.mpi.world import Started

_HEADER = ("RANKS", "HOST", "POD", "SLOTS", "DEVICES", "NETWORKS")


@click.command(
    "compile",
    epilog="""
    \b
    Example:
      mpigen compile job.yaml --release platform.yaml --format table
      mpigen compile job.yaml --job team-ml/train --release output/prod
      mpigen job new --release platform.yaml --runtime openmpi | mpigen compile - --release platform.yaml
    """,
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--job", default="", metavar="NAME", help="A TrainJob, as NAME or NAMESPACE/NAME. Default: all in PATHS.")
@click.option(
    "--release",
    "releases",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A platform file, a release or other files with the runtimes. May be repeated. Default: PATHS.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "table"]),
    default="yaml",
    help="yaml prints the objects; table prints the pods with the ranks that the command starts, devices and networks.",
)
@target_option
@kustomize_option
@environment_option
@no_python_option
def compile_command(
    paths: tuple[Path, ...],
    *,
    job: str,
    releases: tuple[Path, ...],
    form: str,
    targets: dict[str, str],
    renders: bool,
) -> None:
    """Print the objects that Trainer, JobSet and Kubernetes create for the TrainJobs in PATHS.

    PATHS are YAML or JSON files, folders of them, or - for standard input. mpigen contacts no cluster.
    The objects show the job after Kueue admits it, but lack the node selectors, tolerations and labels
    that Kueue adds. Random contents, such as the ssh key, are empty, and UIDs are zeros. mpigen fails if
    it cannot compute the objects exactly, or if JobSet or the API server rejects one of them.
    """
    from generator.cli.inputs import read_cluster
    from generator.documents.emit import Emitter
    from generator.stages.compilation import compile_all
    from generator.upstream.compile import read_priorities

    with progress("compiling"):
        given, released = (read_cluster(places, renders=renders) for places in (paths, releases))
        world = [*given.manifests, *released.manifests]
        compiled = compile_all(_chosen(given.manifests, job), world, {**given.targets, **released.targets, **targets})
    priorities = read_priorities(world)
    names = {str(pod["spec"].get("priorityClassName", "")) for one in compiled for _, pod in one.pods}
    for name in sorted(names - priorities.keys()):
        lacks = "so its pods lack the label `jobset.sigs.k8s.io/priority`, which JobSet sets to the value of the class"
        click.echo(f"note: these files hold no PriorityClass `{name}`, {lacks}", err=True)
    with printing():
        if form == "yaml":
            click.echo(Emitter().emit([body for one in compiled for body in one.objects]), nl=False)
        else:
            click.echo("\n\n".join("\n".join(_lines(one)) for one in compiled))


def _chosen(manifests: Sequence[Manifest], name: str) -> list[Manifest]:
    """Return the TrainJobs that a name, `NAME` or `NAMESPACE/NAME`, selects; all if the name is empty.

    Raises:
        SimulationError: no TrainJob has this name, or the files have no TrainJob.
    """
    jobs = {f"{job.namespace}/{job.name}".removeprefix("/"): job for job in manifests if job.kind == "TrainJob"}
    chosen = [job for key, job in jobs.items() if name in ("", key, job.name)]
    if chosen:
        return chosen
    message = f"these files hold no TrainJob `{name}`" if name else "these files hold no TrainJob"
    known = jobs if "/" in name else (job.name for job in jobs.values())
    fix = suggest(name, known) if name and jobs else "name the file with the TrainJob"
    raise SimulationError((Problem(message, fix),))


def _lines(compiled: Compiled) -> Iterator[str]:
    """Yield the table of a TrainJob: its pods, first those with ranks, in the order of the hostfile."""
    from generator.report.table import table
    from generator.upstream.mpi.world import Started, host_of, template_of

    started, kinds = Started(compiled), Counter(body["kind"] for body in compiled.objects)
    yield f"{compiled.job.resource}: {', '.join(counted(number, kind) for kind, number in kinds.items())}"
    if text := _describe_ranks(started):
        yield text
    pods = {host_of(pod): pod for _, pod in compiled.pods}
    hosts = [host for host in started.hosts if host in pods]
    numbers = started.slot_numbers
    if started.ranks:
        numbers = dict.fromkeys(hosts, "?") if started.ranks.counts is None else started.ranks.numbers
    elif started.fails:
        numbers = {}
    cells: list[tuple[str, ...]] = []
    for host in (*hosts, *(host for host in pods if host not in hosts)):
        template, name = template_of(pods[host]), f"{pods[host]['metadata']['generateName']}*"
        devices = ", ".join(f"{amount} {device}" for device, amount in template.devices.items())
        slots = str(started.slots) if started.is_mpi and host in hosts else ""
        networks = ", ".join(map(str, template.networks.requests))
        cells.append((numbers.get(host, ""), host, name, slots, devices, networks))
    yield from table(_HEADER, cells, table_width())


def _describe_ranks(started: Started) -> str:
    """Return a sentence with the number of ranks, or with the reason why the ranks fail or their number is unknown.

    The result is empty for a TrainJob without a hostfile and without a launcher.
    """
    launch = started.launches.first if started.launches else None
    if started.ranks:
        program = f"`{launch.command.program}`" if launch else "the command"
        return f"{program} starts {counted(started.ranks.size, 'rank')}"
    if launch and started.fails:
        return launch.launcher.excess
    why = "the number of ranks is unknown, because mpigen cannot compute it from the command"
    return f"{why}: the table has one rank per slot" if started.is_mpi else why if launch else ""
