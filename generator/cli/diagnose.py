"""`mpigen diagnose`: the cause of a failed or waiting job, from its objects and logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.inputs import open_log, read_export_texts
from generator.cli.job_status import select_jobs
from generator.cli.output import format_option, progress, show
from generator.errors import ExitCode

if TYPE_CHECKING:
    from generator.diagnose.answer import Diagnosis
    from generator.jobs.status.export import JobObjects
    from generator.jobs.status.state import JobStatus

_STDIN = Path("-")
_RUNNING, _COMPLETE = "running", "complete"
"""States of jobs in which the messages of their objects, or also their logs, show no failure."""


@click.command(
    "diagnose",
    epilog="""
    \b
    Example:
      kubectl get trainjobs,workloads,localqueues,jobsets,jobs,pods,events -n team-nlp -o yaml > export.yaml
      kubectl logs -l jobset.sigs.k8s.io/jobset-name=train --all-containers --prefix --tail=-1 > train.log
      mpigen diagnose export.yaml --job train --log train.log
      kubectl logs train-launcher-0-0-x | mpigen diagnose --log -
    """,
)
@click.argument("files", nargs=-1, metavar="[EXPORT]...", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="A log of a pod or of several pods, or - for standard input. May be repeated.",
)
@click.option(
    "--job",
    "names",
    multiple=True,
    metavar="NAME",
    help="Diagnose this TrainJob, as NAME or NAMESPACE/NAME. Required with --log if EXPORT has several TrainJobs.",
)
@format_option
def diagnose(files: tuple[Path, ...], *, logs: tuple[Path, ...], names: tuple[str, ...], form: str) -> int:
    """Name the cause of a failed or waiting job: the reason, the first host and rank, the evidence and the next step.

    EXPORT is the output of `kubectl get … -o yaml` (or json), as for `mpigen job status`: files, folders, or - for
    standard input. mpigen compares its messages, and the logs, with the messages of Kubernetes, ssh, MPI, the network
    libraries and the frameworks. It explains a waiting job by its queue, as `mpigen job status` does. mpigen contacts
    no cluster.

    A line that names a fault wins over consequences, such as a closed connection. If no line names a fault, the cause
    is unknown, and mpigen prints the first lines that look like errors. The confidence is high if the lines name one
    fault, medium if they name several, and low if they show only consequences.

    The exit code is 1 if a line names a fault or looks like an error, or if a job does not run until a person changes
    something.
    """
    from generator.report import diagnosis as report

    if not files and not logs:
        raise click.UsageError("pass an EXPORT or a --log; `mpigen diagnose --help` has examples")
    if [*files, *logs].count(_STDIN) > 1:
        raise click.UsageError("standard input can be read once: pass - for EXPORT or for one --log")
    with progress("reading"):
        jobs = _select(files, names, logs)
        answers = [_diagnose(job, logs) for job in jobs or (None,)]
    show(form, {"diagnoses": [_facts(*answer) for answer in answers]}, _lines(answers))
    has_failed = (report.is_failure(answer) or (status and status.is_failed) for status, answer in answers)
    return ExitCode.FINDINGS if any(has_failed) else ExitCode.OK


def _select(files: Sequence[Path], names: Sequence[str], logs: Sequence[Path]) -> list[JobObjects]:
    """Return the jobs of an export that `--job` names; without files, none.

    Raises:
        click.UsageError: the logs belong to one of several jobs.
    """
    from generator.jobs.status.export import read_jobs

    if not files:
        return []
    jobs = select_jobs(read_jobs(dict(read_export_texts(files, "diagnose"))), names)
    if logs and len(jobs) > 1:
        raise click.UsageError("EXPORT has several TrainJobs: name the job of the logs with --job")
    return jobs


def _diagnose(job: JobObjects | None, logs: Sequence[Path]) -> tuple[JobStatus | None, Diagnosis]:
    """Return the state of a job, and the cause that its objects and logs show; without a job, the cause in the logs."""
    from generator.diagnose.answer import decide
    from generator.diagnose.bundle import read_objects
    from generator.diagnose.scan import Scan
    from generator.jobs.status.state import describe_job

    scan = Scan()
    status = describe_job(job) if job else None
    if job and status and status.state not in (_RUNNING, _COMPLETE):  # its old events are no failures
        read_objects(scan, job)
    for path in () if status and status.state == _COMPLETE else logs:
        with open_log(path) as stream:
            scan.read_log("stdin" if path == _STDIN else str(path), stream)
    return status, decide(scan)


def _lines(answers: Sequence[tuple[JobStatus | None, Diagnosis]]) -> Iterator[str]:
    """Yield the lines about the cause, below the state of the job; only the state if the job has no failure."""
    from generator.cli.job_status import describe
    from generator.report import diagnosis as report

    for status, answer in answers:
        if status:
            yield from describe(status)
        if not status or report.is_failure(answer):
            yield from report.text(answer)


def _facts(status: JobStatus | None, answer: Diagnosis) -> dict[str, Any]:
    from generator.cli.job_status import summarize
    from generator.report import diagnosis as report

    return {"job": summarize(status) if status else None, **report.facts(answer)}
