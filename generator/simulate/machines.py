"""The nodes that Kueue places pods on by topology.

kueue v0.19.2 pkg/cache/scheduler/tas_nodes_cache.go, scheduling_simulator_default.go; pkg/util/tas/node.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from generator.facts.names import HOSTNAME
from generator.manifests import Body, Manifest
from generator.simulate.amounts import Requests, requested
from generator.simulate.fields import labels, mapping, mappings
from generator.simulate.places import Machine
from generator.simulate.podsets import PodSet
from generator.simulate.queues import Flavor
from generator.simulate.residents import matches, taken
from generator.simulate.selectors import untolerated

_MANY = 1_000_000
"""Pods that a node takes of which nobody says how many it takes."""


def machines(manifests: Iterable[Manifest]) -> tuple[Machine, ...]:
    """Return the Nodes among manifests, with the room that pods leave which Kueue does not place.

    A Node without conditions, as in a file written by hand, counts as ready.

    Raises:
        SimulationError: an amount is no quantity.
        NotModelledError: a DaemonSet tolerates taints by comparing numbers.
    """
    everything = list(manifests)
    found = [
        Machine(
            name=each.name,
            labels=labels(mapping(each.body, "metadata", "labels")),
            taints=mappings(mapping(each.body, "spec").get("taints")),
            allocatable=requested(mapping(each.body, "status").get("allocatable"), each.resource),
        )
        for each in everything
        if (each.group, each.kind) == ("", "Node") and _takes_pods(each.body)
    ]
    used = taken(everything, found) if found else {}
    return tuple(replace(each, allocatable=_left(each.allocatable, used.get(each.name, {}))) for each in found)


def _left(allocatable: Requests, used: Requests) -> Requests:
    return {name: amount - used.get(name, 0) for name, amount in allocatable.items()}


def _takes_pods(body: Body) -> bool:
    conditions = mappings(mapping(body, "status").get("conditions"))
    is_ready = any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions)
    return (is_ready or not conditions) and mapping(body, "spec").get("unschedulable") is not True


def is_of(machine: Machine, flavor: Flavor) -> bool:
    """Whether a node is one of a flavor, and has a place in its topology (`NodeMatchesFlavor`)."""
    return flavor.labels.items() <= machine.labels.items() and all(level in machine.labels for level in flavor.levels)


def takes(machine: Machine, pods: PodSet, flavor: Flavor) -> bool:
    """Whether pods may go to a node (`FindFeasibleNodes`).

    Raises:
        NotModelledError: a toleration compares numbers.
    """
    return (
        untolerated(machine.taints, (*pods.tolerations, *flavor.tolerations)) is None
        and pods.node_selector.items() <= machine.labels.items()
        and (not pods.affinity or any(matches(term, machine) for term in pods.affinity))
    )


def alike(flavor: Flavor) -> tuple[Machine, ...]:
    """As many nodes as a flavor says that it has, all in one place: good for nothing but to count them.

    None where it does not say what they have, or where Kueue does not look at single nodes.
    """
    if not flavor.nodes or not flavor.allocatable or flavor.levels[-1] != HOSTNAME:
        return ()
    around = dict.fromkeys(flavor.levels, flavor.name)
    allocatable = {"pods": _MANY, **flavor.allocatable}
    names = [f"{flavor.name}-{number}" for number in range(flavor.nodes)]
    return tuple(Machine(name, {**flavor.labels, **around, HOSTNAME: name}, (), allocatable) for name in names)
