"""The Nodes that Kueue places pods on by topology, without the room that other pods occupy.

Source: kueue v0.19.2 pkg/cache/scheduler/tas_nodes_cache.go, scheduling_simulator_default.go, pkg/util/tas/node.go.
Kueue subtracts the requests of all bound pods without a topology annotation, and one of the Node's `pods` for each:
pkg/cache/scheduler/tas_non_tas_pod_cache.go `updatePodUsage`, pkg/controller/tas/non_tas_usage_controller.go
`belongsToNonTASCache`, pkg/util/tas/tas.go `IsTAS`; the same in v0.18.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from generator.facts.names import HOSTNAME, PODSET_PREFIX, QUEUE_NAME
from generator.manifests import Body, Manifest
from generator.objects.amounts import Requests, requested
from generator.objects.fields import mapping, mappings, string, string_map
from generator.objects.selectors import find_untolerated_taint, meets_requirements
from generator.simulate.kueue.podsets import PodSet, Surroundings, requests, surroundings
from generator.simulate.kueue.queues import Flavor
from generator.simulate.kueue.topology import Machine

_DAEMON_TOLERATIONS: tuple[Body, ...] = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)
_HOST_NETWORK: Body = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}
_QUEUED = ("kueue.x-k8s.io/podset", "kueue.x-k8s.io/cluster-queue-name", QUEUE_NAME)
"""Labels of pods that are of a job which Kueue admitted: they are gone while the queues are idle."""
_ENDED = ("Succeeded", "Failed")


def taken(manifests: Sequence[Manifest], machines: Sequence[Machine]) -> Mapping[str, Requests]:
    """Return what pods take of each Node, by its name; `pods` is their number.

    Raises:
        SimulationError: an amount is no quantity.
        NotModelledError: a DaemonSet tolerates taints by comparing numbers.
    """
    found: dict[str, dict[str, int]] = {}
    running: set[tuple[str, str, str]] = set()
    bare = Surroundings(overheads=surroundings(manifests, "").overheads)
    for manifest in manifests:
        node = string(mapping(manifest.body, "spec").get("nodeName"))
        if (manifest.group, manifest.kind) == ("", "Pod") and node and not _has_ended(manifest):
            running |= {(manifest.namespace, name, node) for name in _daemon_sets(manifest)}
            if not _is_of_a_job(manifest):
                _add(
                    found.setdefault(node, {}), requests(dict(mapping(manifest.body, "spec")), bare, manifest.resource)
                )
    known: dict[str, Surroundings] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) != ("apps", "DaemonSet"):
            continue
        if manifest.namespace not in known:
            known[manifest.namespace] = surroundings(manifests, manifest.namespace)
        pod = dict(mapping(manifest.body, "spec", "template", "spec"))
        asked = requests(pod, known[manifest.namespace], manifest.resource)
        for machine in machines:
            is_there = (manifest.namespace, manifest.name, machine.name) in running
            if not is_there and _runs_on(pod, machine):
                _add(found.setdefault(machine.name, {}), asked)
    return found


def _has_ended(pod: Manifest) -> bool:
    return mapping(pod.body, "status").get("phase") in _ENDED


def _is_of_a_job(pod: Manifest) -> bool:
    metadata = mapping(pod.body, "metadata")
    is_queued = any(name in mapping(metadata, "labels") for name in _QUEUED)
    return is_queued or any(str(name).startswith(PODSET_PREFIX) for name in mapping(metadata, "annotations"))


def _daemon_sets(pod: Manifest) -> Iterator[str]:
    for owner in mappings(mapping(pod.body, "metadata").get("ownerReferences")):
        if owner.get("kind") == "DaemonSet":
            yield string(owner.get("name"))


def _runs_on(pod: Mapping[str, object], machine: Machine) -> bool:
    """Return True if the DaemonSet controller runs a pod on a Node."""
    required = mapping(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    network = (_HOST_NETWORK,) if pod.get("hostNetwork") is True else ()
    tolerations = (*mappings(pod.get("tolerations")), *_DAEMON_TOLERATIONS, *network)
    name, terms = string(pod.get("nodeName")), mappings(required.get("nodeSelectorTerms"))
    return (
        name in ("", machine.name)
        and string_map(pod.get("nodeSelector")).items() <= machine.labels.items()
        and (not required or any(matches(term, machine) for term in terms))
        and find_untolerated_taint(machine.taints, tolerations) is None
    )


def matches(term: Body, machine: Machine) -> bool:
    """Return True if a node selector term matches a Node; a term without a requirement matches none."""
    expressions, fields = mappings(term.get("matchExpressions")), mappings(term.get("matchFields"))
    return (
        bool(expressions or fields)
        and meets_requirements(expressions, machine.labels)
        and meets_requirements(fields, {"metadata.name": machine.name})
    )


def _add(sums: dict[str, int], more: Requests) -> None:
    for name, amount in (*more.items(), ("pods", 1)):
        sums[name] = sums.get(name, 0) + amount


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
            labels=string_map(mapping(each.body, "metadata", "labels")),
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
        find_untolerated_taint(machine.taints, (*pods.tolerations, *flavor.tolerations)) is None
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
