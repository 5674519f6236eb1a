"""object/*: can each object be told from the others, and does it have the place that its kind wants?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from generator.checks.finding import Breach
from generator.documents.load import Path
from generator.documents.syntax import shown
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog

_WHY = {
    "unnamed": "the API server refuses the object",
    "duplicate": "whichever is applied last wins, and Argo CD never finds both in sync",
    "no-namespace": "it would land wherever the one who applies it happens to be",
    "not-namespaced": "the API server refuses it or drops the namespace, and Argo CD never finds both in sync",
}
CHECKS = tuple(f"object/{rule}" for rule in _WHY)
"""The ids of this family."""


def unnamed(manifest: Manifest) -> Iterator[Breach]:
    """An object that is stored needs a name, or a beginning of one. Reviews are answered, not stored."""
    metadata = manifest.body.get("metadata")
    generated = isinstance(metadata, dict) and metadata.get("generateName")
    if not manifest.name and not generated and not manifest.kind.endswith("Review"):
        yield _breach("unnamed", "`metadata.name` is missing", "give it a name")


def misplaced(manifests: Sequence[Manifest], catalog: Catalog) -> Iterator[tuple[Manifest, Breach]]:
    """What only the whole of a release shows: objects that are there twice, or not in the namespace that they want."""
    first: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in manifests:
        scope = catalog.scope(manifest.api_version, manifest.kind)
        group, kind, namespace, name = manifest.identity
        other = first.setdefault((group, kind, "" if scope == "Cluster" else namespace, name), manifest)
        if other is not manifest and manifest.name:
            yield manifest, _breach("duplicate", f"it is also in {other.file}", "give one of the two another name")
        if scope == "Namespaced" and not namespace:
            yield manifest, _breach("no-namespace", "`metadata.namespace` is missing", "name the tenant's namespace")
        if scope == "Cluster" and namespace:
            what = f"a {kind} belongs to no namespace, this one says {shown(namespace)}"
            yield manifest, _breach("not-namespaced", what, "remove `metadata.namespace`", "namespace", namespace)


def _breach(rule: str, message: str, fix: str, field: str = "", value: object = None) -> Breach:
    path: Path = ("metadata", field) if field else ("metadata",)
    return Breach(path, f"object/{rule}", message, _WHY[rule], fix, value=value)
