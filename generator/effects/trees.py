"""The queue trees of an update: its ClusterQueues, Cohorts and flavors, and the objects that limit the size of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from generator.checks.objects import Change, ChangedObject, Objects
from generator.checks.quota.queues import KUEUE, RUNTIMES, TRAINER, Queues
from generator.manifests import Manifest
from generator.objects.fields import mapping, string
from generator.upstream.kueue.configuration import CONFIGURATION, OPERATOR, is_configuration

_KUEUE_KINDS = ("AdmissionCheck", "ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Topology")
_CORE_KINDS = ("LimitRange", "Namespace", "Node")
_CONFIGURATIONS = (("config.kueue.x-k8s.io", CONFIGURATION), ("kueue.openshift.io", OPERATOR))


@dataclass(frozen=True)
class QueueTrees:
    """The queues before and after an update.

    Attributes:
        before: the queues before the update; None if an amount is not a quantity, or if two objects of the same kind
            and name differ.
        after: the queues after the update; None for the same reasons.
    """

    before: Queues | None
    after: Queues | None

    @classmethod
    def of(cls, change: Change) -> QueueTrees:
        """Return the queues before and after an update."""
        return change.view(cls._read)

    @classmethod
    def _read(cls, change: Change) -> QueueTrees:
        before, after = (
            Queues.read(Objects(tuple(_select(change, is_old=is_old)), change.targets)) for is_old in (True, False)
        )
        return cls(before, after)

    @cached_property
    def both(self) -> tuple[Queues, Queues] | None:
        """The queues before and after; None if `before` or `after` is None."""
        return (self.before, self.after) if self.before and self.after else None


def _select(change: Change, *, is_old: bool) -> Iterator[Manifest]:
    """Yield the objects that decide quota and the size of jobs."""
    of = change.of_old if is_old else change.of_new
    yield from of(KUEUE, *_KUEUE_KINDS)
    yield from of(TRAINER, *RUNTIMES)
    yield from of("", *_CORE_KINDS)
    yield from of("node.k8s.io", "RuntimeClass")
    yield from of("resource.k8s.io", "ResourceClaimTemplate")
    yield from filter(is_configuration, of("", "ConfigMap"))
    for group, kind in _CONFIGURATIONS:
        yield from of(group, kind)


def find_lenders(change: Change) -> list[Manifest]:
    """Return the ClusterQueues without a LocalQueue that an update adds, changes or removes.

    mpigen writes such a ClusterQueue for the nodes that no team owns, so its quota follows from the quotas of teams.
    """
    used = {
        string(mapping(item.body, "spec").get("clusterQueue"))
        for item in (*change.of_old(KUEUE, "LocalQueue"), *change.of_new(KUEUE, "LocalQueue"))
    }
    touched = [*change.added(KUEUE, "ClusterQueue"), *change.removed(KUEUE, "ClusterQueue")]
    touched += [
        item.new for item in ChangedObject.between(change) if (item.new.group, item.new.kind) == (KUEUE, "ClusterQueue")
    ]
    return [item for item in touched if item.name not in used]
