"""Kinds and their API resources, from the bundled schemas and from CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string
from generator.schemas.catalog import Catalog, Entry


@dataclass(frozen=True, slots=True)
class Resource:
    """An API resource.

    Attributes:
        group: the API group; empty for the core group.
        plural: such as `trainjobs`.
        is_namespaced: whether its objects lie in namespaces; None if unknown.
    """

    group: str
    plural: str
    is_namespaced: bool | None


def find_resource(catalog: Catalog, text: str) -> Resource:
    """Return the resource of `trainjobs`, `trainjob`, `TrainJob` or `trainjobs.trainer.kubeflow.org`.

    Where several groups have one of that name, the first one that the API server lists: the core group before others.
    What has no schema is taken as it is written.
    """
    name, _, group = text.lower().partition(".")
    found = [each for each in catalog.entries.values() if name in (each.plural, each.kind.lower())]
    if group:
        found = [each for each in found if _group(each) == group]
    if not found:
        return Resource(group, name, None)
    best = min(found, key=lambda each: (_group(each) != "", _group(each)))
    return Resource(_group(best), best.plural, best.scope == "Namespaced")


def _group(entry: Entry) -> str:
    return entry.api_version.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind with its API resource.

    Attributes:
        group: empty for the core group.
        version: such as `v1`.
        kind: such as `Pod`.
        resource: such as `pods`.
        is_namespaced: whether its objects are in namespaces.
    """

    group: str
    version: str
    kind: str
    resource: str
    is_namespaced: bool

    @property
    def api_version(self) -> str:
        """Group and version, such as `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version


def defined_kinds(definition: Manifest) -> Iterator[Kind]:
    """Yield the kind of a CustomResourceDefinition in each served version."""
    spec = mapping(definition.body, "spec")
    names = mapping(spec, "names")
    for version in mappings(spec.get("versions")):
        if version.get("served") is True:
            yield Kind(
                string(spec.get("group")),
                string(version.get("name")),
                string(names.get("kind")),
                string(names.get("plural")),
                spec.get("scope") == "Namespaced",
            )


def catalog_kinds(catalog: Catalog) -> Iterator[Kind]:
    """Yield the kinds of a catalog."""
    for entry in catalog.entries.values():
        group, _, version = entry.api_version.rpartition("/")
        yield Kind(group, version, entry.kind, entry.plural, entry.scope == "Namespaced")
