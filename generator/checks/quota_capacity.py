"""quota/over-capacity, quota/reservation-over: do quotas promise only what is there, and for as long as was agreed?

Kueue never asks how many nodes there are: it admits what quotas promise, and what no node has stays pending.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.checks.queued import KUEUE, Queued
from generator.documents.json_text import read_json
from generator.facts.names import NODES, RESERVATIONS
from generator.manifests import Manifest
from generator.objects.amounts import FlavorResource, Requests, shown
from generator.objects.fields import mapping
from generator.simulate.kueue.queues import Quota

_Holders = Mapping[str, int]
_NAMED = 3  # holders in a message
_KEEP = "let queues whose jobs run on other clusters lend nothing here, "


def over_capacity(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Only of flavors that say how many nodes they have, and what one of them offers.

    A queue whose jobs are sent to other clusters takes nothing of the nodes here; what it lends to others it promises.
    """
    queued = gathered.view(Queued.read)
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


def _holders(queued: Queued) -> Mapping[FlavorResource, _Holders]:
    """Who promises how much of what to jobs that run here."""
    found: dict[FlavorResource, dict[str, int]] = {}
    tree = queued.tree
    here = _shared_with(queued) if any(queue.is_elsewhere for queue in tree.queues.values()) else frozenset()
    for name, queue in tree.queues.items():
        root = queued.nodes[name].root().name if queue.cohort and name in queued.nodes else ""
        for key, quota in queue.quotas.items():
            holder, amount = f"queue `{name}` has", quota.nominal
            if queue.is_elsewhere:
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


def _shared_with(queued: Queued) -> AbstractSet[tuple[str, FlavorResource]]:
    """Root of a tree of cohorts, and what queues in it may borrow whose jobs run here."""
    return {
        (queued.nodes[name].root().name, key)
        for name, most in queued.most.items()
        for key, amount in most.items()
        if not queued.tree.queues[name].is_elsewhere and amount > queued.nodes[name].quota(key).nominal
    }


def _roots(queued: Queued, *, is_elsewhere: bool) -> AbstractSet[str]:
    """The roots of the queues whose jobs run elsewhere, or here."""
    return {
        queued.nodes[name].root().name
        for name, queue in queued.tree.queues.items()
        if queue.cohort and name in queued.nodes and queue.is_elsewhere is is_elsewhere
    }


def _is_over(nodes: int | None, offered: Requests, resource: str, holders: _Holders) -> bool:
    """What a node does not name it has none of if it is a device, and else nobody knows how much."""
    if nodes is None or not offered:
        return False
    is_known = resource in offered or "/" in resource
    return is_known and sum(holders.values()) > nodes * offered.get(resource, 0)


def _breach(nodes: int, offered: Requests, over: Mapping[str, _Holders]) -> Breach:
    sums = [
        f"{shown(name, sum(holders.values()))} {name} of {shown(name, nodes * offered.get(name, 0))}"
        for name, holders in sorted(over.items(), key=_devices_first)
    ]
    name, holders = min(over.items(), key=_devices_first)
    largest = sorted(holders.items(), key=lambda each: (-each[1], each[0]))
    told = [f"{holder} {shown(name, amount)} {name}" for holder, amount in largest[:_NAMED]]
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


def reservation_over(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """A reservation whose last day is past; where nobody says what day it is, nothing is."""
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
