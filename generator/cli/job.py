"""`mpigen job`: TrainJobs on the runtimes of a platform."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from generator.cli.findings import FindingOptions, config_option, fail_on_option
from generator.cli.inputs import environment_option, kustomize_option, no_python_option, release_option
from generator.cli.job_again import again
from generator.cli.job_status import status
from generator.cli.output import has_color, printing, progress
from generator.errors import OutputError, Problem

if TYPE_CHECKING:
    from generator.jobs.catalogue import Catalogue
    from generator.jobs.job import NewJob
    from generator.jobs.request import Download, Mount
    from generator.manifests import Body
    from generator.report.result import Result
    from generator.runtimes.additions import SecretKey

T = TypeVar("T")


@click.group(epilog="Example: mpigen job new --release platform.yaml --runtime openmpi -- mpirun ./my-program")
def job() -> None:
    """Write TrainJobs, and report the state of existing TrainJobs."""


job.add_command(status)
job.add_command(again)


def _pairs(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for key, sign, value in pairs:
        if not (key and sign and value):
            raise click.BadParameter(f"`{key}{sign}{value}` is not KEY=VALUE; write a key and a value", context, option)
    return {key: value for key, _, value in pairs}


def _variables(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Read NAME=VALUE; the value can be empty, and can have `=`."""
    pairs = [text.partition("=") for text in texts]
    for name, sign, value in pairs:
        if not (name and sign):
            raise click.BadParameter(f"`{name}{sign}{value}` is not NAME=VALUE", context, option)
    return _once([(name, value) for name, _, value in pairs], context, option)


def _keys(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, SecretKey]:
    """Read NAME=SECRET:KEY."""
    from generator.runtimes.additions import SecretKey

    matches = [(text, re.fullmatch(r"([^=]+)=([^:]+):(.+)", text)) for text in texts]
    for text, match in matches:
        if match is None:
            raise click.BadParameter(f"`{text}` is not NAME=SECRET:KEY", context, option)
    return _once([(match[1], SecretKey(match[2], match[3])) for _, match in matches if match], context, option)


def _mounts(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[Mount, ...]:
    """Read [SOURCE/]NAME:PATH[:ro]."""
    from generator.jobs.request import SOURCES, Mount

    mounts = []
    for text in texts:
        match = re.fullmatch(r"(?:([a-z]+)/)?([^:/]+):([^:]+)(:ro)?", text)
        source = next((name for name in SOURCES if match and (match[1] or SOURCES[0]) == name), None)
        if match is None or source is None:
            message = f"`{text}` is not [SOURCE/]NAME:PATH[:ro], and SOURCE is one of {', '.join(SOURCES)}"
            raise click.BadParameter(message, context, option)
        mounts.append(Mount(source, match[2], match[3], bool(match[4])))
    return tuple(mounts)


def _checkpoint(context: click.Context, option: click.Parameter, text: str | None) -> Mount | None:
    """Read CLAIM[:PATH]."""
    from generator.jobs.request import Mount

    if text is None:
        return None
    claim, sign, path = text.partition(":")
    if not claim or "/" in claim or (sign and not path):
        raise click.BadParameter(f"`{text}` is not CLAIM[:PATH]; write one such as checkpoints", context, option)
    return Mount("claim", claim, path or "/checkpoint")


def _download(name: str, uri: str, secret: str) -> Download | None:
    from generator.jobs.request import Download

    if secret and not uri:
        raise click.UsageError(f"--{name}-secret is for a download: add --{name}.")
    return Download(uri, secret) if uri else None


def _matrix(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Read VARIABLE=VALUE,VALUE,…: at least one value, none twice."""
    axes = [(name, tuple(values.split(","))) for name, values in _variables(context, option, texts).items()]
    for name, values in axes:
        if "" in values or len({*values}) < len(values):
            message = f"`{name}={','.join(values)}` has an empty value or a value twice; write VARIABLE=VALUE,VALUE"
            raise click.BadParameter(message, context, option)
    return dict(axes)


def _once(pairs: list[tuple[str, T]], context: click.Context, option: click.Parameter) -> dict[str, T]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"sets `{name}` twice; set it once", context, option)
    return dict(pairs)


def _seconds(context: click.Context, option: click.Parameter, text: str | None) -> int:
    from generator.config.model.fields import to_seconds

    if text is None:
        return 0
    seconds = to_seconds(text) if re.fullmatch(r"(\d{1,7}h)?(\d{1,7}m)?(\d{1,7}s)?", text) else 0
    if not seconds:
        raise click.BadParameter(f"`{text}` is not a time; write one such as 90m or 1h30m", context, option)
    return seconds


@job.command(
    epilog="""
    \b
    Example:
      mpigen job new --release output/prod --runtime openmpi --nodes 3 -- mpirun ./my-program > job.yaml
      mpigen job new --release output/prod --runtime openmpi --code ./src --owner ada -- mpirun python3 /code/train.py
      mpigen job new --release output/prod --runtime openmpi --matrix lr=0.1,0.01 -- mpirun ./a --lr {lr} > jobs.yaml
      mpigen job new --release platform.yaml --runtime openmpi --smoke | kubectl create -f -
      mpigen job new --release platform.yaml --fabric ib --smoke | kubectl create -f -
    """
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@release_option()
@click.option("--runtime", default="", metavar="NAME", help="A runtime of the cluster.")
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
    help="numNodes of the TrainJob: the number of pods that run ranks. Default: the number of the runtime; "
    "with --smoke, 2 or 3; fewer if the tenant's limit or quota is lower.",
)
@click.option("--queue", default="", metavar="NAME", help="A LocalQueue. Default: the LocalQueue of the tenant.")
@click.option(
    "--namespace", default="", metavar="NAME", help="A namespace of the tenant. Default: the one with its name."
)
@click.option("--priority", default="", metavar="NAME", help="A WorkloadPriorityClass of the cluster.")
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
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="numProcPerNode of the TrainJob: the ranks of each pod. Default: the number of the runtime.",
)
@click.option(
    "--resources",
    multiple=True,
    metavar="RESOURCE=AMOUNT",
    callback=_pairs,
    help="The amount of a resource in each pod with ranks, such as memory=64Gi. May be repeated. Default: the amount "
    "of the runtime.",
)
@click.option(
    "--image",
    default="",
    metavar="IMAGE",
    help="The image of all pods, which `images` of the runtime must allow. The output then starts with a copy "
    "of the runtime. Default: the image of the runtime.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_variables,
    help="A variable of all ranks. May be repeated.",
)
@click.option(
    "--secret-env",
    "secrets",
    multiple=True,
    metavar="NAME=SECRET:KEY",
    callback=_keys,
    help="A variable of all ranks, whose value is a key of a Secret in the namespace. May be repeated.",
)
@click.option(
    "--volume",
    "mounts",
    multiple=True,
    metavar="[SOURCE/]NAME:PATH[:ro]",
    callback=_mounts,
    help="A volume of all pods: a `claim` (default), `configmap` or `secret` of the namespace. May be repeated.",
)
@click.option(
    "--connection",
    default="",
    metavar="SECRET",
    help="An S3 connection of OpenShift AI in the namespace. Its keys, such as AWS_S3_ENDPOINT, become variables of "
    "all ranks.",
)
@click.option(
    "--checkpoint",
    metavar="CLAIM[:PATH]",
    callback=_checkpoint,
    help="The claim for checkpoints, by default at /checkpoint, if the runtime has none. MPIGEN_CHECKPOINT names the "
    "folder of the job on it.",
)
@click.option(
    "--dataset",
    default="",
    metavar="URI",
    help="A dataset such as hf://org/name. The dataset initializer of the runtime downloads it before the ranks start.",
)
@click.option("--dataset-secret", default="", metavar="SECRET", help="The Secret with the credentials for --dataset.")
@click.option(
    "--model",
    default="",
    metavar="URI",
    help="A model such as hf://org/name. The model initializer of the runtime downloads it before the ranks start.",
)
@click.option("--model-secret", default="", metavar="SECRET", help="The Secret with the credentials for --model.")
@click.option(
    "--code",
    default="",
    metavar="PATH[@REVISION]",
    help="A file, or a folder of at most 1 MiB, that all pods have in /code: as it is, or as a revision of its Git "
    "repository has it. The output then starts with its ConfigMap, which needs --owner.",
)
@click.option(
    "--timeout",
    "seconds",
    metavar="TIME",
    callback=_seconds,
    help="The time such as 1h30m after which the job fails, without the time in the queue. Default: "
    "`limits.timePerJob` of the tenant.",
)
@click.option(
    "--matrix",
    multiple=True,
    metavar="VARIABLE=VALUE,VALUE",
    callback=_matrix,
    help="Write a job for each value, and with several --matrix for each combination. Each job has the value as a "
    "variable, and in COMMAND instead of {VARIABLE}.",
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
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json", "python"]),
    default="yaml",
    show_default=True,
    help="The form of the output. JSON is one List, which kubectl reads too. Python is a program that creates the same "
    "objects with the Kubeflow SDK.",
)
@fail_on_option
@config_option
@kustomize_option
@environment_option
@no_python_option
def new(  # noqa: PLR0913 - one for each option
    command: tuple[str, ...],
    *,
    release: tuple[Path, ...],
    runtime: str,
    tenant: str,
    name: str,
    nodes: int | None,
    queue: str,
    namespace: str,
    priority: str,
    owner: str,
    labels: dict[str, str],
    processes: int | None,
    resources: dict[str, str],
    image: str,
    variables: dict[str, str],
    secrets: dict[str, SecretKey],
    mounts: tuple[Mount, ...],
    connection: str,
    checkpoint: Mount | None,
    dataset: str,
    dataset_secret: str,
    model: str,
    model_secret: str,
    seconds: int,
    matrix: dict[str, tuple[str, ...]],
    code: str,
    smoke: bool,
    fabric: str,
    link: int | None,
    output: Path | None,
    form: str,
    fail_on: str | None,
    config: Path | None,
    renders: bool,
) -> int:
    """Print a TrainJob whose launcher runs COMMAND.

    mpigen fails if the tenant may not use the runtime, if Kueue can never admit so many pods, or if
    Trainer, JobSet or Kueue would reject a name. Then it checks the TrainJob as `mpigen check-job`
    does, and reports errors and warnings on standard error. If one reaches the severity of --fail-on, by
    default error, mpigen prints no TrainJob. Without COMMAND, the TrainJob runs an example program.

    If the platform isolates jobs from each other, the output has the NetworkPolicies of the jobs before them.

    With --matrix, the jobs of the sweep are called NAME-1, NAME-2, …, and have the label app.kubernetes.io/name=NAME. A
    note says how many of them Kueue admits at once while no other job runs.
    """
    from generator.cli.code import read_code
    from generator.cli.inputs import read_offer
    from generator.documents.emit import BriefEmitter
    from generator.jobs.job import new_job
    from generator.jobs.request import JobRequest
    from generator.report.result import RENDERERS

    if not runtime and not fabric:
        raise click.UsageError("the job has no runtime: name it with --runtime, or name a fabric with --fabric")
    if link and not (smoke and fabric):
        raise click.UsageError("--link is for the measurement of a fabric: add --smoke and --fabric.")
    request = JobRequest(
        runtime=runtime,
        tenant=tenant,
        name=name,
        nodes=nodes or 0,
        queue=queue,
        command=command,
        is_smoke=smoke,
        namespace=namespace,
        priority=priority,
        owner=owner,
        labels=labels,
        fabric=fabric,
        link=link or 0,
        processes=processes or 0,
        resources=resources,
        image=image,
        environment=variables,
        secrets=secrets,
        connection=connection,
        mounts=mounts,
        checkpoint=checkpoint,
        dataset=_download("dataset", dataset, dataset_secret),
        model=_download("model", model, model_secret),
        seconds=seconds,
        matrix=matrix,
        code=read_code(code) if code else {},
    )
    options = FindingOptions("text", fail_on, (), (), None, False, None, config, False)
    catalogue = read_offer(release, renders=renders).catalogue
    with progress("checking"):
        done = new_job(catalogue, request)
    bodies = [*done.others, *done.bodies]
    texts = [BriefEmitter().emit([body]) for body in bodies]
    jobs = texts[-len(done.bodies) :]
    before = "".join(texts[: -len(done.bodies)])
    with progress("checking"):
        text = "\n" * before.count("\n") + "".join(jobs)
        judged = _check(catalogue, done, text, str(output or "stdout"), options)
    result = judged.result
    if result.findings:
        click.echo(RENDERERS["text"](result), err=True, color=result.has_color or None)
    if not result.failures:
        forms = {"yaml": lambda: "".join(texts), "json": lambda: _as_list(bodies), "python": lambda: done.program}
        _write(forms[form](), output)
        for note in (*done.notes, *_sweep_notes(judged.verdicts)):
            click.echo(f"note: {note}", err=True)
    return result.exit_code


def _as_list(bodies: list[Body]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}, indent=2) + "\n"


def _sweep_notes(verdicts: list[str]) -> Iterator[str]:
    if len(verdicts) == 1:
        return
    if {*verdicts} <= {"admitted", "waits"}:
        count = verdicts.count("admitted")
        rest = ", and the others wait for their quota" if count < len(verdicts) else ""
        yield f"Kueue admits {count} of these {len(verdicts)} jobs at once while no other job runs{rest}"
    else:
        yield "mpigen cannot compute how many of these jobs Kueue admits at once: see `mpigen check-job`"


class _Judged(NamedTuple):
    result: Result
    verdicts: list[str]


def _check(catalogue: Catalogue, job: NewJob, text: str, file: str, options: FindingOptions) -> _Judged:
    """Check the text of new jobs as `check-job` does. Leave out infos, unless `--fail-on` is `info`.

    The lines of the other objects are empty in `text`, so that findings have the lines of the output.
    """
    from generator import pipeline
    from generator.adoption.adoption import Run
    from generator.checks.finding import Severity
    from generator.checks.submission import Destination
    from generator.manifests import Manifest
    from generator.objects.training import queue_of
    from generator.report.result import Result

    adoption = options.load()
    world = [
        *catalogue.seen_from({job.home.name}, *job.runtimes),
        *catalogue.possible_queue(job.home, queue_of(Manifest(job.body, ""))),
    ]
    created = [Manifest(body, "") for body in job.others]
    destination = Destination(world, catalogue.targets, is_complete=catalogue.is_complete, created=created)
    done = pipeline.check_jobs({file: text.encode()}, destination, adoption.suite)
    run = Run(done.jobs, [file], lambda _: True, lambda _: text)
    findings = adoption.apply(done.findings, run).findings
    verdicts = [done.verdict(submission, findings) for submission in done.submissions]
    if adoption.fail_on != "info":  # without the user, check-job cannot answer all questions
        findings = [finding for finding in findings if finding.severity is not Severity.INFO]
    result = Result(
        findings=findings,
        text_of=lambda _: text,
        fail_on=adoption.fail_on,
        has_color=has_color(sys.stderr),
        docs=adoption.settings.docs,
        own=adoption.suite.own,
    )
    return _Judged(result, verdicts)


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
