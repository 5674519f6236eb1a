"""change/*: what an update from one tree to the next breaks, which neither tree shows alone.

Argo CD applies a release over the one before it. What the API server refuses then stops the sync half-way, and what it
takes may stop or strand jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from generator.checks import (
    change_flavors,
    change_immutable,
    change_queues,
    change_quota,
    change_reboots,
    change_removed,
    change_runtime,
)
from generator.checks.finding import Breach
from generator.checks.gathered import Gathered
from generator.checks.queued import KUEUE, Queued
from generator.facts import defects
from generator.manifests import Manifest

_OF_QUEUES = ("ClusterQueue", "Cohort", "ResourceFlavor")

Targets = Mapping[str, str]
"""Component → the minor version that is judged for."""
OfObjects = Callable[[Manifest, Manifest, Targets], Iterator[Breach]]
"""A rule over an object as it was and as it is to be; what it says is about the latter."""
OfTrees = Callable[[Sequence[Manifest], Sequence[Manifest], Targets], Iterator[tuple[Manifest, Breach]]]
"""A rule over two whole trees, which says of which object it speaks."""
OfQueues = Callable[[Queued, Queued], Iterator[tuple[Manifest, Breach]]]
"""A rule over the queues of both, which are computed once for all of them."""

OF_OBJECTS: Mapping[str, OfObjects] = {
    "change/immutable": change_immutable.immutable,
    "change/runtime-in-use": change_runtime.in_use,
    "change/queue-stopped": change_queues.stopped,
    "change/flavor-nodes": change_flavors.nodes,
    "change/flavor-not-retried": change_flavors.not_retried,
}
OF_TREES: Mapping[str, OfTrees] = {
    "change/runtime-removed": change_removed.runtimes,
    "change/tenant-removed": change_removed.namespaces,
    "change/priority-removed": change_removed.priorities,
    "change/queue-removed": change_queues.removed,
    "change/cohort-removed": change_queues.cohort_removed,
    "change/reboots": change_reboots.reboots,
}
OF_QUEUES: Mapping[str, OfQueues] = {
    "change/less-quota": change_quota.less_quota,
    "change/less-to-borrow": change_quota.less_to_borrow,
    "change/less-to-reclaim": change_quota.less_to_reclaim,
    "change/flavor-topology": change_flavors.topology,
}
CHECKS = (*OF_OBJECTS, *OF_TREES, *OF_QUEUES)
"""The ids of this family."""


def breaches(old: Sequence[Manifest], new: Sequence[Manifest], targets: Targets) -> Iterator[tuple[Manifest, Breach]]:
    """What breaks when `new` is applied where `old` is.

    Args:
        old: all objects of the tree that is there.
        new: all objects of the one that replaces it.
        targets: component → the minor version that is judged for.

    Yields:
        An object of `new`, or one of `old` that `new` no longer has, and what is wrong.
    """
    before = {manifest.identity: manifest for manifest in old if manifest.name}
    rules = [rule for check, rule in OF_OBJECTS.items() if check not in defects.silent(targets)]
    for manifest in new:
        was = before.get(manifest.identity)
        if was is not None and was.body != manifest.body:
            for rule in rules:
                yield from ((manifest, breach) for breach in rule(was, manifest, targets))
    for of_trees in OF_TREES.values():
        yield from of_trees(old, new, targets)
    if both := _queues(old, new, targets):
        for of_queues in OF_QUEUES.values():
            yield from of_queues(*both)


def _queues(old: Sequence[Manifest], new: Sequence[Manifest], targets: Targets) -> tuple[Queued, Queued] | None:
    """The queues of both; None where nothing of them differs, or where they cannot be computed."""
    was, now = (
        {each.identity: each.body for each in tree if each.group == KUEUE and each.kind in _OF_QUEUES}
        for tree in (old, new)
    )
    if was == now:
        return None
    before, after = (Queued.read(Gathered(tuple(tree), targets)) for tree in (old, new))
    return (before, after) if before and after else None
