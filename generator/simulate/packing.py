"""Whether pods have room on the nodes of a flavor, if it says how many it has: no pod is on two nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generator.simulate.amounts import Requests
from generator.simulate.queues import Flavor


@dataclass(slots=True)
class _Alike:
    """Nodes with the same free resources."""

    count: int
    free: dict[str, int]


def has_room(flavor: Flavor, pods: Sequence[tuple[int, Requests]]) -> bool:
    """Whether empty nodes hold so many pods of each kind; true where nobody says what nodes there are.

    The largest pods are placed first, each on the first node with room for it. For hosts that are all alike, and a
    launcher beside them, no other order does better.
    """
    if flavor.nodes is None or not flavor.allocatable:
        return True
    nodes = [_Alike(flavor.nodes, dict(flavor.allocatable))]
    for count, requests in sorted(pods, key=lambda each: -_size(each[1], flavor)):
        if not _place(nodes, count, requests):
            return False
    return True


def fit_on_one(flavor: Flavor, requests: Requests) -> int | None:
    """How many pods of a kind an empty node holds; None where nobody says what it has, or they ask for nothing."""
    return _times(flavor.allocatable, requests) if flavor.allocatable else None


def _size(requests: Requests, flavor: Flavor) -> float:
    """The largest part of a node that a pod takes."""
    return max((amount / (flavor.allocatable.get(name) or 1) for name, amount in requests.items()), default=0)


def _times(free: Requests, requests: Requests) -> int | None:
    """How often it fits. What a node does not name it has none of if it is a device, and else enough of."""
    known = {name: amount for name, amount in requests.items() if amount and (name in free or "/" in name)}
    return min((max(free.get(name, 0), 0) // amount for name, amount in known.items()), default=None)


def _place(nodes: list[_Alike], count: int, requests: Requests) -> bool:
    """Put the pods on the nodes, in order; whether all have a place."""
    for alike in list(nodes):
        each = _times(alike.free, requests)
        if each is None or count == 0:
            return True
        if each == 0:
            continue
        full = min(count // each, alike.count)
        _take(nodes, alike, full, requests, each)
        count -= full * each
        if count and alike.count:
            _take(nodes, alike, 1, requests, min(count, each))
            count -= min(count, each)
    return count == 0


def _take(nodes: list[_Alike], alike: _Alike, number: int, requests: Requests, each: int) -> None:
    """So many of these nodes get so many pods each."""
    if number:
        alike.count -= number
        free = {name: amount - requests.get(name, 0) * each for name, amount in alike.free.items()}
        nodes.insert(nodes.index(alike), _Alike(number, free))
