"""Topology requests of pods, and the topology domains of nodes.

Source: kueue v0.19.2 pkg/controller/jobframework/tas.go; kueue v0.19.2
pkg/scheduler/flavorassigner/tas_flavorassigner.go; kueue v0.19.2 pkg/cache/scheduler/tas_topology_tree.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from generator.errors import NotModelledError, Problem
from generator.facts.names import HOSTNAME, PODSET_PREFIX
from generator.manifests import Body
from generator.objects.queue import Requests, add_requests

_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_MOST = 2**31 - 1
Key = tuple[str, ...]
"""The key of a leaf domain: the hostname if leaves are nodes, else the label values of all levels."""


class TopologyMode(Enum):
    """The mode of a topology request, such as `required`."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """The topology request in the annotations of a pod.

    Attributes:
        mode: required, preferred or unconstrained.
        level: the node label whose value the nodes of all pods must share, or with `preferred` should share; empty if
            unconstrained.
        group: the name of the PodSet group, which gets one flavor and one domain; empty without a group.
        is_sliced: True for a request of slices, which are not simulated.
    """

    mode: TopologyMode
    level: str = ""
    group: str = ""
    is_sliced: bool = False


def topology_request(annotations: Mapping[str, str]) -> TopologyRequest | None:
    """Return the topology request in annotations of a pod; None without one (`NewPodSetTopologyRequest`)."""
    values = {
        name.removeprefix(PODSET_PREFIX): value for name, value in annotations.items() if name.startswith(PODSET_PREFIX)
    }
    is_sliced = {"slice-required-topology", "slice-size"} <= values.keys()
    for mode in (TopologyMode.REQUIRED, TopologyMode.PREFERRED):
        if level := values.get(f"{mode.value}-topology"):
            return TopologyRequest(mode, level, values.get("group-name", ""), is_sliced)
    if is_sliced or values.get("unconstrained-topology") in _TRUE:
        return TopologyRequest(TopologyMode.UNCONSTRAINED, is_sliced=is_sliced)
    return None


@dataclass(frozen=True, slots=True)
class FlavorTopology:
    """The topology of a flavor in a queue.

    Attributes:
        levels: the node labels of the topology; empty if the flavor has no topology.
        resources: the resources of the flavor's resource group.
        is_implied: True if all flavors of the queue have a topology, so that Kueue places every pod by topology.
    """

    flavor: str
    levels: Sequence[str]
    resources: Sequence[str]
    is_implied: bool


def explain_topology_mismatch(
    pods: str, request: TopologyRequest | None, requested: Mapping[str, int], topology: FlavorTopology
) -> str:
    """Return why pods cannot get a flavor because of its topology; empty if they can.

    Kueue calls this `checkPodSetAndFlavorMatchForTAS`.

    Raises:
        NotModelledError: the pods request slices.
    """
    if request is None:
        if not topology.levels or topology.is_implied:
            return ""
        return f"`{pods}` requests no topology, but flavor `{topology.flavor}` requires a topology request"
    if request.is_sliced:
        raise NotModelledError((Problem(f"`{pods}` requests slices of a topology, which mpigen does not simulate"),))
    if not topology.levels:
        is_unused = not any(name in topology.resources for name in requested)
        return "" if is_unused else f"`{pods}` requests a topology, but flavor `{topology.flavor}` has none"
    if request.level and request.level not in topology.levels:
        return f"`{pods}` requests the level {request.level}, which the topology of flavor `{topology.flavor}` lacks"
    return ""


@dataclass(frozen=True, eq=False, slots=True)
class Machine:
    """A Node that accepts pods. `allocatable` includes the resource `pods`, the number of pods that the Node holds."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Body, ...]
    allocatable: Requests


@dataclass(eq=False, slots=True)
class Domain:
    """A topology domain, such as a rack or a node.

    Attributes:
        values: label values of its nodes, from the widest level down to the level of the domain.
        children: child domains; a leaf has none.
        machine: the Node of a leaf; None unless the lowest level is the hostname.
        capacity: for a leaf, the resources of all its nodes.
    """

    values: tuple[str, ...]
    children: list[Domain] = field(default_factory=list)
    machine: Machine | None = None
    capacity: dict[str, int] = field(default_factory=dict)


class TopologyTree:
    """The topology domains of the nodes of a flavor, from the widest level down to the leaves."""

    def __init__(self, levels: Sequence[str], machines: Iterable[Machine]) -> None:
        self.levels = tuple(levels)
        self.by_level: list[dict[tuple[str, ...], Domain]] = [{} for _ in levels]
        self.leaves: dict[Key, Domain] = {}
        for machine in machines:
            self._add(machine)

    @property
    def are_nodes(self) -> bool:
        """True if the leaves are single nodes. Kueue compares node selectors and taints only in this case."""
        return self.levels[-1] == HOSTNAME

    def key(self, leaf: Domain) -> Key:
        """Return the key of a leaf."""
        return leaf.values[-1:] if self.are_nodes else leaf.values

    def _add(self, machine: Machine) -> None:
        values = tuple(machine.labels[level] for level in self.levels)
        leaf = self.leaves.get(values[-1:] if self.are_nodes else values) or self._domain(values)
        self.leaves[self.key(leaf)] = leaf
        leaf.machine = leaf.machine or (machine if self.are_nodes else None)
        add_requests(leaf.capacity, machine.allocatable)

    def _domain(self, values: tuple[str, ...]) -> Domain:
        """Return the domain with these label values; create it and its parents if they are missing."""
        domains = self.by_level[len(values) - 1]
        if values not in domains:
            domains[values] = Domain(values)
            if len(values) > 1:
                self._domain(values[:-1]).children.append(domains[values])
        return domains[values]


def count_in(requests: Requests, capacity: Requests) -> int:
    """Return how many pods with these requests a capacity holds; 0 if `requests` is empty (kueue v0.19.2 `CountIn`)."""
    counts = (max(capacity.get(name, 0) // amount, 0) if amount else _MOST for name, amount in requests.items())
    return min(counts, default=0)
