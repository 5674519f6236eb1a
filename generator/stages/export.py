"""The export of a cluster before an upgrade: its objects, their lines, and the kinds that it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from generator import manifests

if TYPE_CHECKING:
    from generator.upgrade.changes import Place
    from generator.upgrade.rows import Row

_EXPORT = (
    "kubectl get trainjobs,jobsets,workloads,clustertrainingruntimes,trainingruntimes,workloadpriorityclasses,crd,cm "
    "-A -o yaml --show-managed-fields"
)
"""The command that exports what `upgrade` reads of a cluster."""


def read_objects(texts: Mapping[str, bytes] | None) -> Sequence[manifests.Manifest]:
    """Return the objects of an export; empty without an export.

    Args:
        texts: file → its text with exported objects; None without an export.

    Raises:
        DocumentError: a file is not YAML or JSON, or has a document that is not an object.
    """
    from generator.checks.existing.audit import read_export

    return read_export(texts, _EXPORT)[0] if texts else []


def place_rows(rows: Sequence[Row], texts: Mapping[str, bytes], place: Place) -> Place:
    """Return a function that returns the file and the line of a part of an object that a row hits.

    Args:
        rows: the rows of the table of changes.
        texts: file → its text with exported objects.
        place: the same function for objects that are not in these texts.
    """
    lines = _find_lines(texts, [(item.manifest, item.path) for row in rows for item in row.located])

    def place_exported(manifest: manifests.Manifest, path: tuple[str | int, ...]) -> tuple[str, int]:
        line = lines.get((manifest.file, manifest.index, (*manifest.inside, *path)))
        return place(manifest, path) if line is None else (manifest.file, line)

    return place_exported


def describe_missing(
    export: Sequence[manifests.Manifest], before: Mapping[str, str], after: Mapping[str, str]
) -> list[str]:
    """Return sentences for the kinds that changes of an upgrade read, and that the export lacks.

    Args:
        export: the objects of the cluster; empty without an export.
        before: the present versions.
        after: the versions after the upgrade.
    """
    from generator.upgrade.rows import find_missing

    if export:
        return [*find_missing(export, before, after)]
    return [f"without `--jobs`, no entry is about objects and jobs of the cluster; export them: `{_EXPORT}`"]


def _find_lines(
    texts: Mapping[str, bytes], parts: Sequence[tuple[manifests.Manifest, tuple[str | int, ...]]]
) -> dict[tuple[str, int, tuple[str | int, ...]], int]:
    """Return (file, document, path in the document) → line, for parts of objects in these texts, each read once."""
    from generator.documents.locate import locate_everywhere

    requests_of: dict[str, list[tuple[int, tuple[str | int, ...]]]] = {}
    for manifest, path in parts:
        if manifest.file in texts:
            requests_of.setdefault(manifest.file, []).append((manifest.index, (*manifest.inside, *path)))
    return {
        (file, *request): place.node[0]
        for file, requests in requests_of.items()
        for request, place in locate_everywhere(texts[file], requests).items()
    }
