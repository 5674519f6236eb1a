"""`mpigen validate`: any manifests, offline."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from generator.cli.findings import FindingOptions, findings_options, read_text
from generator.cli.inputs import read_stdin, target_option
from generator.cli.output import ENGINES, counted, progress

if TYPE_CHECKING:
    from generator.pipeline import Validation


_NOT_COVERED = ("change/", "platform/")
"""Families that `validate` does not check, or only where there is an older tree."""


@click.command(
    epilog="""\b
Examples:
  kubectl kustomize overlays/prod | mpigen validate -
  mpigen validate output/prod/1.1.0 --since output/prod/1.0.0"""
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="embedded",
    show_default=True,
    help="The engine: our own, the real kubeconform, or both.",
)
@click.option("--ignore-missing-schemas", is_flag=True, help="Report kinds without a schema, and pass them.")
@target_option
@click.option(
    "--since",
    type=click.Path(exists=True, path_type=Path),
    metavar="OLD",
    help="Also report what breaks when PATHS replace the manifests in OLD, such as the previous release, or the "
    "previous output folder, platform by platform.",
)
@findings_options
def validate(
    paths: tuple[Path, ...],
    engine: str,
    ignore_missing_schemas: bool,
    targets: dict[str, str],
    since: Path | None,
    options: FindingOptions,
) -> int:
    """Check manifests in PATHS: YAML or JSON files, folders of them, or - for standard input.

    Every object is checked against the schema of its kind, with unknown fields rejected, and against
    the rules of docs/checks/index.md. The checks cover validation in the Go code of the API server,
    CEL rules of CustomResourceDefinitions and webhooks only in part. Files may hold many documents and
    lists. validate uses no network and no cluster.
    """
    from generator import pipeline
    from generator.adoption.adoption import Run

    stdin = read_stdin("pipe manifests into `mpigen validate -`") if Path("-") in paths else None
    files = [path for path in paths if str(path) != "-"]
    adoption = options.load()
    with progress("checking"), options.profiling():
        subject = pipeline.Subject(
            files, stdin, ignore_missing_schemas, targets, since, adoption.today, is_serial=options.profile
        )
        done = pipeline.validate(subject, engine, Path() if engine == "embedded" else _cache())
    text_of = read_text if stdin is None else _with_stdin(stdin)
    folders = [path for path in files if os.path.isdir(path)]  # noqa: PTH112 - Path.is_dir raises for a name that is too long
    is_whole = bool(folders) or stdin is not None
    outcome = adoption.apply(
        done.checked.findings,
        Run(
            objects=done.checked.waiving,
            files=done.names if is_whole else (),
            is_covered=lambda check: engine != "kubeconform" and not check.startswith(_NOT_COVERED),
            text_of=text_of,
        ),
    )
    return options.show(adoption, outcome, _summary(done), [_line(done)], text_of)


def _with_stdin(stdin: bytes) -> Callable[[str], str]:
    """Return a function from file name to text that also has the content of standard input."""
    from generator.pipeline import STDIN

    text = stdin.decode(errors="replace")
    return lambda file: text if file == STDIN else read_text(file)


def _cache() -> Path:
    from generator.schemas.kubeconform import cache_folder

    return cache_folder(os.environ.get("MPIGEN_CACHE"), os.environ.get("XDG_CACHE_HOME"))


def _summary(done: Validation) -> dict[str, object]:
    return {
        "files": done.checked.files,
        "objects": done.checked.objects,
        "kinds": dict(sorted(done.checked.kinds.items())),
        "engines": dict(done.by_engine),
    }


def _line(done: Validation) -> str:
    verdicts = ", ".join(f"{engine}: {counted(number, 'finding')}" for engine, number in done.by_engine.items())
    since = "" if done.since is None else f", the change: {counted(done.since, 'finding')}"
    return f"{counted(done.checked.objects, 'object')} in {counted(done.checked.files, 'file')}: {verdicts}{since}"
