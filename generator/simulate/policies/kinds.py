"""Kinds and the resources that they are in the API: those of a catalogue, and those that definitions bring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from generator.simulate.fields import mapping, mappings, text


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind, and the resource that it is in the API.

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
        """Such as `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version


def defined(definition: Manifest) -> Iterator[Kind]:
    """The kind that a CustomResourceDefinition defines, in each version that is served."""
    spec = mapping(definition.body, "spec")
    names = mapping(spec, "names")
    for version in mappings(spec.get("versions")):
        if version.get("served") is True:
            yield Kind(
                text(spec.get("group")),
                text(version.get("name")),
                text(names.get("kind")),
                text(names.get("plural")),
                spec.get("scope") == "Namespaced",
            )


def known(catalog: Catalog) -> Iterator[Kind]:
    """All kinds of a catalogue."""
    for entry in catalog.entries.values():
        group, _, version = entry.api_version.rpartition("/")
        yield Kind(group, version, entry.kind, entry.plural, entry.scope == "Namespaced")
