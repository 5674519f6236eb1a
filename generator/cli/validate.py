"""`mpigen validate`: check any manifests without a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.findings import FindingOptions, findings_options, text_reader
from generator.cli.inputs import read_stdin, target_option
from generator.cli.output import ENGINES, counted, progress

if TYPE_CHECKING:
    from generator.pipeline import Validation


_NOT_COVERED = ("change/", "platform/")
"""Families whose waivers `validate` never reports as unused: it runs `change/` only with --since, `platform/` never."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options for the schemas and for the manifests to check.

    Attributes:
        engine: `--engine`.
        ignore_missing_schemas: `--ignore-missing-schemas`.
        renders: `--kustomize`.
        schema_locations: `--schema-location`.
    """

    engine: str
    ignore_missing_schemas: bool
    renders: bool
    schema_locations: tuple[str, ...]


_SOURCE_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="embedded",
        show_default=True,
        help="The program that checks schemas: mpigen (embedded), kubeconform, or both.",
    ),
    click.option(
        "--ignore-missing-schemas", is_flag=True, help="Report a kind without a schema as info instead of error."
    ),
    click.option(
        "--schema-location",
        "schema_locations",
        multiple=True,
        metavar="PATH",
        help="Also read schemas from this folder: CustomResourceDefinitions, or JSON Schemas in "
        "GROUP/KIND_VERSION.json. A template of paths, as for kubeconform, is possible. May be repeated.",
    ),
    click.option(
        "--kustomize",
        "renders",
        is_flag=True,
        help="Render the kustomizations in PATHS with kubectl or kustomize, and check the result instead of their "
        "files.",
    ),
)


def _source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `SourceOptions` to a command, which gets them as its argument `sources`."""

    @wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> Any:
        values = {option.name: kwargs.pop(option.name) for option in fields(SourceOptions)}
        return command(*args, sources=SourceOptions(**values), **kwargs)

    decorated: Callable[..., Any] = with_options
    for option in reversed(_SOURCE_OPTIONS):
        decorated = option(decorated)
    return decorated


@click.command(
    epilog="""\b
Examples:
  kubectl kustomize overlays/prod | mpigen validate -
  mpigen validate output/prod --since origin/main"""
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@_source_options
@target_option
@click.option(
    "--since",
    default="",
    metavar="OLD",
    help="Also report what breaks when PATHS replace the manifests in OLD: a file, a folder, or a Git revision of "
    "PATHS, such as origin/main. Releases are compared with the release of the same platform.",
)
@findings_options
def validate(
    paths: tuple[Path, ...],
    sources: SourceOptions,
    targets: dict[str, str],
    since: str,
    options: FindingOptions,
) -> int:
    """Check manifests in PATHS: YAML or JSON files, folders of them, or - for standard input.

    mpigen checks every object against the schema of its kind, which rejects unknown fields, by the CEL rules of its
    CustomResourceDefinition, and by the checks that `mpigen checks` lists. These checks cover only a part of the Go
    validation of the API server, and of webhooks. A file can hold several documents and lists.

    CustomResourceDefinitions in PATHS are schemas for their custom resources.

    If a folder in PATHS is a release or holds releases, mpigen also compares their files with their locks, as `mpigen
    verify` does.

    mpigen skips Helm charts, kustomizations, encrypted files and other YAML that is no manifest, and names them.

    The embedded engine uses no network and no cluster. mpigen builds kubeconform on first use, with Go.
    """
    from generator import pipeline
    from generator.adoption.adoption import Run

    stdin = read_stdin("pipe manifests into `mpigen validate -`") if Path("-") in paths else None
    files = [path for path in paths if str(path) != "-"]
    adoption, read_text = options.load(), text_reader()
    with progress("checking"):
        subject = pipeline.Subject(
            paths=files,
            stdin=stdin,
            ignore_missing=sources.ignore_missing_schemas,
            renders=sources.renders,
            schema_locations=(*sources.schema_locations, *adoption.settings.schema_locations),
            targets=targets,
            since=since,
            today=adoption.today,
            suite=adoption.suite,
        )
        done = pipeline.validate(subject, sources.engine, Path() if sources.engine == "embedded" else _cache())

    def text_of(file: str) -> str:
        return done.texts[file] if file in done.texts else read_text(file)

    folders = [path for path in files if os.path.isdir(path)]  # noqa: PTH112 - Path.is_dir raises for a name that is too long
    is_whole = bool(folders) or stdin is not None
    outcome = adoption.apply(
        done.checked.findings,
        Run(
            objects=done.checked.waiving,
            files=done.names if is_whole else (),
            is_covered=lambda check: sources.engine != "kubeconform" and not check.startswith(_NOT_COVERED),
            text_of=text_of,
        ),
    )
    return options.show(adoption, outcome, _summary(done), [_line(done), *done.skipped], text_of)


def _cache() -> Path:
    from generator.schemas.kubeconform import cache_folder

    return cache_folder(os.environ, Path.home())


def _summary(done: Validation) -> dict[str, object]:
    return {
        "files": done.checked.files,
        "objects": done.checked.objects,
        "kinds": dict(sorted(done.checked.kinds.items())),
        "engines": dict(done.by_engine),
        "announced": list(done.announced),
        "rendered": done.rendered,
        "skipped": list(done.skipped),
    }


def _line(done: Validation) -> str:
    verdicts = ", ".join(f"{engine}: {counted(number, 'finding')}" for engine, number in done.by_engine.items())
    files = f", files: {counted(done.of_files, 'finding')}" if done.of_files else ""
    since = "" if done.since is None else f", the change: {counted(done.since, 'finding')}"
    counts = f"{counted(done.checked.objects, 'object')} in {counted(done.checked.files, 'file')}"
    return f"{counts}: {verdicts}{files}{since}{_announced(done)}"


def _announced(done: Validation) -> str:
    if not done.announced:
        return ""
    verb, owner = ("is", "its") if len(done.announced) == 1 else ("are", "their")
    return f"\n{' and '.join(done.announced)} {verb} announced: not verified against {owner} code"
