"""The nodes of flavors: the pods that match these nodes, and the number of pods that the nodes hold.

A ResourceFlavor declares labels and taints of its nodes: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go
FlavorAssigner.checkFlavorForPodSets; kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go flavorSelector.
Annotations of mpigen add the number and the size of the nodes. Kueue
compares a node selector only with labels that the flavor sets, because the nodes may have further labels.

If a flavor has a topology, Kueue places pods on Nodes: kueue v0.19.2 pkg/cache/scheduler/tas_nodes_cache.go; kueue
v0.19.2 pkg/cache/scheduler/scheduling_simulator_default.go; kueue v0.19.2 pkg/util/tas/node.go. It subtracts the
requests of all bound pods without
a topology
annotation, and one of the Node's `pods` for each of these pods: kueue v0.19.2
pkg/cache/scheduler/tas_non_tas_pod_cache.go nonTasUsageCache.updatePodUsage; kueue v0.19.2
pkg/controller/tas/non_tas_usage_controller.go belongsToNonTASCache; kueue v0.19.2 pkg/util/tas/tas.go IsTAS;
the same in v0.18.3.

A DaemonSet runs a pod on a Node that its node selector and affinity match and whose taints it tolerates: kubernetes
v1.34.2 pkg/controller/daemon/daemon_controller.go predicates; kubernetes v1.34.2
pkg/controller/daemon/util/daemonset_util.go AddOrUpdateDaemonPodTolerations. If the manifests contain this pod, its
requests count instead of the template's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from generator.facts.names import HOSTNAME, PODSET_PREFIX, QUEUE_NAME
from generator.manifests import Body, Manifest
from generator.objects.fields import mapping, mappings, string, string_map
from generator.objects.queue import Flavor, Requests, add_requests, format_amount, parse_amounts
from generator.upstream.kubernetes.pod_requests import Defaults, pod_requests, read_defaults
from generator.upstream.kubernetes.selectors import find_untolerated_taint, format_taint, meets_requirements
from generator.upstream.kueue.podsets import PodSet, group_podsets
from generator.upstream.kueue.topology import Machine, TopologyMode


def explain_flavor_mismatch(pods: PodSet, flavor: Flavor) -> str:
    """Return why pods cannot run on the nodes of a flavor, by taints, node selector and affinity; empty if they can.

    Raises:
        NotModelledError: a toleration compares numbers.
    """
    taint = find_untolerated_taint(flavor.taints, (*pods.tolerations, *flavor.tolerations))
    if taint is not None:
        return f"the pods `{pods.name}` do not tolerate the taint {format_taint(taint)} of flavor `{flavor.name}`"
    for key, value in sorted(pods.node_selector.items()):
        if flavor.labels.get(key, value) != value:
            label = f"{key}={flavor.labels[key]}"
            return f"the pods `{pods.name}` select nodes with {key}={value}, but flavor `{flavor.name}` has {label}"
    if not _matches_affinity(pods.affinity, flavor):
        return f"the node affinity of the pods `{pods.name}` excludes flavor `{flavor.name}`"
    return ""


def _matches_affinity(terms: tuple[Body, ...], flavor: Flavor) -> bool:
    """Return True if one of the terms of a node affinity can match nodes of the flavor.

    Requirements on labels that the flavor does not set are ignored, because the nodes may have these labels.
    """
    requirements = [
        [item for item in mappings(term.get("matchExpressions")) if item.get("key") in flavor.labels] for term in terms
    ]
    return not requirements or any(not items or meets_requirements(items, flavor.labels) for items in requirements)


@dataclass(slots=True)
class _EqualNodes:
    """A number of nodes with the same free resources."""

    count: int
    free: dict[str, int]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The nodes of a flavor that cannot hold the pods of a job. `is_one` is True if all pods must be on one node."""

    flavor: str
    nodes: int | None
    is_one: bool


def find_missing_room(flavor: Flavor, podsets: Sequence[PodSet]) -> NoRoom | None:
    """Return the nodes of a flavor if they cannot hold the pods of a job even while idle.

    Return None if the nodes hold the pods, or if the nodes are unknown. Pods that must be on one node get one node.
    """
    flavors = list_reachable(flavor, podsets)
    for _, group in group_podsets(podsets):
        singles = [limit_to_one_node(item, group) for item in flavors]
        if singles[0] is not flavor and not any(has_room([single], _amounts(group)) for single in singles):
            return NoRoom(flavor.name, 1, is_one=True)
    if has_room(flavors, _amounts(podsets)):
        return None
    return NoRoom(flavor.name, sum(item.nodes or 0 for item in flavors), is_one=False)


def _amounts(podsets: Iterable[PodSet]) -> list[tuple[int, Requests]]:
    return [(podset.count, podset.requests) for podset in podsets]


def list_reachable(flavor: Flavor, podsets: Sequence[PodSet]) -> list[Flavor]:
    """Return the flavor, and the other flavors on whose nodes some of its pods can run.

    Kueue adds the node labels and the tolerations of the flavor to the pods. So the pods can also run on nodes of
    another flavor that has these labels, and whose taints they tolerate.
    """
    others = (replace(other, tolerations=flavor.tolerations) for other in flavor.neighbors)
    return [flavor, *(other for other in others if not all(explain_flavor_mismatch(pods, other) for pods in podsets))]


def limit_to_one_node(flavor: Flavor, group: Sequence[PodSet]) -> Flavor:
    """Return the flavor with one node if a PodSet group must be on one node; else the same object."""
    topologies = [pods.topology for pods in group if pods.topology]
    is_on_one = any(item.mode is TopologyMode.REQUIRED and item.level == HOSTNAME for item in topologies)
    return replace(flavor, nodes=1) if is_on_one and flavor.topology and flavor.nodes else flavor


def explain_oversize(flavors: Iterable[Flavor], pods: PodSet) -> str:
    """Return why no node of these flavors holds a single pod; empty if a node does, or if the nodes are unknown.

    Flavors whose nodes lack a device that the pods request are ignored.
    """
    requests = {name: amount for name, amount in pods.requests.items() if amount}
    devices = [name for name in requests if "/" in name]
    reachable = [item for flavor in flavors for item in list_reachable(flavor, [pods])]
    suitable = [item for item in reachable if not item.allocatable or all(map(item.allocatable.get, devices))]
    if not suitable or any(fit_on_one(flavor, requests) != 0 for flavor in suitable):
        return ""
    flavor = suitable[0]
    exceeded = [name for name in (*devices, *requests) if requests[name] > flavor.allocatable.get(name, requests[name])]
    has, takes = (format_amount(exceeded[0], amounts[exceeded[0]]) for amounts in (flavor.allocatable, requests))
    return f"pods of job `{pods.name}` request {takes} {exceeded[0]}, and a node of flavor `{flavor.name}` has {has}"


def has_room(flavors: Sequence[Flavor], pods: Sequence[tuple[int, Requests]]) -> bool:
    """Return True if the idle nodes of flavors hold these (number of pods, requests), or if some nodes are unknown.

    The largest pods are placed first, each on the first node with room. For equal worker pods, no order is better.
    """
    nodes = [_EqualNodes(flavor.nodes, dict(flavor.allocatable)) for flavor in flavors if flavor.nodes is not None]
    if len(nodes) < len(flavors) or not all(flavor.allocatable for flavor in flavors):
        return True
    by_size = sorted(pods, key=lambda pair: -_share_of_node(pair[1], flavors[0]))
    return all(_occupy(nodes, count, requests) for count, requests in by_size)


def fit_on_one(flavor: Flavor, requests: Requests) -> int | None:
    """Return how many pods an idle node of a flavor holds; None if its size is unknown, or if no resource limits it."""
    return _count_in(flavor.allocatable, requests) if flavor.allocatable else None


def _share_of_node(requests: Requests, flavor: Flavor) -> float:
    return max((amount / (flavor.allocatable.get(name) or 1) for name, amount in requests.items()), default=0)


def _count_in(free: Requests, requests: Requests) -> int | None:
    """Return how many pods with these requests fit into free resources; None if no resource limits them.

    A resource that the node does not list counts only if it is a device.
    """
    known = {name: amount for name, amount in requests.items() if amount and (name in free or "/" in name)}
    return min((max(free.get(name, 0), 0) // amount for name, amount in known.items()), default=None)


def _occupy(nodes: list[_EqualNodes], count: int, requests: Requests) -> bool:
    """Place pods on the nodes, in order; return True if all pods have room."""
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
    """Place `per_node` pods on each of `number` nodes of `equal`, and add these nodes to `nodes` as a new item."""
    if number:
        equal.count -= number
        free = {name: amount - requests.get(name, 0) * per_node for name, amount in equal.free.items()}
        nodes.insert(nodes.index(equal), _EqualNodes(number, free))


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
"""Labels of pods that Kueue admitted. Such pods do not run while the queues are idle."""
_MANY = 1_000_000  # the resource `pods` of a node that does not declare it


def read_machines(manifests: Iterable[Manifest]) -> tuple[Machine, ...]:
    """Return the Nodes that are ready and schedulable, with the resources that jobs of Kueue can use.

    These resources are the allocatable resources minus the requests of all other pods on the Node. A Node without
    conditions, as in a file written by hand, counts as ready.

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
    """Return Node → resource → amount in use by pods that Kueue did not admit; `pods` is the number of these pods."""
    used: dict[str, dict[str, int]] = {}
    running: set[tuple[str, str, str]] = set()
    bare = Defaults(overheads=read_defaults(manifests, "").overheads)
    for manifest in manifests:
        node = string(mapping(manifest.body, "spec").get("nodeName"))
        is_terminated = mapping(manifest.body, "status").get("phase") in ("Succeeded", "Failed")
        if (manifest.group, manifest.kind) == ("", "Pod") and node and not is_terminated:
            running |= {(manifest.namespace, name, node) for name in _owning_daemon_sets(manifest)}
            if not _is_of_job(manifest):
                amounts = pod_requests(dict(mapping(manifest.body, "spec")), bare, manifest.resource)
                add_requests(used.setdefault(node, {}), {**amounts, "pods": 1})
    defaults: dict[str, Defaults] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) != ("apps", "DaemonSet"):
            continue
        if manifest.namespace not in defaults:
            defaults[manifest.namespace] = read_defaults(manifests, manifest.namespace)
        pod = dict(mapping(manifest.body, "spec", "template", "spec"))
        amounts = pod_requests(pod, defaults[manifest.namespace], manifest.resource)
        for machine in nodes:
            is_running = (manifest.namespace, manifest.name, machine.name) in running
            if not is_running and _runs_on(pod, machine):
                add_requests(used.setdefault(machine.name, {}), {**amounts, "pods": 1})
    return used


def _is_of_job(pod: Manifest) -> bool:
    metadata = mapping(pod.body, "metadata")
    is_queued = any(name in mapping(metadata, "labels") for name in _QUEUED)
    return is_queued or any(str(name).startswith(PODSET_PREFIX) for name in mapping(metadata, "annotations"))


def _owning_daemon_sets(pod: Manifest) -> Iterator[str]:
    for owner in mappings(mapping(pod.body, "metadata").get("ownerReferences")):
        if owner.get("kind") == "DaemonSet":
            yield string(owner.get("name"))


def _runs_on(pod: Mapping[str, object], machine: Machine) -> bool:
    """Return True if the DaemonSet controller runs a pod with this spec on a Node."""
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
    """Return True if a node has the labels of a flavor, and a label for each level of its topology.

    Kueue calls this `NodeMatchesFlavor`.
    """
    return flavor.labels.items() <= machine.labels.items() and all(level in machine.labels for level in flavor.levels)


def is_feasible(machine: Machine, pods: PodSet, flavor: Flavor) -> bool:
    """Return True if taints, node selector and affinity allow pods on an idle node (`FindFeasibleNodes`).

    Raises:
        NotModelledError: a toleration compares numbers.
    """
    return (
        find_untolerated_taint(machine.taints, (*pods.tolerations, *flavor.tolerations)) is None
        and pods.node_selector.items() <= machine.labels.items()
        and (not pods.affinity or any(_matches(term, machine) for term in pods.affinity))
    )


def generic_machines(flavor: Flavor) -> tuple[Machine, ...]:
    """Return as many equal nodes as a flavor declares, all in one rack, block and so on.

    Use these nodes only to count pods, because their real domains are unknown. The result is empty if the flavor does
    not declare its nodes, or if the lowest level of its topology is not `kubernetes.io/hostname`.
    """
    if not flavor.nodes or not flavor.allocatable or flavor.levels[-1] != HOSTNAME:
        return ()
    domain = dict.fromkeys(flavor.levels, flavor.name)
    allocatable = {"pods": _MANY, **flavor.allocatable}
    names = [f"{flavor.name}-{number}" for number in range(flavor.nodes)]
    return tuple(Machine(name, {**flavor.labels, **domain, HOSTNAME: name}, (), allocatable) for name in names)
