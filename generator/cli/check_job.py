"""`mpigen check-job`: the verdict of the API server, Trainer, JobSet and Kueue on TrainJobs, without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.findings import FindingOptions, findings_options, text_reader
from generator.cli.inputs import (
    environment_option,
    kustomize_option,
    read_cluster,
    read_stdin,
    release_option,
    target_option,
)
from generator.cli.output import progress, table_width

if TYPE_CHECKING:
    from generator.checks.standing import Standing
    from generator.checks.submission import Submission
    from generator.upstream.kubernetes.access import Requester

_MOST_NAMES = 3


@click.command(
    "check-job",
    epilog="""
    \b
    Example:
      mpigen check-job job.yaml --release output/prod
      mpigen check-job job.yaml --release platform.yaml --as user:ada --group nlp-researchers
      kubectl get clusterqueues,localqueues,workloads -A -o yaml > live.yaml
      mpigen check-job job.yaml --release output/prod --usage live.yaml
      mpigen job new --release platform.yaml --runtime openmpi | mpigen check-job - --release platform.yaml
    """,
)
@click.argument("files", nargs=-1, required=True, metavar="JOB...", type=click.Path(path_type=Path, allow_dash=True))
@release_option()
@click.option(
    "--as",
    "user",
    metavar="WHO",
    help="The user who submits the TrainJobs: group:NAME, user:NAME or serviceaccount:NAMESPACE/NAME. Default: the "
    "owner in the annotation mpigen.dev/owner. Without --as, mpigen does not check RBAC. A policy that reads the user "
    "then changes the verdict only if the policy rejects every user who may create TrainJobs. If the policy rejects "
    "only this owner, mpigen reports an info.",
)
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of WHO. May be repeated.")
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    metavar="NAME",
    help="The namespace of TrainJobs that set none.",
)
@click.option(
    "--usage",
    multiple=True,
    metavar="EXPORT",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The cluster as it is: what `kubectl get clusterqueues,localqueues,workloads -A -o yaml` prints, and with a "
    "topology nodes,pods too. A file, a folder or - for standard input. May be repeated. Default: no other job runs.",
)
@target_option
@kustomize_option
@environment_option
@findings_options
def check_job(  # noqa: PLR0913 - one argument for each option
    *,
    files: tuple[Path, ...],
    release: tuple[Path, ...],
    user: str | None,
    groups: tuple[str, ...],
    namespace: str,
    usage: tuple[Path, ...],
    targets: dict[str, str],
    renders: bool,
    options: FindingOptions,
) -> int:
    """Check if the TrainJobs in JOB files, or - for standard input, would run on the cluster of a release.

    mpigen checks each TrainJob as `mpigen validate` does, and then as the cluster would: RBAC of the
    user, the admission policies of the release, the webhooks of Trainer and JobSet, the admission by
    Kueue, and the LimitRanges, ResourceQuotas and Pod Security level of the namespace. On OpenShift
    it checks the SCCs too. It submits several TrainJobs in their order, while no other job runs. So
    a TrainJob only waits for, or is preempted by, other TrainJobs of the same command.

    With --usage, the running and waiting jobs of the cluster count too. The report then has what each
    TrainJob needs and what is free, the jobs that come first, the jobs that Kueue preempts, and the
    number of nodes that would fit now.

    Verdicts: admitted; waits; faulty (Kueue admits it, but a finding is an error); never (Kueue never
    admits it); rejected (the API server or a controller rejects it); unknown (the report names the
    question that only the cluster answers).

    Not checked: images, and whether the ranks communicate.
    """
    from generator import pipeline
    from generator.adoption.adoption import Run
    from generator.checks.submission import Destination, read_jobs, select_objects
    from generator.stages.cluster import replaced_by

    if Path("-") in files and Path("-") in usage:
        raise click.UsageError("standard input can be JOB or --usage, not both: write one of them to a file")
    requester = _requester(user, groups)
    adoption, read_text = options.load(), text_reader()
    texts = dict(_read(files))
    with progress("checking"):
        namespaces = {job.namespace for job in read_jobs(texts, namespace).jobs}
        needs_all = adoption.suite.own or usage  # your own checks can read all, and so can jobs of other teams
        select = None if needs_all else partial(select_objects, namespaces)
        cluster = read_cluster(release, select, renders=renders)
        live = read_cluster(usage).manifests if usage else None
        destination = Destination(
            replaced_by(cluster.manifests, live or ()),
            {**cluster.targets, **targets},
            requester,
            namespace,
            cluster.is_complete,
            usage=live,
        )
        done = pipeline.check_jobs(texts, destination, adoption.suite)

    def text_of(file: str) -> str:
        return texts[file].decode(errors="replace") if file in texts else read_text(file)

    run = Run(done.jobs, [*texts], lambda _: True, text_of)
    outcome = adoption.apply(done.findings, run)
    verdicts = [done.verdict(submission, outcome.findings) for submission in done.submissions]
    rated = [*zip(done.submissions, verdicts, strict=True)]
    return options.show(adoption, outcome, _summary(rated), _lines(rated), text_of)


def _read(files: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield (file, its text); `-` is standard input."""
    from generator.documents.files import read_file

    for file in files:
        if str(file) == "-":
            yield "stdin", read_stdin("pipe TrainJobs into `mpigen check-job -`")
        else:
            yield str(file), read_file(file)


def _requester(user: str | None, groups: Iterable[str]) -> Requester | None:
    from generator.upstream.kubernetes.access import parse_requester

    if user is None:
        if groups:
            raise click.UsageError("--group is a group of the user in --as: add --as, or remove --group")
        return None
    try:
        return parse_requester(user, groups)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--as") from None


def _summary(rated: Sequence[tuple[Submission, str]]) -> dict[str, Any]:
    return {
        "jobs": [
            {
                "namespace": submission.job.namespace,
                "name": submission.job.name,
                "file": submission.job.file,
                "clusterQueue": submission.queue,
                "verdict": verdict,
                "history": [*submission.outcome.history] if submission.outcome else [],
                "flavors": submission.outcome.flavors if submission.outcome else {},
                **({"securityContextConstraints": submission.constraints} if submission.constraints else {}),
                **({"usage": _standing(submission.standing)} if submission.standing else {}),
            }
            for submission, verdict in rated
        ]
    }


def _standing(standing: Standing) -> dict[str, Any]:
    from generator.objects.queue import format_amount

    return {
        "needs": [
            {
                "flavor": need.key.flavor,
                "resource": need.key.resource,
                **{
                    name: format_amount(need.key.resource, amount)
                    for name, amount in {
                        "requested": need.takes,
                        "nominalQuota": need.owned,
                        "used": need.used,
                        "available": need.free,
                    }.items()
                },
            }
            for need in standing.needs
        ],
        "position": len(standing.before) + 1,
        "before": [*standing.before],
        "preempts": [*standing.preempts],
        "fits": standing.fits,
    }


def _lines(rated: Sequence[tuple[Submission, str]]) -> list[str]:
    from generator.report.table import table

    rows = [
        (
            f"{submission.job.namespace}/{submission.job.name}",
            submission.queue or "-",
            verdict,
            _details(submission),
        )
        for submission, verdict in rated
    ]
    standings = (submission for submission, _ in rated if submission.standing)
    return [
        *table(("JOB", "QUEUE", "VERDICT", "DETAILS"), rows, table_width()),
        *(line for submission in standings for line in _standing_lines(submission)),
    ]


def _standing_lines(submission: Submission) -> Iterator[str]:
    """Yield lines about the standing of a job in the cluster as it is."""
    from generator.objects.queue import format_amount
    from generator.report.table import table

    standing = submission.standing
    if standing is None:
        return
    yield ""
    yield f"{submission.job.namespace}/{submission.job.name}:"
    rows = [
        (need.key.resource, need.key.flavor, *(format_amount(need.key.resource, amount) for amount in amounts))
        for need in standing.needs
        for amounts in [(need.takes, need.owned, need.used, need.free)]
    ]
    yield from table(("RESOURCE", "FLAVOR", "REQUESTED", "QUOTA", "USED", "AVAILABLE"), rows, table_width())
    if submission.verdict == "waits":
        first = f", after {_names(standing.before)}" if standing.before else ""
        yield f"position in `{submission.queue}`: {len(standing.before) + 1}{first}"
        if standing.fits is not None:
            yield f"nodes that would fit now: {standing.fits or 'none'}"
    if standing.preempts:
        yield f"Kueue preempts {_names(standing.preempts)} for it"


def _names(jobs: Sequence[str]) -> str:
    """Return the first names of jobs, and the number of the others."""
    from generator.documents.messages import format_names

    if len(jobs) <= _MOST_NAMES:
        return format_names(jobs)
    return f"{', '.join(f'`{name}`' for name in jobs[:_MOST_NAMES])} and {len(jobs) - _MOST_NAMES} others"


def _details(submission: Submission) -> str:
    """Describe the flavors and the SCC of an admitted job, or why a job waits; `-` for any other verdict."""
    from generator.objects.queue import format_amount

    outcome = submission.outcome
    if outcome is None or submission.verdict in ("rejected", "never"):
        return "-"
    if outcome.flavors:
        flavors = sorted({flavor for choices in outcome.flavors.values() for flavor in choices.values()})
        constraints = f", SCC {' and '.join(submission.constraints)}" if submission.constraints else ""
        return f"flavor {', '.join(flavors)}{', borrows quota' if outcome.borrows else ''}{constraints}"
    if outcome.was_preempted:
        return next(event for event in reversed(outcome.history) if event.startswith("preempted"))
    for need in submission.standing.needs if submission.standing else ():
        if need.free < need.takes:
            takes, free = (format_amount(need.key.resource, amount) for amount in (need.takes, need.free))
            return f"needs {takes} {need.key.resource} of flavor `{need.key.flavor}`, and {free} is free"
    reasons = outcome.reason.split("; ")  # one for each PodSet and flavor
    return next((reason for reason in reasons if reason.endswith("is free")), reasons[0])
