"""Balance: the quota tree of all ClusterQueues, and the capacity that each of them has.

Source: kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go, cohort.go, resource_node.go, the same in v0.18.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from generator.simulate.amounts import Amounts, FlavorResource, shown
from generator.simulate.contention import Guarantee, guarantee
from generator.simulate.queues import ClusterQueue, QueueTree
from generator.simulate.quota_node import Holding, Node

__all__ = ["Capacity", "Node", "balance", "capacity", "preempts", "reclaimed", "unknown"]

_HELD, _DRAINED = "Hold", "HoldAndDrain"


def balance(tree: QueueTree) -> Mapping[str, Node]:
    """Return the node of each ClusterQueue, with no usage.

    A ClusterQueue below a cycle of Cohorts has no node: Kueue leaves it out. An inactive ClusterQueue has one, because
    it goes on lending.
    """
    fair = tree.settings.is_fair
    sound = [each for each in tree.cohorts.values() if not tree.is_cyclic(each.name)]
    cohorts = {each.name: Node(each.name, None, each.quotas, each.weight, is_fair=fair) for each in sound}
    for name, node in sorted(cohorts.items()):
        node.parent = cohorts.get(tree.cohorts[name].parent)
        if node.parent:
            node.parent.cohorts.append(node)
    queues = {
        name: Node(name, each, each.quotas, each.weight, cohorts.get(each.cohort), is_fair=fair)
        for name, each in sorted(tree.queues.items())
        if not each.cohort or each.cohort in cohorts
    }
    for name, node in queues.items():
        queue = tree.queues[name]
        node.refusal = tree.stopped(queue) or tree.lacks(queue)
        node.holding = _holding(tree, queue)
        if node.parent:
            node.parent.members.append(node)
            node.root().has_kept |= node.holding is Holding.KEPT
            if not node.refusal:
                node.parent.queues.append(node)
    _sum_up_all(queues)
    return queues


def _holding(tree: QueueTree, queue: ClusterQueue) -> Holding:
    """Return the usage that a ClusterQueue can have.

    A queue without a LocalQueue counts too: any namespace that its selector matches may get one later.
    """
    if queue.namespaces is None or queue.stop_policy == _DRAINED:
        return Holding.NONE
    if not (tree.stopped(queue) or tree.lacks(queue)):
        return Holding.ANY
    return Holding.KEPT if queue.stop_policy == _HELD and not tree.misses(queue) else Holding.NONE


def _sum_up_all(queues: Mapping[str, Node]) -> None:
    members: dict[Node, list[Node]] = {}
    for node in queues.values():
        node.subtree = _nominal(node)
        if node.parent:
            members.setdefault(node.parent, []).append(node)
    for root in {node.root() for node in members}:
        for cohort in root.nested():
            _sum_up(cohort, members.get(cohort, ()))


def _sum_up(cohort: Node, members: Sequence[Node]) -> None:
    """`updateCohortResourceNode`, once it is done with the cohorts below."""
    cohort.subtree = _nominal(cohort)
    for child in (*cohort.cohorts, *members):
        for key in child.subtree:
            cohort.subtree[key] = cohort.has(key) + child.has(key) - child.kept(key)


def _nominal(node: Node) -> Amounts:
    return {key: quota.nominal for key, quota in node.quotas.items()}


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a ClusterQueue or Cohort has of a flavor and resource, and what a ClusterQueue gets of it.

    The last three are about a queue whose own usage is 0, and `owned <= reclaimable <= idle`. All are 0 if Kueue admits
    no job of the queue.

    Attributes:
        nominal: its nominal quota.
        borrowing: its borrowing limit; None is without limit.
        lending: its lending limit; None is without limit.
        owned: what it gets without preemption, in every state that the other queues can reach.
        reclaimable: what it gets in every such state, with the preemption that its policy allows; None if unknown.
        idle: what it gets while the usage of all other queues is 0 (`potentialAvailable`).
        reason: why `reclaimable` is unknown, or why all three are 0.
    """

    nominal: int
    borrowing: int | None
    lending: int | None
    owned: int
    reclaimable: int | None
    idle: int
    reason: str = ""


def capacity(node: Node, key: FlavorResource) -> Capacity:
    """Return the capacity of a ClusterQueue."""
    quota = node.quota(key)
    if node.refusal:
        return Capacity(quota.nominal, quota.borrowing, quota.lending, 0, 0, 0, f"it admits nothing: {node.refusal}")
    found = guarantee(node, key)
    low, high = reclaimed(node, found)
    reclaimable, reason = (low, "") if low == high else (None, unknown(node, f"at least {shown(key.resource, low)}"))
    potential = node.potential(key)
    return Capacity(quota.nominal, quota.borrowing, quota.lending, found.owned, reclaimable, potential, reason)


def reclaimed(node: Node, found: Guarantee) -> tuple[int, int]:
    """Return the bounds of what a ClusterQueue gets in every state with its preemption.

    `LowerPriority` adds nothing: in some states all running jobs have the highest priority (kueue v0.19.2
    pkg/scheduler/preemption/common/preemption_policy.go `SatisfiesPreemptionPolicy`).

    Args:
        node: the ClusterQueue.
        found: amounts of a resource, or numbers of nodes that follow from them.
    """
    if not preempts(node):
        return found.owned, found.owned
    classical = max(found.owned, *found.levels), max(found.owned, *found.levels, found.bound)
    fair = max(found.owned, found.levels[0]), max(found.owned, found.levels[0], found.fair_bound)
    if node.is_fair is None:
        return min(classical[0], fair[0]), max(classical[1], fair[1])
    return fair if node.is_fair else classical


def preempts(node: Node) -> bool:
    """Return True if a job can preempt jobs of other queues whatever their priority (`CanAlwaysReclaim`)."""
    return bool(node.parent and node.queue and node.queue.preemption.reclaim_within_cohort == "Any")


def unknown(node: Node, least: str) -> str:
    """Return why it is unknown what a ClusterQueue can reclaim."""
    if node.is_fair:
        return f"{least}: how much more it reclaims while it borrows depends on the shares of the running jobs"
    if node.is_fair is None:
        return f"{least}: how much more depends on fair sharing, which no file configures"
    return f"{least}: how much more depends on what the queues on `Hold` still use"
