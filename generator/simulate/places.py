"""The places of a topology, from the widest to single nodes, and what each has.

kueue v0.19.2 pkg/cache/scheduler/tas_topology_tree.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from generator.facts.names import HOSTNAME
from generator.manifests import Body
from generator.simulate.amounts import Requests

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
