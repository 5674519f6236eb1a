"""change/*: what an update from one tree to the next breaks, which neither tree shows alone.

Argo CD applies a release over the one before it. What the API server refuses then stops the sync half-way, and what it
takes may stop or strand jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from generator.checks import registry
from generator.checks.change import immutable, nodes, queues, runtimes
from generator.checks.finding import Breach
from generator.checks.objects import Change, Objects
from generator.checks.quota.queues import KUEUE, Queues
from generator.checks.registry import Stage
from generator.facts import defects
from generator.manifests import Manifest

_OF_QUEUES = ("ClusterQueue", "Cohort", "ResourceFlavor")

Targets = Mapping[str, str]
"""Component → the minor version that is judged for."""
OfObjects = Callable[[Manifest, Manifest, Targets], Iterator[Breach]]
"""A rule over an object as it was and as it is to be; what it says is about the latter."""
OfTrees = Callable[[Sequence[Manifest], Sequence[Manifest], Targets], Iterator[tuple[Manifest, Breach]]]
"""A rule over two whole trees, which says of which object it speaks."""
OfQueues = Callable[[Queues, Queues], Iterator[tuple[Manifest, Breach]]]
"""A rule over the queues of both, which are computed once for all of them."""

OF_OBJECTS: Mapping[str, OfObjects] = {
    "change/immutable": immutable.immutable,
    "change/runtime-in-use": runtimes.in_use,
    "change/queue-stopped": queues.stopped,
    "change/flavor-nodes": nodes.nodes,
    "change/flavor-not-retried": nodes.not_retried,
}
OF_TREES: Mapping[str, OfTrees] = {
    "change/runtime-removed": runtimes.runtimes,
    "change/tenant-removed": runtimes.namespaces,
    "change/priority-removed": runtimes.priorities,
    "change/queue-removed": queues.removed,
    "change/cohort-removed": queues.cohort_removed,
    "change/reboots": nodes.reboots,
}
OF_QUEUES: Mapping[str, OfQueues] = {
    "change/less-quota": queues.less_quota,
    "change/less-to-borrow": queues.less_to_borrow,
    "change/less-to-reclaim": queues.less_to_reclaim,
    "change/flavor-topology": nodes.topology,
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
    change = Change(old, new, targets)
    for check in registry.checks_of(Stage.CHANGE, targets):
        for subject in check.needs.between(change):
            yield from check.run(subject)
    if both := _queues(old, new, targets):
        for of_queues in OF_QUEUES.values():
            yield from of_queues(*both)


def _queues(old: Sequence[Manifest], new: Sequence[Manifest], targets: Targets) -> tuple[Queues, Queues] | None:
    """The queues of both; None where nothing of them differs, or where they cannot be computed."""
    was, now = (
        {each.identity: each.body for each in tree if each.group == KUEUE and each.kind in _OF_QUEUES}
        for tree in (old, new)
    )
    if was == now:
        return None
    before, after = (Queues.read(Objects(tuple(tree), targets)) for tree in (old, new))
    return (before, after) if before and after else None
