"""`mpigen job status`: the state of TrainJobs in an export of a cluster, the reason for it, and the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from generator.cli.inputs import read_export_texts
from generator.cli.output import format_option, progress, show, table_width
from generator.errors import ExitCode, suggest

if TYPE_CHECKING:
    from generator.jobs.status.state import JobStatus

_MOST_BLOCKS = 10
"""The number of jobs up to which the text has three lines for each; a longer report is a table."""
_COLUMNS = ("JOB", "STATE", "SINCE", "WHY")


class _Named(Protocol):
    """A job with a name and a namespace."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...


_Job = TypeVar("_Job", bound=_Named)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def export_arguments(command: _Command) -> _Command:
    """Add EXPORT and `--job` to a command, which gets them as its arguments `files` and `names`."""
    files = click.argument("files", nargs=-1, metavar="[EXPORT]...", type=click.Path(path_type=Path, allow_dash=True))
    names = click.option(
        "--job",
        "names",
        multiple=True,
        metavar="NAME",
        help="Select this TrainJob, as NAME or NAMESPACE/NAME. May be repeated. Default: all TrainJobs in EXPORT.",
    )
    return files(names(command))


@click.command(
    "status",
    epilog="""
    \b
    Example:
      kubectl get trainjobs,workloads,localqueues,jobsets,jobs,pods,events -n team-nlp -o yaml | mpigen job status -
      kubectl get trainjob train -n team-nlp -o json | mpigen job status -
      mpigen job status export.yaml queue.json --job train
    """,
)
@export_arguments
@format_option
def status(files: tuple[Path, ...], *, names: tuple[str, ...], form: str) -> int:
    """Report the state of the TrainJobs in EXPORT, the reason for it, and the next step, in three lines each.

    EXPORT is the output of `kubectl get … -o yaml` (or json): files, folders, or - for standard input, which is the
    default. mpigen contacts no cluster, so the report is as old as EXPORT. Only TrainJobs are required.

    Workloads, JobSets, Jobs, pods, events and queues of the same namespace complete the answer, and so do the queue
    positions of Kueue's visibility API. If EXPORT lacks an object that decides, mpigen names the object and the
    command that prints it.

    More than 10 jobs are printed as a table. The exit code is 1 if a job failed, or does not run until a person changes
    something.
    """
    from generator.jobs.status.export import read_jobs
    from generator.jobs.status.state import describe_job

    with progress("reading"):
        jobs = [describe_job(objects) for objects in read_jobs(dict(read_export_texts(files, "job status")))]
    jobs = select_jobs(jobs, names)
    show(form, {"jobs": [summarize(job) for job in jobs]}, [*_lines(jobs)])
    return ExitCode.FINDINGS if any(job.is_failed for job in jobs) else ExitCode.OK


def select_jobs(jobs: Sequence[_Job], names: Sequence[str]) -> list[_Job]:
    """Return the jobs that `--job` names, as NAME or NAMESPACE/NAME; all jobs without names.

    Raises:
        click.BadParameter: no job has one of the names.
    """
    known = {name for job in jobs for name in _names_of(job)}
    for name in names:
        if name not in known:
            message = f"the export has no TrainJob `{name}`; {suggest(name, known)}"
            raise click.BadParameter(message, param_hint="--job")
    return [job for job in jobs if not names or {*names} & {*_names_of(job)}]


def _names_of(job: _Named) -> tuple[str, str]:
    return job.name, f"{job.namespace or 'default'}/{job.name}"


def _lines(jobs: Sequence[JobStatus]) -> Iterator[str]:
    from generator.jobs.status.state import format_time
    from generator.report.table import table

    if len(jobs) > _MOST_BLOCKS:
        rows = [(f"{job.namespace}/{job.name}", job.state, format_time(job.since), job.why) for job in jobs]
        yield from table(_COLUMNS, rows, table_width())
        return
    for job in jobs:
        yield from describe(job)


def describe(job: JobStatus) -> Iterator[str]:
    """Yield three lines: the state of a job, the reason and the next step."""
    from generator.jobs.status.state import format_time

    since = f" since {format_time(job.since)}" if job.since else ""
    yield f"{job.namespace}/{job.name}: {job.state}{since}"
    yield f"  why: {job.why}"
    yield f"  next: {job.action} Run: {job.command}"


def summarize(job: JobStatus) -> dict[str, Any]:
    """Return the state of a job as JSON data. Unknown values are None."""
    return {
        "namespace": job.namespace,
        "name": job.name,
        "state": job.state,
        "failed": job.is_failed,
        "since": job.since or None,
        "why": job.why,
        "next": job.action,
        "command": job.command,
        "queue": job.queue or None,
        "position": job.position._asdict() if job.position else None,
        "pods": {"ready": job.pods.ready, "expected": job.pods.expected} if job.pods else None,
        "reasons": [*job.reasons],
    }
