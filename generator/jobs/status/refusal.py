"""The row of phases.yaml about a job that gets no quota, by the message of Kueue on its flavors.

Kueue writes one message about all pod sets and flavors that it tried. A job never runs only if no flavor of a resource
group can ever take one of its pod sets.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from generator.facts.phases import Reason, find_reason, reasons
from generator.manifests import Manifest
from generator.objects.conditions import Condition
from generator.objects.fields import mapping, mappings, string

_POD_SET = re.compile(r"(?:^|; )couldn't assign flavors to pod set \S+: ")
_NEXT = re.compile(
    r", (?=insufficient |untolerated taint |flavor |Flavor \"|resource |skipping flavor |could not assign |topology \")"
)
_FLAVOR = re.compile(r"\b[Ff]lavor \"?([a-z0-9.-]+)")


def find_refusal(reserved: Condition, queue: Manifest | None) -> Reason | None:
    """Return the row about the condition QuotaReserved of a Workload; None if the table has none.

    Args:
        reserved: the condition.
        queue: the LocalQueue of the Workload, whose status names the flavors; None if the export lacks it.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go Assignment.Message;
    kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go Assignment.resolveNoFitReason;
    kueue v0.19.2 apis/kueue/v1beta2/localqueue_types.go LocalQueueStatus
    """
    pod_sets = _POD_SET.split(reserved.message)[1:]
    if reserved.reason != "Pending" or not pod_sets:
        return find_reason("Workload", *reserved[:4])
    groups = _resource_groups(queue)
    rows = [[*_rows(reserved, text)] for text in pod_sets]
    never = [row for of_pod_set in rows for row in _never(of_pod_set, groups)]
    waits = [row for of_pod_set in rows for row, _ in of_pod_set if not row.blocks]
    return min(never or waits, key=reasons().index, default=find_reason("Workload", *reserved[:3]))


def _rows(reserved: Condition, text: str) -> Iterator[tuple[Reason, str]]:
    """Yield the row about each reason of a pod set, with its flavor; without a flavor, an empty text."""
    for reason in _NEXT.split(text):
        flavor = _FLAVOR.search(reason)
        if row := find_reason("Workload", *reserved[:3], reason):
            yield row, flavor[1] if flavor else ""


def _never(rows: Iterable[tuple[Reason, str]], groups: Mapping[str, frozenset[str]]) -> list[Reason]:
    """Return the rows that block a pod set: without a flavor, or all flavors of a resource group. None: an empty list.

    Kueue does not name the flavors that it has not tried yet.
    """
    blocking: dict[frozenset[str], dict[str, list[Reason]]] = defaultdict(lambda: defaultdict(list))
    for row, flavor in rows:
        if row.blocks and not flavor:
            return [row]
        blocking[groups.get(flavor, frozenset())][flavor] += [row] if row.blocks else []
    for group, flavors in blocking.items():
        if all(flavors.values()) and group <= flavors.keys():
            return [row for several in flavors.values() for row in several]
    return []


def _resource_groups(queue: Manifest | None) -> dict[str, frozenset[str]]:
    """Return flavor → all flavors of its resource group, which have the same resources; empty if unknown."""
    status = mapping(queue.body, "status") if queue else {}
    flavors = {
        string(flavor.get("name")): {string(resource.get("name")) for resource in mappings(flavor.get("resources"))}
        for flavor in mappings(status.get("flavorsReservation"))
    }
    return {
        name: frozenset(other for other in flavors if flavors[other] == resources)
        for name, resources in flavors.items()
    }
