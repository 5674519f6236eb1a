"""`mpigen drift`: the differences between the objects of a cluster and a release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generator.cli.findings import FindingOptions, findings_options, text_reader
from generator.cli.inputs import environment_option, kustomize_option, read_cluster, read_export_texts, target_option
from generator.cli.output import counted, printing, progress
from generator.errors import ExitCode

if TYPE_CHECKING:
    from generator.checks.existing.drift import Drift
    from generator.manifests import Manifest


@click.command(
    epilog="""
    \b
    Example:
      kubectl get $(mpigen drift output/prod --resources) -A -o yaml --show-managed-fields > live.yaml
      mpigen drift output/prod live.yaml
      mpigen drift output/prod < live.yaml
    """,
)
@click.argument("release", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, metavar="[EXPORT]...", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--resources",
    "lists_resources",
    is_flag=True,
    help="Print the resources of RELEASE for `kubectl get`, with the versions of the release, and exit.",
)
@target_option
@kustomize_option
@environment_option
@findings_options
def drift(
    release: Path,
    files: tuple[Path, ...],
    *,
    lists_resources: bool,
    targets: dict[str, str],
    renders: bool,
    options: FindingOptions,
) -> int:
    """Compare the objects of a cluster in EXPORT with RELEASE, and report each difference.

    RELEASE is a platform file, or YAML files in a folder such as output/prod. EXPORT is the output of
    `kubectl get … -A -o yaml` (or json): files, folders, or - for standard input, which is the default. mpigen
    contacts no cluster.

    mpigen ignores what servers add: status, defaults, and the metadata of the API server and of controllers. If
    EXPORT has managed fields, each finding names the field manager that owns the changed value.

    mpigen reports changed, absent and added fields, missing objects, and objects with the labels of the platform
    that RELEASE lacks. If EXPORT has no object of a kind, mpigen prints a note: EXPORT may leave out the kind.
    """
    from generator import pipeline
    from generator.adoption.adoption import Run

    adoption, read_text = options.load(), text_reader()
    with progress("comparing"):
        cluster = read_cluster([release], renders=renders)
        released, versions = cluster.manifests, {**cluster.targets, **targets}
        if lists_resources:
            with printing():
                click.echo(",".join(_resources(released, versions)))
            return ExitCode.OK
        texts = dict(read_export_texts(files, f"drift {release}"))
        done = pipeline.drift(texts, released, versions, read_text)

    def text_of(file: str) -> str:
        return texts[file].decode(errors="replace") if file in texts else read_text(file)

    outcome = adoption.apply(done.findings, Run(text_of=text_of))
    return options.show(adoption, outcome, _summary(done.drift), _lines(done.drift), text_of)


def _resources(release: Iterable[Manifest], targets: Mapping[str, str]) -> list[str]:
    """Return the resources of the objects, such as `localqueues.v1beta2.kueue.x-k8s.io`, sorted.

    For a kind without a schema, the result has the kind in lower case, by which kubectl finds the resource.
    """
    from generator.schemas.catalog import Catalog

    catalog = Catalog.bundled(targets)
    names = set()
    for api_version, kind in {(item.api_version, item.kind) for item in release}:
        entry = catalog.entries.get((api_version, kind))
        group, _, version = api_version.rpartition("/")
        plural = entry.plural if entry else kind.lower()
        names.add(f"{plural}.{version}.{group}" if group else plural)
    return sorted(names)


def _summary(drift: Drift) -> dict[str, Any]:
    return {
        "compared": drift.compared,
        "drifted": [item.manifest.resource for item in drift.drifted],
        "missing": [item.resource for item in drift.missing],
        "extra": [item.resource for item in drift.extra],
        "otherVersions": [item.resource for item, _ in drift.other_versions],
        "notExported": drift.not_exported,
        "managedFields": drift.has_managers,
    }


def _lines(drift: Drift) -> Iterator[str]:
    from generator.documents.messages import format_names

    parts = [f"{len(drift.drifted)} with drift", f"{len(drift.missing)} missing", f"{len(drift.extra)} extra"]
    yield f"{counted(drift.compared, 'object')} compared: {', '.join(parts)}"
    if drift.not_exported:
        number = sum(drift.not_exported.values())
        kinds = format_names(sorted(drift.not_exported))
        yield f"note: not compared: {counted(number, 'object')} of kinds that the export lacks: {kinds}"
    if not drift.has_managers:
        yield "note: the export has no managed fields, so added defaults can be findings: use --show-managed-fields"
