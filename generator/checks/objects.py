"""The input of checks that read several objects: the objects of a release, or an update of the output tree."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

from generator.checks.tree import Tree
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.objects.platform_name import rename_objects
from generator.objects.training import DEFAULT_QUEUE, FIELD, GROUP, KUEUE, QUEUE, OnRuntime, reference_of

V = TypeVar("V")


@dataclass(frozen=True)
class Objects:
    """The manifests of one release, or the manifests that belong to no release.

    Attributes:
        manifests: the manifests of the kinds that mpigen's checks read together, sorted by file and document. A check
            of your own gets manifests of all kinds.
        targets: component → minor version, such as `{"kueue": "0.19"}`. A missing component has its newest version.
        today: the day of the check; None if checks must not depend on it.
        is_complete: True if these are all manifests of a release. A dangling reference is then an error.
        others: the manifests of further kinds, such as RoleBindings. Only the checks of references and of access read
            them.
        files: the files of a complete release.
        tree: the files around the manifests; None if they are unknown, as for the objects of a cluster.
    """

    manifests: tuple[Manifest, ...]
    targets: Mapping[str, str]
    today: dt.date | None = None
    is_complete: bool = False
    others: tuple[Manifest, ...] = ()
    files: Collection[str] = ()
    tree: Tree | None = None

    def of(self, group: str, *kinds: str) -> Iterable[Manifest]:
        """Return the manifests of some kinds, kind by kind. Several files can hold the same object.

        Args:
            group: the API group; empty for the core group.
            kinds: the kinds, such as `ConfigMap`.
        """
        return [manifest for kind in kinds for manifest in self._by_kind.get((group, kind), ())]

    def one(self, group: str, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """Return the object that a reference names.

        Return None if the object is in no file, or if files hold different objects of that name: such files are for
        several clusters, so the reference is ambiguous.

        Args:
            group: the API group; empty for the core group.
            kind: the kind.
            name: the name of the object.
            namespace: the namespace of the object; empty for a cluster-scoped object.
        """
        same = self._by_identity.get((group, kind, namespace, name), ())
        return same[0] if same and all(other.body == same[0].body for other in same) else None

    def view(self, read: Callable[[Objects], V]) -> V:
        """Return the result of a function that reads the objects. The function runs once for the objects.

        Args:
            read: the function, such as `Queues.read`.
        """
        if read not in self._views:
            self._views[read] = read(self)
        return cast("V", self._views[read])

    def names(self, group: str, kind: str) -> Mapping[str, AbstractSet[str]]:
        """Return namespace → the names of the objects of a kind. Cluster-scoped objects have the namespace `""`.

        Args:
            group: the API group; empty for the core group.
            kind: the kind.
        """
        if (group, kind) not in self._names:
            names = self._names.setdefault((group, kind), {})
            for manifest in self.of(group, kind):
                if manifest.name:
                    names.setdefault(manifest.namespace, set()).add(manifest.name)
        return self._names[group, kind]

    @cached_property
    def _views(self) -> dict[Callable[[Objects], object], object]:
        return {}

    @cached_property
    def _names(self) -> dict[tuple[str, str], dict[str, set[str]]]:
        return {}

    @cached_property
    def _by_kind(self) -> Mapping[tuple[str, str], Sequence[Manifest]]:
        return _by_kind(self.manifests)

    @cached_property
    def _by_identity(self) -> Mapping[tuple[str, str, str, str], Sequence[Manifest]]:
        by_identity: dict[tuple[str, str, str, str], list[Manifest]] = {}
        for manifest in self.manifests:
            by_identity.setdefault(manifest.identity, []).append(manifest)
        return by_identity


def _by_kind(manifests: Iterable[Manifest]) -> Mapping[tuple[str, str], Sequence[Manifest]]:
    """Return (group, kind) → the manifests, in their order."""
    by_kind: dict[tuple[str, str], list[Manifest]] = {}
    for manifest in manifests:
        by_kind.setdefault((manifest.group, manifest.kind), []).append(manifest)
    return by_kind


def on_runtimes(objects: Objects) -> Iterator[OnRuntime]:
    """Yield the TrainJobs with `resourcesPerNode` whose runtime is in the files."""
    for job in objects.of(GROUP, "TrainJob"):
        if isinstance(mapping(job.body, *map(str, FIELD[:-1])).get("resourcesPerNode"), dict):
            runtime = runtime_of(job, objects)
            if runtime:
                yield OnRuntime(job, runtime)


def runtime_of(job: Manifest, objects: Objects) -> Manifest | None:
    """Return the runtime of a TrainJob; None if no file has it, or files have different runtimes of its name."""
    reference = reference_of(job)
    if reference is None:
        return None
    return objects.one(GROUP, *reference, job.namespace if reference.kind == "TrainingRuntime" else "")


def is_queued(job: Manifest, objects: Objects) -> bool:
    """Return True if Kueue queues a TrainJob: it names a queue, or its namespace has a LocalQueue `default`."""
    is_named = QUEUE in mapping(job.body, "metadata", "labels")
    return is_named or objects.one(KUEUE, "LocalQueue", DEFAULT_QUEUE, job.namespace) is not None


@dataclass(frozen=True)
class Change:
    """An update that replaces the manifests of an old output tree by the manifests of a new one.

    Attributes:
        old: all manifests of the old tree.
        new: all manifests of the new tree.
        targets: component → minor version, such as `{"kueue": "0.19"}`. A missing component has its newest version.
        today: the day of the check; None if checks must not depend on it.
    """

    old: Sequence[Manifest]
    new: Sequence[Manifest]
    targets: Mapping[str, str]
    today: dt.date | None = None

    @classmethod
    def of_trees(
        cls,
        old: Sequence[Manifest],
        new: Sequence[Manifest],
        targets: Mapping[str, str],
        today: dt.date | None = None,
    ) -> Change:
        """Return the update of a release. If it renames the platform, the old objects get their new names.

        Args:
            old: all manifests of the old tree.
            new: all manifests of the new tree.
            targets: component → minor version.
            today: the day of the check; None if checks must not depend on it.
        """
        return cls(rename_objects(old, new), new, targets, today)

    def between(self) -> Iterator[Change]:
        """Yield the change itself, for checks that read all manifests of both trees."""
        yield self

    def of_old(self, group: str, *kinds: str) -> list[Manifest]:
        """Return the old objects of some kinds, kind by kind.

        Args:
            group: the API group; empty for the core group.
            kinds: the kinds, such as `ConfigMap`.
        """
        return [manifest for kind in kinds for manifest in self._old_by_kind.get((group, kind), ())]

    def of_new(self, group: str, *kinds: str) -> list[Manifest]:
        """Return the new objects of some kinds, kind by kind.

        Args:
            group: the API group; empty for the core group.
            kinds: the kinds, such as `ConfigMap`.
        """
        return [manifest for kind in kinds for manifest in self._new_by_kind.get((group, kind), ())]

    def added(self, group: str, *kinds: str) -> Iterator[Manifest]:
        """Yield the new objects of some kinds that the old tree lacks.

        Args:
            group: the API group; empty for the core group.
            kinds: the kinds, such as `ConfigMap`.
        """
        for manifest in self.of_new(group, *kinds):
            if manifest.name and manifest.identity not in self._replaced:
                yield manifest

    @cached_property
    def all_added(self) -> Sequence[Manifest]:
        """The objects of all kinds that only the new tree has."""
        return [manifest for manifest in self.new if manifest.name and manifest.identity not in self._replaced]

    @cached_property
    def all_removed(self) -> Sequence[Manifest]:
        """The objects of all kinds that only the old tree has."""
        return [manifest for manifest in self.old if manifest.name and manifest.identity not in self._kept]

    def removed(self, group: str, *kinds: str) -> Iterator[Manifest]:
        """Yield the old objects of some kinds that the new tree lacks.

        An object that only changes the version in its apiVersion, such as `v1beta1` to `v1`, is not among them.

        Args:
            group: the API group; empty for the core group.
            kinds: the kinds, such as `ConfigMap`.
        """
        yield from (item for item in self.all_removed if item.group == group and item.kind in kinds)

    @cached_property
    def _kept(self) -> AbstractSet[tuple[str, str, str, str]]:
        return {manifest.identity for manifest in self.new}

    @cached_property
    def _replaced(self) -> AbstractSet[tuple[str, str, str, str]]:
        return {manifest.identity for manifest in self.old}

    @cached_property
    def _old_by_kind(self) -> Mapping[tuple[str, str], Sequence[Manifest]]:
        return _by_kind(self.old)

    @cached_property
    def _new_by_kind(self) -> Mapping[tuple[str, str], Sequence[Manifest]]:
        return _by_kind(self.new)

    def view(self, read: Callable[[Change], V]) -> V:
        """Return the result of a function that reads the change. The function runs once for the change.

        Args:
            read: the function, such as `ChangedObject.between`.
        """
        if read not in self._views:
            self._views[read] = read(self)
        return cast("V", self._views[read])

    @cached_property
    def _views(self) -> dict[Callable[[Change], object], object]:
        return {}


@dataclass(frozen=True, slots=True)
class ChangedObject:
    """An object that an update changes.

    Attributes:
        old: the object in the old tree.
        new: the object in the new tree.
        targets: component → minor version, such as `{"kueue": "0.19"}`.
    """

    old: Manifest
    new: Manifest
    targets: Mapping[str, str]

    @property
    def manifest(self) -> Manifest:
        """The object that breaches are about."""
        return self.new

    @classmethod
    def between(cls, change: Change) -> Sequence[ChangedObject]:
        """Return the objects that an update changes."""
        return change.view(cls._read)

    @classmethod
    def _read(cls, change: Change) -> Sequence[ChangedObject]:
        old = {manifest.identity: manifest for manifest in change.old if manifest.name}
        pairs = ((old.get(manifest.identity), manifest) for manifest in change.new)
        return [cls(was, now, change.targets) for was, now in pairs if was is not None and was.body != now.body]
