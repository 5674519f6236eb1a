"""The row of phases.yaml about a job that gets no quota, by the message of Kueue on its flavors.

Kueue writes one message about all pod sets and flavors that it tried. A job never runs only if no flavor of a resource
group can ever take one of its pod sets.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from generator.facts.phases import Reason, find_reason, reasons
from generator.manifests import Manifest
from generator.objects.conditions import Condition
from generator.objects.fields import mapping, mappings, string

_POD_SET = re.compile(r"(?:^|; )couldn't assign flavors to pod set \S+: ")
_NEXT = re.compile(
    r", (?=insufficient |untolerated taint |flavor |Flavor \"|resource |skipping flavor |could not assign |topology \")"
)
_FLAVOR = re.compile(r"\b[Ff]lavor \"?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")
_PREEMPTION = re.compile(r"\. Pending the preemption of \d+ workload")
_Rows = list[tuple[Reason, str]]
"""The rows about the reasons of a pod set, with their flavors; without a flavor, an empty text."""


def find_refusal(reserved: Condition, queue: Manifest | None, events: Iterable[str] = ()) -> tuple[Reason | None, str]:
    """Return the row about the condition QuotaReserved of a Workload, and the message that decides.

    Kueue tries the flavors in several attempts, and the condition has only the last one. So if its message omits a
    flavor, the newest event that omits none decides.

    Args:
        reserved: the condition.
        queue: the LocalQueue of the Workload, whose status names the flavors; None if the export lacks it.
        events: the messages of the events `Pending` about the Workload, the newest first.

    Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go Assignment.Message;
    kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go Assignment.resolveNoFitReason;
    kueue v0.19.2 pkg/scheduler/scheduler.go Scheduler.requeueAndUpdate;
    kueue v0.19.2 apis/kueue/v1beta2/localqueue_types.go LocalQueueStatus
    """
    if reserved.reason != "Pending" or not _POD_SET.match(reserved.message) or _PREEMPTION.search(reserved.message):
        return find_reason("Workload", *reserved[:4]), reserved.message
    groups = _resource_groups(queue)
    for message in (reserved.message, *events):
        rows = [_rows(reserved, text) for text in _POD_SET.split(message)[1:]]
        if never := [row for of_pod_set in rows for row in _never(of_pod_set, groups)]:
            return min(never, key=reasons().index), message
        if rows and all(_are_all_named(of_pod_set, groups) for of_pod_set in rows):
            break
    rows = [_rows(reserved, text) for text in _POD_SET.split(reserved.message)[1:]]
    waits = [row for of_pod_set in rows for row, _ in of_pod_set if not row.blocks]
    row = min(waits, key=reasons().index, default=find_reason("Workload", *reserved[:3]))
    return row, reserved.message


def _rows(reserved: Condition, text: str) -> _Rows:
    rows = []
    for reason in _NEXT.split(text):
        flavor = _FLAVOR.search(reason)
        if row := find_reason("Workload", *reserved[:3], reason):
            rows.append((row, flavor[1] if flavor else ""))
    return rows


def _never(rows: _Rows, groups: Mapping[str, frozenset[str]]) -> list[Reason]:
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


def _are_all_named(rows: _Rows, groups: Mapping[str, frozenset[str]]) -> bool:
    """Return True if the reasons of a pod set name all flavors of each resource group that they name."""
    named = {flavor for _, flavor in rows}
    return all(groups.get(flavor, frozenset()) <= named for flavor in named)


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
