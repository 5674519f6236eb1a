"""The largest job of each team on each runtime, in every state of the other queues and while they are idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from generator.errors import NotModelledError
from generator.manifests import Manifest
from generator.objects.amounts import FlavorResource
from generator.objects.namespace import read_host_limits
from generator.objects.queue import ClusterQueue
from generator.simulate.kueue.capacity import Guarantee, can_reclaim, compute_guarantee, explain_unknown, reclaim_range
from generator.simulate.kueue.nodes import read_machines
from generator.simulate.kueue.placement import Sites
from generator.simulate.kueue.podsets import find_broken_bounds, read_pod_context
from generator.simulate.kueue.queues import QueueTree
from generator.simulate.kueue.quota_tree import Node, build_quota_tree
from generator.simulate.kueue.search import JobTemplate, Limit, Search

_STRANDS = "PreemptionOverBorrowing"
_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest `numNodes` of a TrainJob that a ClusterQueue admits while it has no other job.

    A number is None if it is unknown, and `NO_LIMIT` without a limit.

    Attributes:
        queue: the ClusterQueue.
        namespace: a namespace with a LocalQueue that leads to it.
        runtime: the name of the runtime.
        kind: ClusterTrainingRuntime, or TrainingRuntime of the namespace.
        owned: nodes that Kueue admits in every state that the other queues can reach, even if this queue could preempt
            nothing. With `whenCanPreempt: MayStopSearch` Kueue may preempt in one flavor before it tries the next.
        reclaimable: nodes in every such state, with the preemption that the policy of the queue allows.
        idle: nodes while the usage of all other queues is 0. It may be fewer if all pods must be in one place of a
            topology and no file has the Nodes; then the reason says so.
        limit: the kind of limit that `idle` has.
        reason: why `idle` is not larger, with the numbers; or why all three numbers are unknown.
        unknown: why `reclaimable` is unknown, or both `owned` and `reclaimable`.
    """

    queue: str
    namespace: str
    runtime: str
    kind: str
    owned: int | None
    reclaimable: int | None
    idle: int | None
    limit: Limit
    reason: str
    unknown: str = ""


_Sizes = tuple[int | None, int | None, int | None, Limit, str, str]


def largest_jobs(tree: QueueTree, manifests: Iterable[Manifest]) -> Iterator[Largest]:
    """Yield the largest job for each ClusterQueue, each namespace with a LocalQueue of it, and each runtime.

    If Kueue places a job by topology and the manifests hold Nodes, the job must have room on them.

    Raises:
        SimulationError: an amount of a runtime, a LimitRange or a Node is not a quantity, or two objects limit the
            hosts of a namespace's jobs differently.
    """
    objects = list(manifests)
    nodes, cluster_nodes, limits = build_quota_tree(tree), read_machines(objects), read_host_limits(objects)
    sites = Sites(tree.flavors, cluster_nodes, rules=tree.rules) if cluster_nodes else None
    runtimes = [item for item in objects if item.group == "trainer.kubeflow.org" and item.kind in _RUNTIMES]
    runtimes.sort(key=lambda runtime: runtime.name)
    for _, queue in sorted(tree.queues.items()):
        guarantees = _Guarantees(nodes[queue.name]) if queue.name in nodes else None
        for namespace in sorted({local_queue.namespace for local_queue in tree.local_queues_of(queue.name)}):
            context = read_pod_context(objects, namespace, tree.settings.counting)
            for runtime in runtimes:
                if runtime.kind == "ClusterTrainingRuntime" or runtime.namespace == namespace:
                    local_sites = None if queue.is_multi_kueue else sites
                    job = JobTemplate(runtime.body, context, local_sites, limits.get(namespace), tree.rules)
                    sizes = _find_sizes(tree, queue, namespace, guarantees, job)
                    yield Largest(queue.name, namespace, runtime.name, runtime.kind, *sizes)


class _Guarantees:
    """The amounts that a ClusterQueue gets of each flavor and resource, computed once for all runtimes."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @cached_property
    def by_key(self) -> Mapping[FlavorResource, Guarantee]:
        """Guarantee by flavor and resource."""
        return {key: compute_guarantee(self.node, key) for key in self.node.quotas}


def _find_sizes(
    tree: QueueTree, queue: ClusterQueue, namespace: str, guarantees: _Guarantees | None, job: JobTemplate
) -> _Sizes:
    rejection = tree.inactive_reason(queue) or tree.rejection(queue, namespace)
    if rejection or guarantees is None:
        return 0, 0, 0, Limit.QUEUE, f"`{queue.name}` admits no job: {rejection}", ""
    if not tree.settings.is_modelled:
        reason = "unknown: Kueue's configuration counts resources in a way that is not simulated"
        return None, None, None, Limit.UNKNOWN, reason, ""
    for refusal in find_broken_bounds(job.runtime, job.context):
        return 0, 0, 0, Limit.LIMIT_RANGE, str(refusal), ""
    try:
        return _search_sizes(tree, queue, guarantees, job)
    except NotModelledError as error:
        return None, None, None, Limit.UNKNOWN, f"unknown: {error}", ""


def _search_sizes(tree: QueueTree, queue: ClusterQueue, guarantees: _Guarantees, job: JobTemplate) -> _Sizes:
    node, by_key = guarantees.node, guarantees.by_key
    flavors, known = tree.flavors_of(queue), dict[tuple[int, ...], int]()

    def largest(limits: Mapping[FlavorResource, int]) -> int:
        amounts = tuple(limits.values())
        if amounts not in known:
            known[amounts] = Search(queue, flavors, limits, job).largest()
        return known[amounts]

    def largest_of(amount: Callable[[Guarantee], int]) -> int:
        return largest({key: amount(item) for key, item in by_key.items()})

    most = {key: node.potential(key) for key in node.quotas}
    idle, search = largest(most), Search(queue, flavors, most, job)
    owned, has_choice = largest_of(lambda item: item.owned), search.has_choice()
    if has_choice and not tree.rules.ranks_no_candidates_last and queue.fungibility.preference == _STRANDS:
        sure = largest({key: min(item.owned, node.quota(key).nominal) for key, item in by_key.items()})
        if sure < owned:
            reason = f"Kueue {tree.rules.version} may choose a flavor in use over one that the queue can borrow"
            return None, None, idle, *search.reason(idle), f"at least {sure} nodes: {reason}"
    low, high = owned, owned
    if can_reclaim(node) and owned < idle:
        steps = range(len([node, *node.path()]))
        levels = tuple(largest({key: item.levels[step] for key, item in by_key.items()}) for step in steps)
        bound = largest_of(lambda item: max(item.bound, item.owned))
        is_exact = all(item.bound == max(item.levels) for item in by_key.values())
        fair_bound = largest_of(lambda item: max(item.fair_bound, item.owned))
        low, high = reclaim_range(node, Guarantee(owned, levels, max(levels) if is_exact else bound, fair_bound))
    reason = ""
    if low != high:
        reason = explain_unknown(node, f"at least {low} nodes")
    elif low != owned and has_choice:
        reason = f"at least {owned} nodes: how much more depends on the flavor that Kueue tries first"
    return owned, None if reason else low, idle, *search.reason(idle), reason
