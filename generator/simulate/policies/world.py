"""World: what is in the cluster while requests come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from generator.errors import NotModelledError, Problem
from generator.manifests import Body, Manifest
from generator.schemas.catalog import Catalog
from generator.simulate.access import Access
from generator.simulate.access_read import access
from generator.simulate.policies.kinds import Kind, defined, known
from generator.simulate.policies.policy import GROUP, KINDS, Binding, Policy


class World:
    """What is in the cluster while requests come: the policies, and whatever they read."""

    def __init__(self, manifests: Iterable[Manifest], catalog: Catalog) -> None:
        """Read manifests of any kind; of two with the same name the later one counts.

        Args:
            manifests: what is there.
            catalog: knows the kinds that no CustomResourceDefinition among the manifests defines.
        """
        self.objects = {manifest.identity: manifest for manifest in manifests}
        self.catalog = catalog

    @cached_property
    def minor(self) -> int:
        """The version of Kubernetes whose functions new policies may use: the one before (environment/base.go)."""
        return int(self.catalog.targets["kubernetes"].partition(".")[2]) - 1

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        """All policies, by name."""
        return tuple(Policy(found, self.minor, self.access) for found in self._all(GROUP, KINDS[0]))

    @cached_property
    def access(self) -> Access:
        """Who may do what."""
        return access(self.objects.values())

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """All bindings, by name."""
        return tuple(Binding(found) for found in self._all(GROUP, KINDS[1]))

    def _all(self, group: str, kind: str) -> list[Manifest]:
        found = (each for each in self.objects.values() if (each.group, each.kind) == (group, kind))
        return sorted(found, key=lambda each: (each.namespace, each.name))

    def namespace(self, name: str) -> Body | None:
        """The Namespace of a name; None if there is none."""
        found = self.objects.get(("", "Namespace", "", name))
        return found.body if found else None

    def of_kind(self, kind: Kind) -> Iterator[Body]:
        """All objects of a kind, in any version."""
        yield from (found.body for found in self._all(kind.group, kind.kind))

    def kind(self, api_version: str, kind: str) -> Kind:
        """What a kind is.

        Raises:
            NotModelledError: it is in no release that mpigen knows, and no CustomResourceDefinition here defines it.
        """
        for found in self._kinds:
            if (found.kind, found.api_version) == (kind, api_version):
                return found
        fix = "add its CustomResourceDefinition to the files"
        raise NotModelledError((Problem(f"nobody knows the kind {kind} of {api_version}", fix),))

    def versions(self, of: Kind) -> list[str]:
        """All versions in which a resource is served."""
        return [found.version for found in self._kinds if (found.group, found.resource) == (of.group, of.resource)]

    @cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        definitions = self._all("apiextensions.k8s.io", "CustomResourceDefinition")
        return (*(kind for found in definitions for kind in defined(found)), *known(self.catalog))
