"""`mpigen job again`: a TrainJob of a cluster as a new TrainJob."""

from __future__ import annotations

from pathlib import Path

import click

from generator.cli.inputs import read_export_texts
from generator.cli.job_status import export_arguments, select_jobs
from generator.cli.output import printing
from generator.errors import ConfigError, ExitCode


@click.command(
    "again",
    epilog="""
    \b
    Example:
      kubectl get trainjob train -n team-nlp -o yaml | mpigen job again --name train-2 | kubectl create -f -
      kubectl get trainjob train -n team-nlp -o yaml | mpigen job again | kubectl replace --force -f -
    """,
)
@export_arguments
@click.option(
    "--name",
    default="",
    metavar="NAME",
    help="The name of the new TrainJob, if EXPORT has one TrainJob. Default: the same name.",
)
def again(files: tuple[Path, ...], *, names: tuple[str, ...], name: str) -> int:
    """Print the TrainJobs in EXPORT as new TrainJobs, to submit them again.

    EXPORT is the output of `kubectl get trainjob … -o yaml` (or json): files, folders, or - for standard input, which
    is the default. mpigen contacts no cluster. It leaves out what the API server, Trainer and Kueue wrote, because the
    API server rejects a new TrainJob with these values. Edit the output to change the job.

    With the same name, the new job replaces the old one, and programs continue from its last checkpoint. With
    another name, they start from the beginning.
    """
    from generator.documents.emit import BriefEmitter
    from generator.facts.names import JOB_POLICY
    from generator.jobs.again import renew_job
    from generator.jobs.status.export import read_jobs

    jobs = [objects.job for objects in read_jobs(dict(read_export_texts(files, "job again")))]
    jobs = select_jobs(jobs, names)
    if name:
        from generator.jobs.job import find_name_problems

        if len(jobs) > 1:
            raise click.UsageError("--name names one TrainJob, and EXPORT has several: select one with --job")
        if problems := tuple(find_name_problems(name)):
            raise ConfigError(problems)
    with printing():
        click.echo(BriefEmitter().emit([renew_job(job, name) for job in jobs]), nl=False)
    if name:
        policy = f"a NetworkPolicy `{JOB_POLICY}{name}` like `{JOB_POLICY}{jobs[0].name}`"
        click.echo(f"note: if the platform isolates the jobs of a team, create {policy} first", err=True)
    return ExitCode.OK
