"""The Nodes that Kueue places pods on by topology, without the room that other pods occupy.

Source: kueue v0.19.2 pkg/cache/scheduler/tas_nodes_cache.go, scheduling_simulator_default.go, pkg/util/tas/node.go.
Kueue subtracts the requests of all bound pods without a topology annotation, and one of the Node's `pods` for each:
pkg/cache/scheduler/tas_non_tas_pod_cache.go `updatePodUsage`, pkg/controller/tas/non_tas_usage_controller.go
`belongsToNonTASCache`, pkg/util/tas/tas.go `IsTAS`; the same in v0.18.3.

A DaemonSet runs a pod on a Node that its node selector and affinity match and whose taints it tolerates: kubernetes
v1.34.2 pkg/controller/daemon/daemon_controller.go `predicates`, util/daemonset_util.go
`AddOrUpdateDaemonPodTolerations`. If the pod is among the manifests, it counts instead of the template.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from generator.facts.names import HOSTNAME, PODSET_PREFIX, QUEUE_NAME
from generator.manifests import Body, Manifest
from generator.objects.amounts import Requests, add_requests, parse_amounts
from generator.objects.fields import mapping, mappings, string, string_map
from generator.objects.queue import Flavor
from generator.objects.selectors import find_untolerated_taint, meets_requirements
from generator.simulate.kueue.podsets import PodContext, PodSet, pod_requests, read_pod_context
from generator.simulate.kueue.topology import Machine

_DAEMON_TOLERATIONS: tuple[Body, ...] = tuple(
    {"key": f"node.kubernetes.io/{condition}", "operator": "Exists", "effect": effect}
    for condition, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_HOST_NETWORK: Body = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}
_QUEUED = ("kueue.x-k8s.io/podset", "kueue.x-k8s.io/cluster-queue-name", QUEUE_NAME)
"""Labels of pods of a job that Kueue admitted: they are gone while the queues are idle."""
_MANY = 1_000_000  # pods of a node whose limit is unknown


def read_machines(manifests: Iterable[Manifest]) -> tuple[Machine, ...]:
    """Return the Nodes among manifests, with the room that pods leave which Kueue does not place.

    A Node without conditions, as in a file written by hand, counts as ready.

    Raises:
        SimulationError: an amount is not a quantity.
        NotModelledError: a DaemonSet tolerates taints by comparing numbers.
    """
    objects = list(manifests)
    nodes = [
        Machine(
            name=node.name,
            labels=string_map(mapping(node.body, "metadata", "labels")),
            taints=mappings(mapping(node.body, "spec").get("taints")),
            allocatable=parse_amounts(mapping(node.body, "status").get("allocatable"), node.resource),
        )
        for node in objects
        if (node.group, node.kind) == ("", "Node") and _accepts_pods(node.body)
    ]
    used = _sum_usage(objects, nodes) if nodes else {}
    return tuple(replace(node, allocatable=_subtract(node.allocatable, used.get(node.name, {}))) for node in nodes)


def _subtract(allocatable: Requests, used: Requests) -> Requests:
    return {name: amount - used.get(name, 0) for name, amount in allocatable.items()}


def _accepts_pods(body: Body) -> bool:
    conditions = mappings(mapping(body, "status").get("conditions"))
    is_ready = any((item.get("type"), item.get("status")) == ("Ready", "True") for item in conditions)
    return (is_ready or not conditions) and mapping(body, "spec").get("unschedulable") is not True


def _sum_usage(manifests: Sequence[Manifest], nodes: Sequence[Machine]) -> Mapping[str, Requests]:
    """Return what pods use of each Node; `pods` is their number."""
    used: dict[str, dict[str, int]] = {}
    running: set[tuple[str, str, str]] = set()
    bare = PodContext(overheads=read_pod_context(manifests, "").overheads)
    for manifest in manifests:
        node = string(mapping(manifest.body, "spec").get("nodeName"))
        if (manifest.group, manifest.kind) == ("", "Pod") and node and not _is_terminated(manifest):
            running |= {(manifest.namespace, name, node) for name in _owning_daemon_sets(manifest)}
            if not _is_of_job(manifest):
                amounts = pod_requests(dict(mapping(manifest.body, "spec")), bare, manifest.resource)
                add_requests(used.setdefault(node, {}), {**amounts, "pods": 1})
    contexts: dict[str, PodContext] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) != ("apps", "DaemonSet"):
            continue
        if manifest.namespace not in contexts:
            contexts[manifest.namespace] = read_pod_context(manifests, manifest.namespace)
        pod = dict(mapping(manifest.body, "spec", "template", "spec"))
        amounts = pod_requests(pod, contexts[manifest.namespace], manifest.resource)
        for machine in nodes:
            is_running = (manifest.namespace, manifest.name, machine.name) in running
            if not is_running and _runs_on(pod, machine):
                add_requests(used.setdefault(machine.name, {}), {**amounts, "pods": 1})
    return used


def _is_terminated(pod: Manifest) -> bool:
    return mapping(pod.body, "status").get("phase") in ("Succeeded", "Failed")


def _is_of_job(pod: Manifest) -> bool:
    metadata = mapping(pod.body, "metadata")
    is_queued = any(name in mapping(metadata, "labels") for name in _QUEUED)
    return is_queued or any(str(name).startswith(PODSET_PREFIX) for name in mapping(metadata, "annotations"))


def _owning_daemon_sets(pod: Manifest) -> Iterator[str]:
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
        and (not required or any(_matches(term, machine) for term in terms))
        and find_untolerated_taint(machine.taints, tolerations) is None
    )


def _matches(term: Body, machine: Machine) -> bool:
    """Return True if a node selector term matches a Node; a term without a requirement matches none."""
    expressions, fields = mappings(term.get("matchExpressions")), mappings(term.get("matchFields"))
    return (
        bool(expressions or fields)
        and meets_requirements(expressions, machine.labels)
        and meets_requirements(fields, {"metadata.name": machine.name})
    )


def is_of_flavor(machine: Machine, flavor: Flavor) -> bool:
    """Return True if a node has a flavor and all levels of its topology (`NodeMatchesFlavor`)."""
    return flavor.labels.items() <= machine.labels.items() and all(level in machine.labels for level in flavor.levels)


def is_feasible(machine: Machine, pods: PodSet, flavor: Flavor) -> bool:
    """Return True if the scheduler can place pods on a node (`FindFeasibleNodes`).

    Raises:
        NotModelledError: a toleration compares numbers.
    """
    return (
        find_untolerated_taint(machine.taints, (*pods.tolerations, *flavor.tolerations)) is None
        and pods.node_selector.items() <= machine.labels.items()
        and (not pods.affinity or any(_matches(term, machine) for term in pods.affinity))
    )


def generic_machines(flavor: Flavor) -> tuple[Machine, ...]:
    """Return the number of nodes that a flavor declares, all in one domain, for counting only.

    The result is empty if the flavor does not declare their resources, or if Kueue does not look at single nodes.
    """
    if not flavor.nodes or not flavor.allocatable or flavor.levels[-1] != HOSTNAME:
        return ()
    domain = dict.fromkeys(flavor.levels, flavor.name)
    allocatable = {"pods": _MANY, **flavor.allocatable}
    names = [f"{flavor.name}-{number}" for number in range(flavor.nodes)]
    return tuple(Machine(name, {**flavor.labels, **domain, HOSTNAME: name}, (), allocatable) for name in names)
