"""Topology requests of pods, and the topology domains of nodes.

Source: kueue v0.19.2 pkg/controller/jobframework/tas.go, pkg/scheduler/flavorassigner/tas_flavorassigner.go,
pkg/cache/scheduler/tas_topology_tree.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from generator.errors import NotModelledError, Problem
from generator.facts.names import HOSTNAME, PODSET_PREFIX
from generator.manifests import Body
from generator.objects.amounts import Requests

_TRUE = ("1", "t", "T", "TRUE", "true", "True")


class How(Enum):
    """How close together pods are to be."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"


@dataclass(frozen=True, slots=True)
class Wish:
    """What annotations of a pod say.

    Attributes:
        how: how close together.
        level: the node label whose value they are to have in common; empty where they may be anywhere.
        group: pods with the same name here get one flavor and one place; empty for none.
        is_sliced: they are to be close together in slices.
    """

    how: How
    level: str = ""
    group: str = ""
    is_sliced: bool = False


def wish(annotations: Mapping[str, str]) -> Wish | None:
    """What a pod asks for; None if it says nothing of it (`NewPodSetTopologyRequest`)."""
    said = {
        name.removeprefix(PODSET_PREFIX): value for name, value in annotations.items() if name.startswith(PODSET_PREFIX)
    }
    is_sliced = {"slice-required-topology", "slice-size"} <= said.keys()
    for how in (How.REQUIRED, How.PREFERRED):
        if level := said.get(f"{how.value}-topology"):
            return Wish(how, level, said.get("group-name", ""), is_sliced)
    if is_sliced or said.get("unconstrained-topology") in _TRUE:
        return Wish(How.UNCONSTRAINED, is_sliced=is_sliced)
    return None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a flavor is to pods that ask for a topology, or do not.

    Attributes:
        flavor: its name.
        levels: of its topology, from the widest place to the narrowest; empty without one.
        covers: the resources that the queue gives of it.
        is_implied: whether all flavors of the queue have a topology: then nobody needs to ask for one.
    """

    flavor: str
    levels: Sequence[str]
    covers: Sequence[str]
    is_implied: bool


def explain_topology_mismatch(pods: str, asks: Wish | None, requested: Mapping[str, int], offer: Offer) -> str:
    """Why pods may not have a flavor; empty if they may (`checkPodSetAndFlavorMatchForTAS`).

    Raises:
        NotModelledError: they ask for slices.
    """
    if asks is None:
        if not offer.levels or offer.is_implied:
            return ""
        return f"`{pods}` asks for no topology, and flavor `{offer.flavor}` takes only who does"
    if asks.is_sliced:
        raise NotModelledError((Problem(f"`{pods}` asks for slices of a topology, which are not simulated"),))
    if not offer.levels:
        is_other = not any(name in offer.covers for name in requested)
        return "" if is_other else f"`{pods}` asks for a topology, and flavor `{offer.flavor}` has none"
    if asks.level and asks.level not in offer.levels:
        return f"`{pods}` asks for a level {asks.level}, which the topology of flavor `{offer.flavor}` does not have"
    return ""


_MOST = 2**31 - 1
Key = tuple[str, ...]
"""What a narrowest place is known by: the host name, the same in all topologies, or the values of all levels."""


@dataclass(frozen=True, eq=False, slots=True)
class Machine:
    """A Node that takes pods.

    Attributes:
        name: of the Node.
        labels: all that it carries.
        taints: of all effects.
        allocatable: what it has for pods, their number (`pods`) included.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Body, ...]
    allocatable: Requests


@dataclass(eq=False, slots=True)
class Place:
    """A rack, a node.

    Attributes:
        values: of the labels of all levels down to its own.
        inner: the places right below it; none of the narrowest.
        machine: the node, if the narrowest places are nodes.
        capacity: of a narrowest place what all its nodes have.
    """

    values: tuple[str, ...]
    inner: list[Place] = field(default_factory=list)
    machine: Machine | None = None
    capacity: dict[str, int] = field(default_factory=dict)


class Places:
    """The places of a flavor's nodes."""

    def __init__(self, levels: Sequence[str], machines: Iterable[Machine]) -> None:
        self.levels = tuple(levels)
        self.at: list[dict[tuple[str, ...], Place]] = [{} for _ in levels]
        self.narrowest: dict[Key, Place] = {}
        for machine in machines:
            self._add(machine)

    @property
    def are_nodes(self) -> bool:
        """Whether the narrowest places are single nodes: only then are selectors and taints compared."""
        return self.levels[-1] == HOSTNAME

    def key(self, place: Place) -> Key:
        """Of a narrowest place."""
        return place.values[-1:] if self.are_nodes else place.values

    def _add(self, machine: Machine) -> None:
        values = tuple(machine.labels[level] for level in self.levels)
        leaf = self.narrowest.get(values[-1:] if self.are_nodes else values) or self._place(values)
        self.narrowest[self.key(leaf)] = leaf
        leaf.machine = leaf.machine or (machine if self.are_nodes else None)
        _gain(leaf.capacity, machine.allocatable)

    def _place(self, values: tuple[str, ...]) -> Place:
        """The place with these values; it and those around it are made if they are not there yet."""
        known = self.at[len(values) - 1]
        if values not in known:
            known[values] = Place(values)
            if len(values) > 1:
                self._place(values[:-1]).inner.append(known[values])
        return known[values]


def _gain(sums: dict[str, int], more: Requests) -> None:
    for name, amount in more.items():
        sums[name] = sums.get(name, 0) + amount


def times(requests: Requests, capacity: Requests) -> int:
    """Return how often requests fit, which is never without any (kueue v0.19.2 pkg/resources/requests.go `CountIn`)."""
    counts = (max(capacity.get(name, 0) // each, 0) if each else _MOST for name, each in requests.items())
    return min(counts, default=0)
