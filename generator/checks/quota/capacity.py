"""quota/*: quota that exceeds the nodes, expired reservations, and limits and weights without effect.

Kueue does not count nodes: it admits jobs by quota, and pods for which no node has room stay pending.
The rules on lending need two queues of a cohort tree or its root: with one queue alone, other lenders may exist.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet

from generator.checks.finding import Breach, Severity
from generator.checks.objects import Objects
from generator.checks.quota.queues import KUEUE, Queues, by_flavor, place, told
from generator.checks.registry import ERROR, INFO, WARNING, check
from generator.documents.json_text import read_json
from generator.documents.load import Path
from generator.facts.names import NODES, RESERVATIONS
from generator.manifests import Manifest
from generator.objects.amounts import FlavorResource, Requests, format_amount
from generator.objects.fields import mapping
from generator.objects.queue import Quota
from generator.simulate.kueue.quota_tree import Node

_Holders = Mapping[str, int]
_NAMED = 3  # holders in a message
_KEEP = "let queues whose jobs run on other clusters lend nothing here, "


@check("quota/over-capacity", severity=ERROR, needs=Objects)
def over_capacity(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report more quota of a flavor than its nodes offer.

    All queues and cohorts together have more quota of a flavor than its nodes offer. Kueue knows no nodes: it
    admits, and the pods stay pending. How many nodes there are the ResourceFlavor says with the annotations that
    mpigen writes, `mpigen.dev/nodes: "16"` and `mpigen.dev/allocatable: '{"cpu": "192", "nvidia.com/gpu": "8"}'`
    for what one of them offers to jobs. Without both, this check and the room on nodes in the next ones are left
    out. What a queue has whose jobs run on other clusters (MultiKueue) takes no node here, but for what it lends to
    queues whose jobs run here.
    """
    queued = gathered.view(Queues.read)
    if not queued:
        return
    holders = _holders(queued)
    counting = queued.settings.counting
    for name, flavor in sorted(queued.tree.flavors.items()):
        promised = {key.resource: each for key, each in holders.items() if key.flavor == name}
        offered = counting.of(flavor.allocatable) if flavor.allocatable and queued.settings.is_modelled else {}
        over = {
            resource: each
            for resource, each in promised.items()
            if counting.is_counted(resource) and _is_over(flavor.nodes, offered, resource, each)
        }
        if over:
            yield queued.of("ResourceFlavor")[name], _breach(flavor.nodes or 0, offered, over)


def _holders(queued: Queues) -> Mapping[FlavorResource, _Holders]:
    """Who promises how much of what to jobs that run here."""
    found: dict[FlavorResource, dict[str, int]] = {}
    tree = queued.tree
    here = _shared_with(queued) if any(queue.is_multi_kueue for queue in tree.queues.values()) else frozenset()
    for name, queue in tree.queues.items():
        root = queued.nodes[name].root().name if queue.cohort and name in queued.nodes else ""
        for key, quota in queue.quotas.items():
            holder, amount = f"queue `{name}` has", quota.nominal
            if queue.is_multi_kueue:
                holder, amount = f"queue `{name}` lends", _lent(quota) if (root, key) in here else 0
            if amount > 0:
                found.setdefault(key, {})[holder] = amount
    away = _roots(queued, is_elsewhere=True) - _roots(queued, is_elsewhere=False)
    for name, cohort in tree.cohorts.items():
        if [*tree.ancestors(name)][-1].name not in away:
            for key, quota in cohort.quotas.items():
                if quota.nominal > 0:
                    found.setdefault(key, {})[f"cohort `{name}` has"] = quota.nominal
    return found


def _lent(quota: Quota) -> int:
    return quota.nominal if quota.lending is None else min(quota.lending, quota.nominal)


def _shared_with(queued: Queues) -> AbstractSet[tuple[str, FlavorResource]]:
    """Root of a tree of cohorts, and what queues in it may borrow whose jobs run here."""
    return {
        (queued.nodes[name].root().name, key)
        for name, most in queued.most.items()
        for key, amount in most.items()
        if not queued.tree.queues[name].is_multi_kueue and amount > queued.nodes[name].quota(key).nominal
    }


def _roots(queued: Queues, *, is_elsewhere: bool) -> AbstractSet[str]:
    """The roots of the queues whose jobs run elsewhere, or here."""
    return {
        queued.nodes[name].root().name
        for name, queue in queued.tree.queues.items()
        if queue.cohort and name in queued.nodes and queue.is_multi_kueue is is_elsewhere
    }


def _is_over(nodes: int | None, offered: Requests, resource: str, holders: _Holders) -> bool:
    """What a node does not name it has none of if it is a device, and else nobody knows how much."""
    if nodes is None or not offered:
        return False
    is_known = resource in offered or "/" in resource
    return is_known and sum(holders.values()) > nodes * offered.get(resource, 0)


def _breach(nodes: int, offered: Requests, over: Mapping[str, _Holders]) -> Breach:
    sums = [
        f"{format_amount(name, sum(holders.values()))} {name} of {format_amount(name, nodes * offered.get(name, 0))}"
        for name, holders in sorted(over.items(), key=_devices_first)
    ]
    name, holders = min(over.items(), key=_devices_first)
    largest = sorted(holders.items(), key=lambda each: (-each[1], each[0]))
    told = [f"{holder} {format_amount(name, amount)} {name}" for holder, amount in largest[:_NAMED]]
    lends = any(" lends" in holder for holder in holders)
    rest = [f"{len(largest) - _NAMED} more the rest"] if len(largest) > _NAMED else []
    return Breach(
        ("metadata", "annotations", NODES),
        "quota/over-capacity",
        f"the quotas promise {' and '.join(sums)} that its {nodes} nodes have: {', '.join([*told, *rest])}",
        "Kueue admits by quota alone: jobs beyond the nodes hold their quota with pods that no node takes",
        f"lower the quotas, {_KEEP if lends else ''}or correct the number of nodes",
        value=str(nodes),
    )


def _devices_first(each: tuple[str, _Holders]) -> tuple[bool, str]:
    return "/" not in each[0], each[0]


@check("quota/reservation-over", severity=WARNING, needs=Objects)
def reservation_over(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a reservation whose last day is past.

    A reservation's last day is past, and its quota is still in the queue. The days are in the annotation
    `mpigen.dev/reservations` of the ClusterQueue, which mpigen writes. Today is by the clock (UTC), or by
    `SOURCE_DATE_EPOCH` where that is set.
    """
    today = gathered.today
    if today is None:
        return
    for manifest in gathered.of(KUEUE, "ClusterQueue"):
        for name, until in _reservations(manifest):
            if until < today:
                days = (today - until).days
                yield (
                    manifest,
                    Breach(
                        ("metadata", "annotations", RESERVATIONS),
                        "quota/reservation-over",
                        f"the reservation `{name}` ended on {until}, {days} day{'' if days == 1 else 's'} ago",
                        "its quota is still part of the queue's: nothing changes by itself in a cluster",
                        "take the reservation out of the platform file, or agree on another last day",
                        Severity.WARNING,
                    ),
                )


def _reservations(manifest: Manifest) -> Iterator[tuple[str, dt.date]]:
    """The name and the last day of each that the annotation of a queue tells."""
    written = mapping(manifest.body, "metadata", "annotations").get(RESERVATIONS)
    try:
        found = read_json(written) if isinstance(written, str) else None
    except ValueError:
        return
    for name, until in sorted(found.items()) if isinstance(found, dict) else ():
        try:
            yield name, dt.date.fromisoformat(str(until))
        except ValueError:
            continue


_Amounts = Mapping[FlavorResource, int]


@check("quota/borrows-nothing", severity=WARNING, needs=Objects)
def borrows_nothing(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a borrowing limit in a cohort that lends nothing.

    A queue or cohort has a `borrowingLimit` above 0, and nobody in its tree of cohorts has anything to lend it.
    Judged where the files hold two queues of the tree, or the Cohort that is its root, as are the next two.
    """
    for manifest, node, _ in _sharing(gathered.view(Queues.read)):
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


@check("quota/lends-nobody", severity=INFO, needs=Objects)
def lends_nobody(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report quota that no other queue can borrow.

    A queue that no LocalQueue leads to, such as `slack`, has quota that nobody may borrow, so that nobody can use
    it; or a queue has a `lendingLimit` above 0, and nobody may borrow.
    """
    queued = gathered.view(Queues.read)
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


def _borrowers(queued: Queues) -> Mapping[tuple[str, FlavorResource], Collection[str]]:
    """Root of a tree, flavor and resource → the queues that can have more than their own."""
    found: dict[tuple[str, FlavorResource], set[str]] = {}
    for name, most in queued.most.items():
        node = queued.nodes[name]
        root = node.root().name
        for key, amount in most.items():
            if amount > node.quota(key).nominal:
                found.setdefault((root, key), set()).add(name)
    return found


@check("quota/no-share", severity=WARNING, needs=Objects)
def no_share(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a fair-sharing weight of 0 on a queue that can borrow.

    A queue or cohort has the weight 0 and may borrow. With fair sharing Kueue lets everybody else borrow first, and
    stops its jobs before those of anybody else. Nothing is said where Kueue's configuration is among the files and
    fair sharing is off.

    Source: kueue v0.19.2 pkg/cache/scheduler/fair_sharing.go CompareDRS: who borrows without a weight comes after
    everybody else when jobs are admitted, and before everybody else when they are preempted.
    """
    queued = gathered.view(Queues.read)
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
    beyond = f"{format_amount(key.resource, node.potential(key) - node.has(key))} {key.resource} of `{key.flavor}`"
    return Breach(
        path,
        "quota/no-share",
        f"the weight is 0, and it may borrow {beyond}",
        "with fair sharing Kueue lends to it last, and stops its borrowing jobs before anybody else's",
        "give it a weight above 0, unless it is meant to live on what nobody else wants",
        Severity.WARNING,
        value=0,
    )


@check("quota/idle-weight", severity=WARNING, needs=Objects)
def idle_weight(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a fair-sharing weight while fair sharing is off.

    A queue or cohort has another weight than 1, and Kueue's configuration is among the files and has fair sharing
    off. Kueue then does not look at weights.
    """
    queued = gathered.view(Queues.read)
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


def _sharing(queued: Queues | None) -> Iterator[tuple[Manifest, Node, str]]:
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
