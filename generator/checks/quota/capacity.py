"""quota/*: quota that exceeds the nodes, expired reservations, and limits and weights without effect.

Kueue does not count nodes: it admits jobs by quota, and pods for which no node has room stay pending.
The rules on lending need two queues of a cohort tree or its root: with one queue alone, other lenders may exist.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from generator.checks.objects import Objects
from generator.checks.quota.queues import KUEUE, Queues, by_flavor, place, told
from generator.checks.registry import ERROR, INFO, WARNING, Breach, check
from generator.documents.json_text import read_json
from generator.documents.load import Path
from generator.facts.names import NODES, RESERVATIONS
from generator.manifests import Manifest
from generator.objects.fields import mapping
from generator.objects.queue import FlavorResource, Quota, Requests, format_amount
from generator.simulate.kueue.queues import Node

_Holders = Mapping[str, int]
_WEIGHT: Path = ("spec", "fairSharing", "weight")
_NAMED = 3  # holders in a message
_KEEP = "set `lendingLimit: 0` on queues whose jobs run on other clusters, "


@check("quota/over-capacity", severity=ERROR, needs=Queues)
def over_capacity(queues: Queues) -> Iterator[Breach]:
    """Report more quota of a flavor than its nodes offer.

    Kueue does not count nodes. It admits jobs by quota, and the pods that exceed the nodes stay Pending while their
    job holds the quota.

    The annotations `mpigen.dev/nodes: "16"` and `mpigen.dev/allocatable: '{"cpu": "192", "nvidia.com/gpu": "8"}'` of
    a ResourceFlavor give the number of its nodes, and what one node offers. Without both the check reports nothing.
    Quota of a queue whose jobs run on other clusters (MultiKueue) counts only if it is lent to a queue of this one.
    """
    holders = _holders(queues)
    counting = queues.settings.counting
    for name, flavor in sorted(queues.tree.flavors.items()):
        promised = {key.resource: each for key, each in holders.items() if key.flavor == name}
        offered = counting.of(flavor.allocatable) if flavor.allocatable and queues.settings.is_modelled else {}
        over = {
            resource: each
            for resource, each in promised.items()
            if counting.is_counted(resource) and _is_over(flavor.nodes, offered, resource, each)
        }
        if over:
            yield _over_capacity(queues.of("ResourceFlavor")[name], flavor.nodes or 0, offered, over)


def _holders(queues: Queues) -> Mapping[FlavorResource, _Holders]:
    """Return flavor and resource → holder of quota for jobs that run here → amount."""
    found: dict[FlavorResource, dict[str, int]] = {}
    tree = queues.tree
    here = _shared_with(queues) if any(queue.is_multi_kueue for queue in tree.queues.values()) else frozenset()
    for name, queue in tree.queues.items():
        root = queues.nodes[name].root().name if queue.cohort and name in queues.nodes else ""
        for key, quota in queue.quotas.items():
            holder, amount = f"queue `{name}` has", quota.nominal
            if queue.is_multi_kueue:
                holder, amount = f"queue `{name}` lends", _lent(quota) if (root, key) in here else 0
            if amount > 0:
                found.setdefault(key, {})[holder] = amount
    away = _roots(queues, is_elsewhere=True) - _roots(queues, is_elsewhere=False)
    for name, cohort in tree.cohorts.items():
        if [*tree.ancestors(name)][-1].name not in away:
            for key, quota in cohort.quotas.items():
                if quota.nominal > 0:
                    found.setdefault(key, {})[f"cohort `{name}` has"] = quota.nominal
    return found


def _lent(quota: Quota) -> int:
    return quota.nominal if quota.lending is None else min(quota.lending, quota.nominal)


def _shared_with(queues: Queues) -> AbstractSet[tuple[str, FlavorResource]]:
    """Return (root cohort, flavor and resource) pairs that a queue of this cluster can borrow."""
    return {
        (queues.nodes[name].root().name, key)
        for name, most in queues.most.items()
        for key, amount in most.items()
        if not queues.tree.queues[name].is_multi_kueue and amount > queues.nodes[name].quota(key).nominal
    }


def _roots(queues: Queues, *, is_elsewhere: bool) -> AbstractSet[str]:
    """Return the root cohorts of the queues whose jobs run on other clusters, or here."""
    return {
        queues.nodes[name].root().name
        for name, queue in queues.tree.queues.items()
        if queue.cohort and name in queues.nodes and queue.is_multi_kueue is is_elsewhere
    }


def _is_over(nodes: int | None, offered: Requests, resource: str, holders: _Holders) -> bool:
    """Return True if the quota exceeds the nodes; False if the capacity of a resource is unknown."""
    if nodes is None or not offered:
        return False
    is_known = resource in offered or "/" in resource
    return is_known and sum(holders.values()) > nodes * offered.get(resource, 0)


def _over_capacity(flavor: Manifest, nodes: int, offered: Requests, over: Mapping[str, _Holders]) -> Breach:
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
        f"the quotas exceed the {nodes} nodes, with {' and '.join(sums)}: {', '.join([*told, *rest])}",
        "Kueue admits jobs by quota alone. Jobs beyond the nodes hold their quota while their pods stay Pending",
        f"lower the quotas, {_KEEP if lends else ''}or correct the number of nodes",
        flavor,
        value=str(nodes),
    )


def _devices_first(each: tuple[str, _Holders]) -> tuple[bool, str]:
    return "/" not in each[0], each[0]


@check("quota/reservation-over", severity=WARNING, needs=Objects)
def reservation_over(objects: Objects) -> Iterator[Breach]:
    """Report a reservation whose last day is past.

    Nothing in a cluster ends a reservation: its quota stays in the queue until a release removes it.

    The annotation `mpigen.dev/reservations` of a ClusterQueue has the last days. The check takes the day from the
    clock (UTC), or from `SOURCE_DATE_EPOCH` if it is set.
    """
    today = objects.today
    if today is None:
        return
    for queue in objects.of(KUEUE, "ClusterQueue"):
        for name, until in _reservations(queue):
            if until < today:
                days = (today - until).days
                yield Breach(
                    ("metadata", "annotations", RESERVATIONS),
                    f"the reservation `{name}` ended on {until}, {days} day{'' if days == 1 else 's'} ago",
                    "its quota is still part of the queue, because nothing in a cluster removes it",
                    "remove the reservation from the platform file, or set a later last day",
                    queue,
                )


def _reservations(manifest: Manifest) -> Iterator[tuple[str, dt.date]]:
    """Yield the name and the last day of each reservation of a queue."""
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


@check("quota/borrows-nothing", severity=WARNING, needs=Queues)
def borrows_nothing(queues: Queues) -> Iterator[Breach]:
    """Report a borrowing limit in a cohort that lends nothing.

    The queue or Cohort never gets more than its nominal quota. The check needs two queues of the cohort tree, or the
    Cohort that is its root: other lenders may exist outside of the files.

    Source: kueue v0.19.2 pkg/cache/scheduler/resource_node.go `potentialAvailable`
    """
    for manifest, node, root in _in_cohorts(queues):
        unusable = {
            key: quota.borrowing
            for key, quota in node.quotas.items()
            if quota.borrowing and node.potential(key) <= node.has(key)
        }
        for flavor, limits in by_flavor(unusable):
            nominal = told({key: node.has(key) for key in limits})
            yield Breach(
                place(manifest, limits, "borrowingLimit"),
                f"can borrow {told(limits)} of flavor `{flavor}`, but no queue or Cohort in `{root}` lends any",
                f"it never gets more than its nominal quota of {nominal}",
                "set quota that another queue or Cohort lends, or set this `borrowingLimit` to 0",
                manifest,
            )


@check("quota/lends-nobody", severity=INFO, needs=Queues)
def lends_nobody(queues: Queues) -> Iterator[Breach]:
    """Report quota that no other queue can borrow.

    No job uses the quota of a queue without a LocalQueue, such as `slack`, unless another queue can borrow it. Quota
    with a `lendingLimit` above 0 stays idle when the queue itself does not use it.
    """
    borrowers = _borrowers(queues)
    for manifest, node, root in _in_cohorts(queues):
        if node.queue is None:
            continue
        is_unreachable = bool(queues.tree.local_queues) and node.name not in queues.doors
        idle = {
            key: quota.nominal if quota.lending is None else min(quota.lending, quota.nominal)
            for key, quota in node.quotas.items()
            if (is_unreachable or quota.lending) and not borrowers.get((root, key), set()) - {node.name}
        }
        for flavor, amounts in by_flavor({key: amount for key, amount in idle.items() if amount}):
            why = "no LocalQueue leads to this queue either, so no job can use the quota"
            yield Breach(
                place(manifest, amounts, "nominalQuota" if is_unreachable else "lendingLimit"),
                f"lends {told(amounts)} of flavor `{flavor}`, but no other queue in `{root}` can borrow it",
                why if is_unreachable else "the quota stays idle when this queue does not use it",
                "let other queues borrow it (`borrowingLimit`, in a platform file `borrow`), or move it to one",
                manifest,
            )


def _borrowers(queues: Queues) -> Mapping[tuple[str, FlavorResource], AbstractSet[str]]:
    """Return (root cohort, flavor and resource) → the queues that can have more than their nominal quota."""
    found: dict[tuple[str, FlavorResource], set[str]] = {}
    for name, most in queues.most.items():
        node = queues.nodes[name]
        for key, amount in most.items():
            if amount > node.quota(key).nominal:
                found.setdefault((node.root().name, key), set()).add(name)
    return found


@check("quota/no-share", severity=WARNING, needs=Queues)
def no_share(queues: Queues) -> Iterator[Breach]:
    """Report a fair-sharing weight of 0 on a queue that can borrow.

    With fair sharing, Kueue admits borrowing jobs of such a queue after those of all other queues, and preempts them
    first. The check reports nothing if Kueue's configuration is among the files and fair sharing is off.

    Source: kueue v0.19.2 pkg/cache/scheduler/fair_sharing.go CompareDRS
    """
    if queues.settings.is_fair is False:
        return
    for manifest, node, _ in _in_cohorts(queues):
        borrowed = [key for key in node.subtree if node.potential(key) > node.has(key)]
        if node.weight == 0 and borrowed:
            key = borrowed[0]
            amount = format_amount(key.resource, node.potential(key) - node.has(key))
            yield Breach(
                _WEIGHT,
                f"the weight is 0, but the {manifest.kind} can borrow {amount} {key.resource} of flavor `{key.flavor}`",
                "with fair sharing, Kueue admits its borrowing jobs last and preempts them first",
                "set a weight above 0, unless its jobs may use only quota that no other queue needs",
                manifest,
                value=0,
            )


@check("quota/idle-weight", severity=WARNING, needs=Queues)
def idle_weight(queues: Queues) -> Iterator[Breach]:
    """Report a fair-sharing weight while fair sharing is off.

    Kueue ignores weights unless its configuration turns fair sharing on. The check reports nothing if the
    configuration is in no file.
    """
    if queues.settings.is_fair is not False:
        return
    for kind, members in (("ClusterQueue", queues.tree.queues), ("Cohort", queues.tree.cohorts)):
        for name in sorted(name for name, each in members.items() if each.weight != 1):
            manifest = queues.of(kind)[name]
            weight = manifest.body["spec"]["fairSharing"]["weight"]
            yield Breach(
                _WEIGHT,
                f"the weight is {weight}, but Kueue's configuration has fair sharing off",
                "Kueue ignores the weight: jobs borrow in the order in which they arrive",
                "turn fair sharing on in Kueue's configuration, or remove the weight",
                manifest,
                value=weight,
            )


def _in_cohorts(queues: Queues) -> Iterator[tuple[Manifest, Node, str]]:
    """Yield the queues and Cohorts below a root whose members are in the files, with the name of the root."""
    cohorts = {each.name: each for node in queues.nodes.values() for each in node.path() if each.parent}
    for kind, nodes in (("ClusterQueue", queues.nodes), ("Cohort", cohorts)):
        for name, node in sorted(nodes.items()):
            if node.parent and queues.is_told(node.root()) and name in queues.of(kind):
                yield queues.of(kind)[name], node, node.root().name
