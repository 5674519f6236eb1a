"""The workloads of a cluster as it is, from exported Workloads: some hold quota, and others wait.

Source: kueue v0.19.2 pkg/workload/workload.go totalRequestsFromAdmission, IsAdmissible,
Ordering.GetQueueOrderTimestamp; kueue v0.19.2 pkg/cache/queue/cluster_queue.go baseCompareFunc; kueue v0.19.2
pkg/util/tas/tas_assignment.go InternalSeqFrom.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from generator.errors import NotModelledError, Problem, SimulationError
from generator.manifests import Manifest
from generator.objects.conditions import conditions_of, created
from generator.objects.fields import integer, mapping, mappings, string, string_map, strings
from generator.objects.queue import Amounts, FlavorResource, format_amount, parse_amounts
from generator.objects.training import KUEUE
from generator.upstream.kubernetes.pod_requests import pod_requests, read_defaults
from generator.upstream.kueue.flavor_assigner import Assignment, Choice, Mode
from generator.upstream.kueue.placement import Occupancy
from generator.upstream.kueue.podsets import podset_of, read_pod_context
from generator.upstream.kueue.queues import QueueTree, build_quota_tree
from generator.upstream.kueue.workloads import Job, Workload

EXPORT = "kubectl get clusterqueues,localqueues,workloads --all-namespaces -o yaml"
"""The command that prints the cluster as it is."""
_PLACED = "kubectl get clusterqueues,localqueues,workloads,nodes,pods --all-namespaces -o yaml"
"""The command if Kueue places pods by topology: it subtracts the requests of all other pods from the nodes."""
_BOOST = "kueue.x-k8s.io/priority-boost"
_MOST_DOMAINS = 100_000
"""The most domains of a slice (kueue v0.19.2 apis/kueue/v1beta2/workload_types.go)."""


def read_present(
    export: Collection[Manifest],
    world: Sequence[Manifest],
    tree: QueueTree,
    queues: Collection[str],
    jobs: Collection[str],
) -> list[Workload]:
    """Return the workloads that hold quota or wait in the ClusterQueues that share quota with some ClusterQueues.

    A workload is called `NAMESPACE/NAME` of its TrainJob; without a TrainJob, of its Workload.

    Args:
        export: the objects of the cluster as it is: ClusterQueues with their status, and Workloads.
        world: all objects of the cluster, for the settings of namespaces.
        tree: the queues.
        queues: the names of these ClusterQueues.
        jobs: the names of the submitted jobs.

    Raises:
        NotModelledError: the export lacks an object, it has one of the submitted jobs, or its queues or workloads have
            a setting that is not simulated.
        SimulationError: an amount is not a quantity.
    """
    if any(tree.is_folded(tree.queues[name]) for name in queues if name in tree.queues):
        message = "the catalogue of a team leaves out the queues of other teams"
        fix = "leave out `--usage`, or ask a platform admin, who has the release with all queues"
        raise NotModelledError((Problem(message, fix),))
    names = _sharing(tree, queues)
    items = {item.resource: item for item in export if (item.group, item.kind) == (KUEUE, "Workload")}
    queued = [(item, _queue_of(item, tree, export)) for item in items.values() if not _is_over(item)]
    near = [(item, name) for item, name in queued if name in names]
    _require_known(near, jobs, tree)
    _require_all(export, near, tree, names)
    _require_nodes(export, tree, names)
    near = [(item, name) for item, name in near if _reserved_since(item) or _is_queued(item)]
    near.sort(key=lambda pair: (_queued_since(pair[0]), _uid(pair[0])))
    ranks = _ranks([item for item, _ in near if _reserved_since(item)])
    return [
        Workload(
            Job(name_of(item), name, _podsets(item, world, tree), _priority(item), item.namespace),
            number,
            _assignment(item, world) if item.resource in ranks else None,
            ranks.get(item.resource, 0),
        )
        for number, (item, name) in enumerate(near)
    ]


def _ranks(items: Iterable[Manifest]) -> dict[str, int]:
    """Return Workload → its number in the order of admission, from 1.

    Of Workloads that were admitted in the same second, the one with the smallest UID counts as the last, because Kueue
    preempts it first (kueue v0.19.2 pkg/scheduler/preemption/common/ordering.go CandidatesOrdering).
    """
    ordered = sorted(sorted(items, key=_uid, reverse=True), key=_reserved_since)
    return {item.resource: number for number, item in enumerate(ordered, start=1)}


def name_of(workload: Manifest) -> str:
    """Return `NAMESPACE/NAME` of the TrainJob of a Workload, else of the Workload."""
    owners = mappings(mapping(workload.body, "metadata").get("ownerReferences"))
    owner = next((string(owner.get("name")) for owner in owners if owner.get("kind") == "TrainJob"), workload.name)
    return f"{workload.namespace}/{owner}"


def _sharing(tree: QueueTree, queues: Collection[str]) -> set[str]:
    """Return the names of the ClusterQueues below the roots of some ClusterQueues."""
    nodes = build_quota_tree(tree)
    roots = {nodes[name].root() for name in queues if name in nodes}
    return {name for name, node in nodes.items() if node.root() in roots}


def _queue_of(item: Manifest, tree: QueueTree, export: Collection[Manifest]) -> str:
    """Return the ClusterQueue whose quota a Workload holds or waits for; empty if it has none.

    Raises:
        NotModelledError: no file has its LocalQueue.
    """
    if held := string(mapping(item.body, "status", "admission").get("clusterQueue")):
        return held
    name = string(mapping(item.body, "spec").get("queueName"))
    queues = [local.queue for local in tree.local_queues if (local.namespace, local.name) == (item.namespace, name)]
    if not queues and _is_queued(item) and not any(other.kind == "LocalQueue" for other in export):
        message = f"no file has the LocalQueue `{item.namespace}/{name}` of `{name_of(item)}`"
        raise NotModelledError((Problem(message, f"export the LocalQueues too: `{EXPORT}`"),))
    return next(iter(queues), "")


def _is_over(item: Manifest) -> bool:
    finished = conditions_of(item).get("Finished")
    return bool(finished and finished.is_true)


def _is_pending(item: Manifest) -> bool:
    """Return True if a ClusterQueue counts a Workload as pending (`IsAdmissible`)."""
    replaced, reserved = map(conditions_of(item).get, ("WaitingForReplacementPods", "QuotaReserved"))
    is_held = bool(reserved and (reserved.is_true or reserved.reason in ("OnHold", "AdmissionGated")))
    is_replacing = bool(replaced and replaced.is_true)
    return mapping(item.body, "spec").get("active") is not False and not (is_held or is_replacing)


def _is_queued(item: Manifest) -> bool:
    """Return True if Kueue tries to admit a pending Workload, and does not wait after an eviction.

    Source: kueue v0.19.2 pkg/cache/queue/cluster_queue.go ClusterQueue.backoffWaitingTimeExpired
    """
    requeued = conditions_of(item).get("Requeued")
    return _is_pending(item) and not (requeued and not requeued.is_true)


def _queued_since(item: Manifest) -> str:
    """Return the time by which Kueue orders pending workloads of one priority (`GetQueueOrderTimestamp`)."""
    evicted = conditions_of(item).get("Evicted")
    is_later = evicted and evicted.is_true and evicted.reason in ("PodsReadyTimeout", "AdmissionCheck")
    return evicted.since if evicted and is_later else created(item)


def _uid(item: Manifest) -> str:
    return string(mapping(item.body, "metadata").get("uid"))


def _reserved_since(item: Manifest) -> str:
    reserved = conditions_of(item).get("QuotaReserved")
    return reserved.since if reserved and reserved.is_true else ""


def _priority(item: Manifest) -> int:
    return integer(mapping(item.body, "spec").get("priority"), 0)


def _podsets(item: Manifest, world: Sequence[Manifest], tree: QueueTree) -> tuple[Any, ...]:
    context = read_pod_context(world, item.namespace, tree.settings.counting)
    return tuple(
        podset_of(
            string(pods.get("name")), mapping(pods, "template"), integer(pods.get("count"), 1), context, item.resource
        )
        for pods in mappings(mapping(item.body, "spec").get("podSets"))
    )


def _assignment(item: Manifest, world: Sequence[Manifest]) -> Assignment:
    """Return the flavors, the quota and the nodes that a Workload holds."""
    templates = {
        string(pods.get("name")): dict(mapping(pods, "template", "spec"))
        for pods in mappings(mapping(item.body, "spec").get("podSets"))
    }
    counts = {
        string(pods.get("name")): integer(pods.get("count"), 1)
        for pods in mappings(mapping(item.body, "spec").get("podSets"))
    }
    for pods in mappings(mapping(item.body, "status").get("reclaimablePods")):
        counts[string(pods.get("name"))] = counts.get(string(pods.get("name")), 0) - integer(pods.get("count"), 0)
    gets = Assignment()
    occupancies: list[Occupancy] = []
    for pods in mappings(mapping(item.body, "status", "admission").get("podSetAssignments")):
        name, flavors = string(pods.get("name")), string_map(pods.get("flavors"))
        count = integer(pods.get("count"), counts.get(name, 1))
        running = max(min(count, counts.get(name, count)), 0)
        gets.podsets[name] = {resource: Choice(flavor, Mode.FIT, 0) for resource, flavor in flavors.items()}
        for resource, amount in parse_amounts(pods.get("resourceUsage"), item.resource).items():
            if resource in flavors:
                key = FlavorResource(flavors[resource], resource)
                gets.usage[key] = gets.usage.get(key, 0) + amount // max(count, 1) * running
        if placed := mapping(pods, "topologyAssignment"):
            requests = pod_requests(templates.get(name, {}), read_defaults(world, item.namespace), item.resource)
            flavor = next(iter(flavors.values()), "")
            try:
                domains = [*_domains(placed)]
            except (TypeError, ValueError):
                problem = Problem(f"{item.resource} has a malformed topologyAssignment", "export the Workload again")
                raise SimulationError((problem,)) from None
            occupancies += [Occupancy(flavor, values, name, requests, size) for values, size in domains]
    gets.occupancies = tuple(occupancies)
    return gets


def _domains(placed: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield (label values, number of pods) of each domain of a `topologyAssignment` of v1beta2 or v1beta1."""
    for domain in mappings(placed.get("domains")):  # v1beta1
        yield strings(domain.get("values")), integer(domain.get("count"), 0)
    for part in mappings(placed.get("slices")):
        size = min(integer(part.get("domainCount"), 0), _MOST_DOMAINS)
        levels = [_values(level, size) for level in mappings(part.get("valuesPerLevel"))]
        counts = mapping(part, "podCounts")
        pods = [*(counts.get("individual") or [counts.get("universal", 0)] * size)]
        yield from zip(zip(*levels, strict=True), pods, strict=True)


def _values(level: Mapping[str, Any], size: int) -> list[str]:
    if "universal" in level:
        return [string(level["universal"])] * size
    individual = mapping(level, "individual")
    prefix, suffix = string(individual.get("prefix")), string(individual.get("suffix"))
    return [f"{prefix}{root}{suffix}" for root in strings(individual.get("roots"))]


def _require_known(near: Iterable[tuple[Manifest, str]], jobs: Collection[str], tree: QueueTree) -> None:
    """Require Workloads that are simulated.

    Raises:
        NotModelledError: the cluster has one of the submitted jobs, Kueue is stopping a Workload, or a Workload has a
            setting that is not simulated.
    """
    for item, _ in near:
        name = name_of(item)
        if name in jobs:
            message = f"--usage has a Workload of `{name}` already"
            fix = "for the state of this job use `mpigen job status`; for another job choose another name"
            raise NotModelledError((Problem(message, fix),))
        evicted, ready = map(conditions_of(item).get, ("Evicted", "PodsReady"))
        if evicted and evicted.is_true and _reserved_since(item):
            message = f"Kueue is stopping `{name}` at the time of --usage"
            raise NotModelledError((Problem(message, "export the cluster again when its pods have ended"),))
        if tree.settings.blocks and _reserved_since(item) and not (ready and ready.is_true):
            message = f"Kueue admits no job until the pods of `{name}` are ready, which is not simulated"
            raise NotModelledError((Problem(message, "export the cluster again when its pods are ready"),))
        if _BOOST in mapping(item.body, "metadata", "annotations"):
            raise NotModelledError(
                (Problem(f"`{name}` has the annotation `{_BOOST}`, which mpigen does not simulate"),)
            )


def _require_all(
    export: Collection[Manifest], near: Sequence[tuple[Manifest, str]], tree: QueueTree, names: Collection[str]
) -> None:
    """Compare the quota and the numbers in the status of the ClusterQueues with the Workloads.

    Raises:
        NotModelledError: they differ, or a ClusterQueue is missing or inactive.
    """
    queues = {item.name: item for item in export if (item.group, item.kind) == (KUEUE, "ClusterQueue")}
    for name in sorted(names):
        if name not in queues or "status" not in queues[name].body:
            message = f"--usage has no ClusterQueue `{name}` with its status"
            raise NotModelledError((Problem(message, f"export all of them: `{EXPORT}`"),))
        held: Amounts = {}
        for item, queue in near:
            if queue == name and _reserved_since(item):
                for key, amount in _assignment(item, ()).usage.items():
                    held[key] = held.get(key, 0) + amount
        _require_active(queues[name], tree)
        reserved = _reservation(queues[name])
        for key in sorted(reserved.keys() | held.keys()):
            if held.get(key, 0) != reserved.get(key, 0):
                sums = [format_amount(key.resource, amounts.get(key, 0)) for amounts in (held, reserved)]
                message = f"the Workloads of ClusterQueue `{name}` in --usage hold {sums[0]} {key.resource} of flavor "
                message += f"`{key.flavor}`, and its status has {sums[1]}"
                raise NotModelledError((Problem(message, f"export them in one command: `{EXPORT}`"),))
        waiting = sum(queue == name and _is_pending(item) for item, queue in near)
        if waiting < (pending := integer(mapping(queues[name].body, "status").get("pendingWorkloads"), 0)):
            message = f"ClusterQueue `{name}` has {pending} pending Workloads, and --usage has {waiting}"
            raise NotModelledError((Problem(message, f"export all of them: `{EXPORT}`"),))


def _require_active(queue: Manifest, tree: QueueTree) -> None:
    """Require a ClusterQueue that Kueue uses as its spec says.

    Raises:
        NotModelledError: its status or a setting says otherwise.
    """
    active, name = conditions_of(queue).get("Active"), queue.name
    if mapping(queue.body, "metadata").get("deletionTimestamp"):
        raise NotModelledError((Problem(f"ClusterQueue `{name}` is being deleted"),))
    if active and not active.is_true and not tree.inactive_reason(tree.queues[name]):
        message = f"ClusterQueue `{name}` is inactive for a reason outside its spec: {active.message or active.reason}"
        raise NotModelledError((Problem(message),))
    if mapping(queue.body, "spec").get("admissionScope"):
        raise NotModelledError((Problem(f"ClusterQueue `{name}` orders jobs by past usage, which is not simulated"),))


def _require_nodes(export: Collection[Manifest], tree: QueueTree, names: Collection[str]) -> None:
    """Require Nodes and Pods if Kueue places pods of these ClusterQueues by topology.

    Raises:
        NotModelledError: the export has none.
    """
    flavors = {key.flavor for name in names for key in tree.queues[name].quotas}
    placed = sorted(name for name in flavors if name in tree.flavors and tree.flavors[name].topology)
    kinds = {item.kind for item in export}
    for kind in ("Node", "Pod") if placed else ():
        if kind not in kinds:
            message = f"Kueue places pods of flavor `{placed[0]}` by topology, and --usage has no {kind}"
            raise NotModelledError((Problem(message, f"export the nodes and the pods too: `{_PLACED}`"),))


def _reservation(queue: Manifest) -> Amounts:
    reserved: Amounts = {}
    status = mapping(queue.body, "status")
    for flavor in mappings(status.get("flavorsReservation")):
        for resource in mappings(flavor.get("resources")):
            name = string(resource.get("name"))
            amounts = parse_amounts({name: resource.get("total", "0")}, queue.resource)
            reserved[FlavorResource(string(flavor.get("name")), name)] = amounts[name]
    return reserved
