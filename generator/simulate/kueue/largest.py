"""The largest job of each team on each runtime, in every state of the other queues and while they are idle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from generator.errors import NotModelledError
from generator.manifests import Manifest
from generator.objects.amounts import FlavorResource
from generator.objects.namespace import hosts_per_job
from generator.simulate.kueue.capacity import Guarantee, guarantee, preempts, reclaimed, unknown
from generator.simulate.kueue.nodes import machines
from generator.simulate.kueue.placement import Sites
from generator.simulate.kueue.podsets import refusals, surroundings
from generator.simulate.kueue.queues import ClusterQueue, QueueTree
from generator.simulate.kueue.quota_tree import Node, balance
from generator.simulate.kueue.search import Limit, Search, Sizeless

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

    With Nodes among the manifests a job has a place on them if Kueue places it by topology.

    Raises:
        SimulationError: an amount of a runtime, a LimitRange or a Node is no quantity, or two objects limit the hosts
            of a namespace's jobs differently.
    """
    known = list(manifests)
    nodes, machinery, limits = balance(tree), machines(known), hosts_per_job(known)
    sites = Sites(tree.flavors, machinery, rules=tree.rules) if machinery else None
    runtimes = [each for each in known if each.group == "trainer.kubeflow.org" and each.kind in _RUNTIMES]
    runtimes.sort(key=lambda each: each.name)
    for queue in sorted(tree.queues.values(), key=lambda each: each.name):
        node = nodes.get(queue.name)
        found = _Guarantees(node) if node else None
        for namespace in sorted({door.namespace for door in tree.doors(queue.name)}):
            around = surroundings(known, namespace, tree.settings.counting)
            for runtime in runtimes:
                if runtime.kind == "ClusterTrainingRuntime" or runtime.namespace == namespace:
                    there = None if queue.is_elsewhere else sites
                    job = Sizeless(runtime.body, around, there, limits.get(namespace), tree.rules)
                    sizes = _sizes(tree, queue, namespace, found, job)
                    yield Largest(queue.name, namespace, runtime.name, runtime.kind, *sizes)


class _Guarantees:
    """What a ClusterQueue gets of each flavor and resource, computed once for all runtimes."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @cached_property
    def each(self) -> Mapping[FlavorResource, Guarantee]:
        """Return the guarantee by flavor and resource."""
        return {key: guarantee(self.node, key) for key in self.node.quotas}


def _sizes(
    tree: QueueTree, queue: ClusterQueue, namespace: str, guarantees: _Guarantees | None, job: Sizeless
) -> _Sizes:
    refused = tree.stopped(queue) or tree.lacks(queue) or tree.refuses(queue, namespace)
    if refused or guarantees is None:
        return 0, 0, 0, Limit.QUEUE, f"`{queue.name}` admits nothing: {refused}", ""
    if not tree.settings.is_modelled:
        reason = "not known: Kueue's configuration has it count in a way that is not simulated"
        return None, None, None, Limit.UNKNOWN, reason, ""
    for refusal in refusals(job.runtime, job.around):
        return 0, 0, 0, Limit.LIMIT_RANGE, str(refusal), ""
    try:
        return _searched(tree, queue, guarantees, job)
    except NotModelledError as error:
        return None, None, None, Limit.UNKNOWN, f"not known: {error}", ""


def _searched(tree: QueueTree, queue: ClusterQueue, guarantees: _Guarantees, job: Sizeless) -> _Sizes:
    node, found = guarantees.node, guarantees.each
    flavors, known = tree.flavors_of(queue), dict[tuple[int, ...], int]()

    def largest(limits: Mapping[FlavorResource, int]) -> int:
        alike = tuple(limits.values())
        if alike not in known:
            known[alike] = Search(queue, flavors, limits, job).largest()
        return known[alike]

    most = {key: node.potential(key) for key in node.quotas}
    idle, search = largest(most), Search(queue, flavors, most, job)
    owned = largest({key: each.owned for key, each in found.items()})
    has_choice = search.has_choice()
    if has_choice and not tree.rules.ranks_no_candidates_last and queue.fungibility.preference == _STRANDS:
        sure = largest({key: min(each.owned, node.quota(key).nominal) for key, each in found.items()})
        if sure < owned:
            version = tree.rules.version
            why = (
                f"at least {sure} nodes: Kueue {version} may choose a flavor in use over one that the queue can borrow"
            )
            return None, None, idle, *search.reason(idle), why
    low, high = owned, owned
    if preempts(node) and owned < idle:
        steps = range(len([node, *node.path()]))
        levels = tuple(largest({key: each.levels[step] for key, each in found.items()}) for step in steps)
        bound = largest({key: max(each.bound, each.owned) for key, each in found.items()})
        is_exact = all(each.bound == max(each.levels) for each in found.values())
        fair_bound = largest({key: max(each.fair_bound, each.owned) for key, each in found.items()})
        low, high = reclaimed(node, Guarantee(owned, levels, max(levels) if is_exact else bound, fair_bound))
    why = ""
    if low != high:
        why = unknown(node, f"at least {low} nodes")
    elif low != owned and has_choice:
        why = f"at least {owned} nodes: how much more depends on the flavor that Kueue tries first"
    return owned, None if why else low, idle, *search.reason(idle), why
