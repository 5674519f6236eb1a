"""Gathered: the objects that are judged together, indexed for the rules that need several of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from generator.checks.fabric.read import Fabrics
from generator.checks.fabric.workload import Workload, workloads
from generator.checks.queued import Queued, queued
from generator.manifests import Manifest


@dataclass(frozen=True)
class Gathered:
    """The manifests of one release, or those of no release, whatever stands in them.

    Attributes:
        manifests: only those that `related.is_kept` keeps, by file and document.
        targets: component → the minor version that is judged for.
        today: the day on which is judged; None where it does not matter.
    """

    manifests: tuple[Manifest, ...]
    targets: Mapping[str, str]
    today: dt.date | None = None

    def of(self, group: str, *kinds: str) -> Iterable[Manifest]:
        """All of some kinds of one API group; the same object more than once if several files hold it."""
        return [manifest for kind in kinds for manifest in self._by_kind.get((group, kind), ())]

    def one(self, group: str, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """The object that a reference means.

        None if it is in no file, and if files disagree on what it is: they are then for several clusters, and nobody
        knows for which the reference is.
        """
        found = self._by_identity.get((group, kind, namespace, name), ())
        return found[0] if found and all(each.body == found[0].body for each in found) else None

    @cached_property
    def queued(self) -> Queued | None:
        """The queues among them; None where they cannot be computed, as `queued` says."""
        return queued(self.manifests, self.targets.get("kueue", ""))

    @cached_property
    def fabrics(self) -> Fabrics:
        """The objects among them that make fabrics."""
        return Fabrics(self.manifests)

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """The jobs among them, and the runtimes of jobs, as rules read what ranks are told and have."""
        return tuple(workloads(self))

    def names(self, group: str, kind: str) -> Mapping[str, AbstractSet[str]]:
        """Namespace → the names that are there of a kind."""
        if (group, kind) not in self._names:
            found = self._names.setdefault((group, kind), {})
            for manifest in (each for each in self.of(group, kind) if each.name):
                found.setdefault(manifest.namespace, set()).add(manifest.name)
        return self._names[group, kind]

    @cached_property
    def _names(self) -> dict[tuple[str, str], dict[str, set[str]]]:
        return {}

    @cached_property
    def _by_kind(self) -> Mapping[tuple[str, str], Sequence[Manifest]]:
        found: dict[tuple[str, str], list[Manifest]] = {}
        for manifest in self.manifests:
            found.setdefault((manifest.group, manifest.kind), []).append(manifest)
        return found

    @cached_property
    def _by_identity(self) -> Mapping[tuple[str, str, str, str], Sequence[Manifest]]:
        found: dict[tuple[str, str, str, str], list[Manifest]] = {}
        for manifest in self.manifests:
            found.setdefault(manifest.identity, []).append(manifest)
        return found
