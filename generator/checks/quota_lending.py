"""quota/borrows-nothing, quota/lends-nobody, quota/no-share, quota/idle-weight: do limits and weights do what they say?

Judged where the files hold two queues of a tree of cohorts, or its root: of one alone nobody knows who lends to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.queued import Queued, by_flavor, place, told
from generator.documents.load import Path
from generator.manifests import Manifest
from generator.objects.amounts import FlavorResource, shown
from generator.simulate.kueue.quota_tree import Node

_Amounts = Mapping[FlavorResource, int]


def borrows_nothing(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A borrowingLimit, and nobody with anything to lend."""
    for manifest, node, _ in _sharing(gathered.view(Queued.read)):
        idle = {
            key: quota.borrowing
            for key, quota in node.quotas.items()
            if quota.borrowing and node.potential(key) <= node.has(key)
        }
        for flavor, limits in by_flavor(idle):
            yield manifest, _borrows_nothing(place(manifest, limits, "borrowingLimit"), flavor, limits, node)


def _borrows_nothing(path: Path, flavor: str, limits: _Amounts, node: Node) -> Breach:
    own = {key: node.has(key) for key in limits}
    return Breach(
        path,
        "quota/borrows-nothing",
        f"may borrow {told(limits)} of `{flavor}`, and nobody in `{node.root().name}` lends any",
        f"it never gets more than its own {told(own)}",
        "let another queue or a cohort lend, or write 0 so that nobody counts on more",
        Severity.WARNING,
    )


def lends_nobody(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Quota to lend, and nobody who may borrow it: of queues that nobody comes to, or that say what they lend."""
    queued = gathered.view(Queued.read)
    if queued is None:
        return
    borrowers = _borrowers(queued)
    for manifest, node, root in _sharing(queued):
        if node.queue is None:
            continue
        is_closed = bool(queued.tree.local_queues) and node.name not in queued.doors
        idle = {
            key: quota.nominal if quota.lending is None else min(quota.lending, quota.nominal)
            for key, quota in node.quotas.items()
            if (is_closed or quota.lending) and not _another(borrowers.get((root, key), ()), node.name)
        }
        for flavor, amounts in by_flavor({key: amount for key, amount in idle.items() if amount}):
            path = place(manifest, amounts, "nominalQuota" if is_closed else "lendingLimit")
            yield manifest, _lends_nobody(path, flavor, amounts, root, is_closed=is_closed)


def _lends_nobody(path: Path, flavor: str, amounts: _Amounts, root: str, *, is_closed: bool) -> Breach:
    """Without a LocalQueue it is quota that nobody can use; with one, its own jobs can."""
    return Breach(
        path,
        "quota/lends-nobody",
        f"lends {told(amounts)} of `{flavor}`, and no other queue in `{root}` may borrow any",
        "nobody comes to this queue either, so that nobody can use it"
        if is_closed
        else "what it does not use stays idle",
        "let others borrow it (`borrowingLimit`, in a platform file `borrow`), or give it to one of them as quota",
        Severity.INFO,
    )


def _another(names: Collection[str], name: str) -> bool:
    return len(names) > 1 or (bool(names) and name not in names)


def _borrowers(queued: Queued) -> Mapping[tuple[str, FlavorResource], Collection[str]]:
    """Root of a tree, flavor and resource → the queues that can have more than their own."""
    found: dict[tuple[str, FlavorResource], set[str]] = {}
    for name, most in queued.most.items():
        node = queued.nodes[name]
        root = node.root().name
        for key, amount in most.items():
            if amount > node.quota(key).nominal:
                found.setdefault((root, key), set()).add(name)
    return found


def no_share(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A weight of nothing, for who may borrow.

    kueue v0.19.2 pkg/cache/scheduler/fair_sharing.go CompareDRS: who borrows without a weight comes after everybody
    else when jobs are admitted, and before everybody else when they are preempted.
    """
    queued = gathered.view(Queued.read)
    if queued is None or queued.settings.is_fair is False:
        return
    for manifest, node, _ in _sharing(queued):
        if node.weight != 0:
            continue
        borrowed = [key for key in node.subtree if node.potential(key) > node.has(key)]
        if borrowed:
            path: Path = ("spec", "fairSharing", "weight")
            yield manifest, _no_share(path, borrowed[0], node)


def _no_share(path: Path, key: FlavorResource, node: Node) -> Breach:
    beyond = f"{shown(key.resource, node.potential(key) - node.has(key))} {key.resource} of `{key.flavor}`"
    return Breach(
        path,
        "quota/no-share",
        f"the weight is 0, and it may borrow {beyond}",
        "with fair sharing Kueue lends to it last, and stops its borrowing jobs before anybody else's",
        "give it a weight above 0, unless it is meant to live on what nobody else wants",
        Severity.WARNING,
        value=0,
    )


def idle_weight(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A weight, where Kueue is told not to share by weights; that which everybody has says nothing."""
    queued = gathered.view(Queued.read)
    if queued is None or queued.settings.is_fair is not False:
        return
    for kind, known in (("ClusterQueue", queued.tree.queues), ("Cohort", queued.tree.cohorts)):
        for name in sorted(name for name, each in known.items() if each.weight != 1):
            manifest = queued.of(kind)[name]
            value = manifest.body["spec"]["fairSharing"]["weight"]
            yield manifest, _idle_weight(value)


def _idle_weight(value: object) -> Breach:
    return Breach(
        ("spec", "fairSharing", "weight"),
        "quota/idle-weight",
        f"the weight is {value}, and fair sharing is off in Kueue's configuration",
        "Kueue does not look at it: whoever comes first borrows",
        "switch fair sharing on in Kueue's configuration, or remove the weight",
        Severity.WARNING,
        value=value,
    )


def _sharing(queued: Queued | None) -> Iterator[tuple[Manifest, Node, str]]:
    """The queues and cohorts that have somebody to share with, each with the root of its tree; cohorts once."""
    if queued is None:
        return
    cohorts = {each.name: each for node in queued.nodes.values() for each in node.path() if each.parent}
    known = (("ClusterQueue", queued.nodes), ("Cohort", cohorts))
    for kind, nodes in known:
        for name, node in sorted(nodes.items()):
            root = node.root()
            if node.parent and queued.is_told(root) and name in queued.of(kind):
                yield queued.of(kind)[name], node, root.name
