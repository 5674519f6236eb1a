"""Checks of pods against the nodes of a flavor: labels, taints and size.

Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go `checkFlavorForPodSets`, `flavorSelector`: Kueue
compares only labels that the flavor sets, because its nodes may have any others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from generator.facts.names import HOSTNAME
from generator.manifests import Body
from generator.objects.amounts import Requests, format_amount
from generator.objects.fields import mappings
from generator.objects.queue import Flavor
from generator.objects.selectors import find_untolerated_taint, format_taint, meets_requirements
from generator.simulate.kueue.podsets import PodSet, group_podsets
from generator.simulate.kueue.topology import TopologyMode


def explain_flavor_mismatch(pods: PodSet, flavor: Flavor) -> str:
    """Return why pods cannot run on the nodes of a flavor; empty if they can.

    Raises:
        NotModelledError: a toleration compares numbers.
    """
    taint = find_untolerated_taint(flavor.taints, (*pods.tolerations, *flavor.tolerations))
    if taint is not None:
        return f"`{pods.name}` does not tolerate the taint {format_taint(taint)} of flavor `{flavor.name}`"
    for key, value in sorted(pods.node_selector.items()):
        if flavor.labels.get(key, value) != value:
            return f"`{pods.name}` selects nodes with {key}={value}, flavor `{flavor.name}` has {flavor.labels[key]}"
    if not _matches_affinity(pods.affinity, flavor):
        return f"the node affinity of `{pods.name}` excludes flavor `{flavor.name}`"
    return ""


def _matches_affinity(terms: tuple[Body, ...], flavor: Flavor) -> bool:
    """Return True if a term matches the flavor; a term without a label of the flavor matches every flavor."""
    requirements = [
        [item for item in mappings(term.get("matchExpressions")) if item.get("key") in flavor.labels] for term in terms
    ]
    return not requirements or any(not items or meets_requirements(items, flavor.labels) for items in requirements)


@dataclass(slots=True)
class _EqualNodes:
    """Nodes with the same free resources."""

    count: int
    free: dict[str, int]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The nodes of a flavor that do not hold the pods; `is_one` if all pods must be on the same node."""

    flavor: str
    nodes: int | None
    is_one: bool


def find_missing_room(flavor: Flavor, podsets: Sequence[PodSet]) -> NoRoom | None:
    """Return the nodes that do not hold the pods of a job even while idle; None if they do, or if unknown.

    Pods that must share a node have one node, and the others all nodes.
    """
    groups = [group for _, group in group_podsets(podsets)]
    for pods, nodes in [*((group, limit_to_one_node(flavor, group)) for group in groups), (podsets, flavor)]:
        if not has_room(nodes, [(podset.count, podset.requests) for podset in pods]):
            return NoRoom(flavor.name, nodes.nodes, is_one=nodes is not flavor)
    return None


def limit_to_one_node(flavor: Flavor, group: Sequence[PodSet]) -> Flavor:
    """Return the flavor with one node if a PodSet group must be on one node."""
    topologies = [pods.topology for pods in group if pods.topology]
    is_on_one = any(item.mode is TopologyMode.REQUIRED and item.level == HOSTNAME for item in topologies)
    return replace(flavor, nodes=1) if is_on_one and flavor.topology and flavor.nodes else flavor


def explain_oversize(flavors: Iterable[Flavor], pods: PodSet) -> str:
    """Return why no node of any flavor holds a single pod; empty if one does, or if the nodes are unknown.

    Flavors without a device that the pods request are left out.
    """
    requests = {name: amount for name, amount in pods.requests.items() if amount}
    devices = [name for name in requests if "/" in name]
    suitable = [item for item in flavors if not item.allocatable or all(map(item.allocatable.get, devices))]
    if not suitable or any(fit_on_one(flavor, requests) != 0 for flavor in suitable):
        return ""
    flavor = suitable[0]
    exceeded = [name for name in (*devices, *requests) if requests[name] > flavor.allocatable.get(name, requests[name])]
    has, takes = (format_amount(exceeded[0], amounts[exceeded[0]]) for amounts in (flavor.allocatable, requests))
    return f"a pod of `{pods.name}` requests {takes} {exceeded[0]}, and a node of flavor `{flavor.name}` has {has}"


def has_room(flavor: Flavor, pods: Sequence[tuple[int, Requests]]) -> bool:
    """Return True if idle nodes hold these numbers of pods, or if the nodes are unknown.

    The largest pods are placed first, each on the first node with room. For equal hosts with a launcher no other order
    is better.
    """
    if flavor.nodes is None or not flavor.allocatable:
        return True
    nodes = [_EqualNodes(flavor.nodes, dict(flavor.allocatable))]
    by_size = sorted(pods, key=lambda pair: -_share_of_node(pair[1], flavor))
    return all(_place(nodes, count, requests) for count, requests in by_size)


def fit_on_one(flavor: Flavor, requests: Requests) -> int | None:
    """Return how many pods an idle node holds; None if the node is unknown, or the pods request nothing."""
    return _count_in(flavor.allocatable, requests) if flavor.allocatable else None


def _share_of_node(requests: Requests, flavor: Flavor) -> float:
    return max((amount / (flavor.allocatable.get(name) or 1) for name, amount in requests.items()), default=0)


def _count_in(free: Requests, requests: Requests) -> int | None:
    """Return how often requests fit. A resource that the node lacks is 0 for a device, and unlimited otherwise."""
    known = {name: amount for name, amount in requests.items() if amount and (name in free or "/" in name)}
    return min((max(free.get(name, 0), 0) // amount for name, amount in known.items()), default=None)


def _place(nodes: list[_EqualNodes], count: int, requests: Requests) -> bool:
    """Place pods on the nodes, in order; return True if all have room."""
    for equal in list(nodes):
        per_node = _count_in(equal.free, requests)
        if per_node is None or count == 0:
            return True
        if per_node == 0:
            continue
        full = min(count // per_node, equal.count)
        _take(nodes, equal, full, requests, per_node)
        count -= full * per_node
        if count and equal.count:
            _take(nodes, equal, 1, requests, min(count, per_node))
            count -= min(count, per_node)
    return count == 0


def _take(nodes: list[_EqualNodes], equal: _EqualNodes, number: int, requests: Requests, per_node: int) -> None:
    """Place a number of pods on each of some nodes."""
    if number:
        equal.count -= number
        free = {name: amount - requests.get(name, 0) * per_node for name, amount in equal.free.items()}
        nodes.insert(nodes.index(equal), _EqualNodes(number, free))
