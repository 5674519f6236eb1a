"""Checks of pods against the nodes of a flavor: labels, taints and size.

Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go `checkFlavorForPodSets`, `flavorSelector`: Kueue
compares only labels that the flavor sets, because its nodes may have any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from generator.facts.names import HOSTNAME
from generator.manifests import Body
from generator.objects.amounts import Requests, shown
from generator.objects.fields import mappings
from generator.objects.selectors import find_untolerated_taint, format_taint, meets_requirements
from generator.simulate.kueue.podsets import PodSet, grouped
from generator.simulate.kueue.queues import Flavor
from generator.simulate.kueue.topology import How


def mismatch(pods: PodSet, flavor: Flavor) -> str:
    """Why the pods may not go to the flavor's nodes; empty if they may.

    Raises:
        NotModelledError: a toleration compares numbers.
    """
    taint = find_untolerated_taint(flavor.taints, (*pods.tolerations, *flavor.tolerations))
    if taint is not None:
        return f"`{pods.name}` does not tolerate the taint {format_taint(taint)} of flavor `{flavor.name}`"
    wanted = {key: value for key, value in pods.node_selector.items() if key in flavor.labels}
    for key, value in sorted(wanted.items()):
        if flavor.labels[key] != value:
            return f"`{pods.name}` selects nodes with {key}={value}, flavor `{flavor.name}` has {flavor.labels[key]}"
    if not _is_near(pods.affinity, flavor):
        return f"the node affinity of `{pods.name}` excludes flavor `{flavor.name}`"
    return ""


def _is_near(terms: tuple[Body, ...], flavor: Flavor) -> bool:
    """Whether one of the terms holds. A term that names no label of the flavor's holds for every flavor."""
    known = [
        [each for each in mappings(term.get("matchExpressions")) if each.get("key") in flavor.labels] for term in terms
    ]
    return not known or any(not expressions or meets_requirements(expressions, flavor.labels) for expressions in known)


@dataclass(slots=True)
class _Alike:
    """Nodes with the same free resources."""

    count: int
    free: dict[str, int]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """So many nodes of a flavor, which are too few; one, if the pods must all be on the same (`is_one`)."""

    flavor: str
    nodes: int | None
    is_one: bool


def no_room(flavor: Flavor, podsets: Sequence[PodSet]) -> NoRoom | None:
    """The nodes that do not hold all pods of a job, not even empty; None if they do, or if nobody says what they have.

    Those that must be on one node together have one, and the others all.
    """
    groups = [group for _, group in grouped(podsets)]
    for some, nodes in [*((group, within(flavor, group)) for group in groups), (podsets, flavor)]:
        if not has_room(nodes, [(each.count, each.requests) for each in some]):
            return NoRoom(flavor.name, nodes.nodes, is_one=nodes is not flavor)
    return None


def within(flavor: Flavor, group: Sequence[PodSet]) -> Flavor:
    """The flavor with as many nodes as pods may be on that are placed together."""
    wishes = [each.topology for each in group if each.topology]
    is_on_one = any(wish.how is How.REQUIRED and wish.level == HOSTNAME for wish in wishes)
    return replace(flavor, nodes=1) if is_on_one and flavor.topology and flavor.nodes else flavor


def oversize(flavors: Iterable[Flavor], pods: PodSet) -> str:
    """Why no node of any flavor is large enough for a single pod; empty if one is, or if nobody says what it has.

    Flavors with none of a device that the pods ask for are not meant for them.
    """
    asked = {name: amount for name, amount in pods.requests.items() if amount}
    devices = [name for name in asked if "/" in name]
    meant = [each for each in flavors if not each.allocatable or all(each.allocatable.get(name) for name in devices)]
    if not meant or any(fit_on_one(each, asked) != 0 for each in meant):
        return ""
    flavor = meant[0]
    beyond = [name for name in (*devices, *asked) if asked[name] > flavor.allocatable.get(name, asked[name])]
    has, takes = (shown(beyond[0], amounts[beyond[0]]) for amounts in (flavor.allocatable, asked))
    return f"a pod of `{pods.name}` takes {takes} {beyond[0]}, and a node of flavor `{flavor.name}` has {has}"


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
