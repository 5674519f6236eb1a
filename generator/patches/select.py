"""The selection of objects that a patch changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from generator.errors import suggest
from generator.manifests import Manifest
from generator.objects.pods import RUNTIMES

_Values = Callable[[Iterable[Manifest]], Collection[str]]
"""A function that returns the values of an attribute that objects have."""


@dataclass(frozen=True)
class Selection:
    """A selection of generated objects: an object must match every attribute that is set.

    Attributes:
        kind: the kind, such as `Namespace`.
        name: the name, in which `*` stands for any characters.
        tenant: the name of a tenant, for the objects in its folder and in its namespaces.
        runtime: the name of a runtime.
        labels: labels that the object has, with their values.
    """

    kind: str = ""
    name: str = ""
    tenant: str = ""
    runtime: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def matches(self, manifest: Manifest, namespaces: Mapping[str, str]) -> bool:
        """Return True if an object matches.

        Args:
            manifest: the object.
            namespaces: namespace → its tenant.
        """
        return (
            (not self.kind or manifest.kind == self.kind)
            and (not self.name or self._name.fullmatch(manifest.name) is not None)
            and (not self.runtime or runtime_of(manifest) == self.runtime)
            and (not self.tenant or tenant_of(manifest, namespaces) == self.tenant)
            and all(manifest.labels.get(key) == value for key, value in self.labels.items())
        )

    @cached_property
    def _name(self) -> re.Pattern[str]:
        return re.compile(".*".join(map(re.escape, self.name.split("*"))))

    def explain_no_match(self, tree: Collection[Manifest], namespaces: Mapping[str, str]) -> str:
        """Return the fix for a selection without a match: the first attribute that no object has, with a suggestion."""
        left = list(tree)
        for attribute, values in self._values(namespaces):
            chosen = Selection(**{attribute: getattr(self, attribute)})
            matching = [manifest for manifest in left if chosen.matches(manifest, namespaces)]
            if not matching:
                return f"`{attribute}`: {suggest(str(getattr(self, attribute)), values(left))}"
            left = matching
        return "correct `labels`: no other selected object has these labels and values"

    def _values(self, namespaces: Mapping[str, str]) -> Iterator[tuple[str, _Values]]:
        """Yield the attributes that are set, each with the function that returns the values of objects."""
        if self.kind:
            yield "kind", lambda tree: {manifest.kind for manifest in tree}
        if self.tenant:
            yield "tenant", lambda tree: {tenant_of(manifest, namespaces) for manifest in tree}
        if self.runtime:
            yield "runtime", lambda tree: {runtime_of(manifest) for manifest in tree}
        if self.name:
            yield "name", lambda tree: {manifest.name for manifest in tree}

    def __str__(self) -> str:
        values = [(name, getattr(self, name)) for name in ("kind", "name", "tenant", "runtime")]
        parts = [f"{name} `{value}`" for name, value in values if value]
        parts += [f"label `{key}: {value}`" for key, value in self.labels.items()]
        return ", ".join(parts)


def select(
    *, kind: str = "", name: str = "", tenant: str = "", runtime: str = "", labels: Mapping[str, str] | None = None
) -> Selection:
    """Return a selection of generated objects, for `App.patch`. An object must match every argument that is given.

    Args:
        kind: the kind, such as `Namespace`.
        name: the name, in which `*` stands for any characters.
        tenant: the name of a tenant, for the objects in its folder and in its namespaces.
        runtime: the name of a runtime.
        labels: labels that the object has, with their values.

    Raises:
        ValueError: no argument is given.
    """
    selection = Selection(kind, name, tenant, runtime, dict(labels or {}))
    if not str(selection):
        raise ValueError("select() without arguments selects nothing: give it at least one, such as kind='Namespace'")
    return selection


def tenant_of(manifest: Manifest, namespaces: Mapping[str, str]) -> str:
    """Return the tenant of an object: of its folder, or else of its namespace; empty if it has none."""
    folder, _, rest = manifest.file.partition("/")
    return rest.partition("/")[0] if folder == "tenants" else namespaces.get(manifest.namespace, "")


def runtime_of(manifest: Manifest) -> str:
    """Return the name of a runtime; empty for an object that is not a runtime."""
    return manifest.name if manifest.kind in RUNTIMES else ""
