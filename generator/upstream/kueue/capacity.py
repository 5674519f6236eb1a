"""The capacity of a ClusterQueue: the quota that it gets in every state that the other queues can reach.

A state is a possible usage of all other ClusterQueues; the usage of this ClusterQueue is 0. The path leads from the
ClusterQueue through its cohorts to the root of the cohort tree. The side children of a cohort on the path are its child
cohorts and ClusterQueues that are not on the path. A child uses its local quota first, which it never lends. Only the
usage beyond it counts in the parent. So the ClusterQueue gets the same in two states if the usage of all side children
of its path is equal in both.

How Kueue preempts without fair sharing (kueue v0.19.2 pkg/scheduler/preemption/classical/hierarchical_preemption.go
collectCandidatesForHierarchicalReclaim; kueue v0.19.2 pkg/scheduler/preemption/preemption.go
Preemptor.classicalPreemptions; the same in v0.18.3): it looks for the
lowest node of the path whose subtree quota holds the job. Outside of this subtree, Kueue preempts jobs of queues that
exceed their nominal quota, in cohorts that exceed their subtree quota. Inside, it preempts jobs of other queues in two
cases: the new job stays within the nominal quota of its queue, or the other jobs have a lower priority
(`borrowWithinCohort`). The second case is not guaranteed, because the other jobs may have the highest priority.

With fair sharing (`fairPreemptions`, `runFirstFsStrategy`), a job that stays within the nominal quota preempts the same
jobs. For a job that borrows, Kueue compares the shares of queues, which depend on the sizes of the running jobs. So
only an upper bound is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from generator.objects.queue import FlavorResource, Quota, format_amount
from generator.upstream.kueue.queues import Holding, Node

LACKS_QUEUES = "more depends on the queues of other teams, which the catalogue lacks"
"""The reason why amounts in the catalogue of a team are unknown."""
_UNLIMITED = 1 << 80


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The amounts of a flavor and resource that a ClusterQueue gets, whatever the other queues use.

    Attributes:
        owned: the amount that the queue gets without preemption.
        levels: for each node of the path, the largest request of a job that fits into the subtree quota of this node in
            every state, with preemption but without fair sharing. Kueue admits a job if all its resources fit at one
            node.
        bound: an upper bound of the amount that the queue gets in every state by preemption, without fair sharing.
        fair_bound: the same bound with fair sharing. Kueue then still admits jobs up to the first of `levels`.
    """

    owned: int
    levels: tuple[int, ...]
    bound: int
    fair_bound: int


@dataclass(frozen=True, slots=True)
class _PathNode:
    """A node of the path, with its quota of one flavor and resource.

    Attributes:
        subtree: the subtree quota of the node.
        local: the part of the subtree quota that the node never lends.
        limit: the quota of its parent that the node can use.
        potential: the quota that the node can use while all usage is 0.
        kept: the largest usage of the side children that no job of the queue can preempt.
        all: the largest usage of the side children.
    """

    subtree: int
    local: int
    limit: float
    potential: float
    kept: int
    all: int

    def stored(self, usage: float) -> float:
        """Return the part of the node's usage that counts in its parent: the usage beyond the local quota."""
        return max(0, usage - self.local)


def compute_guarantee(node: Node, key: FlavorResource) -> Guarantee:
    """Return the amounts of a flavor and resource that a ClusterQueue gets, whatever the other queues use.

    `node` is the ClusterQueue in the quota tree. If the tree lacks the other queues, the result has the bounds.
    """
    if node.is_alone:
        most = node.potential(key)
        return Guarantee(node.kept(key), (node.kept(key),), most, most)
    path = _path(node, key)
    full = _outward(path, [step.all for step in path])
    quiet = _available(path, _outward(path, [step.kept for step in path]))[-1]
    owned = _available(path, full)[-1]
    if not node.root().has_kept:
        levels = _available(path, full)
        return Guarantee(owned, levels, max(levels), quiet)
    states = [_contended(path, level) for level in range(len(path))]
    levels = tuple(state.held_by(level) for level, state in enumerate(states))
    bound = min(max(state.held_by(level) for level in range(len(path))) for state in states)
    return Guarantee(owned, levels, bound, quiet)


def _path(node: Node, key: FlavorResource) -> list[_PathNode]:
    """Return the path from the ClusterQueue of a node to the root, with the quota of a flavor and resource."""
    nodes = [node, *node.path()]
    potentials: list[float] = []
    for ancestor in reversed(nodes):
        most = ancestor.kept(key) + potentials[-1] if potentials else ancestor.has(key)
        potentials.append(min(most, ancestor.kept(key) + _limit(ancestor, key)) if potentials else most)
    steps, below = list[_PathNode](), (0, 0)
    for ancestor, potential in zip(nodes, reversed(potentials), strict=True):
        kept, total = (0, 0) if ancestor is node else _children_usage(ancestor, key)
        local, limit = ancestor.kept(key), _limit(ancestor, key)
        steps.append(_PathNode(ancestor.has(key), local, limit, potential, kept - below[0], total - below[1]))
        below = (0, 0) if ancestor.parent is None else _usage_in_parent(ancestor, key)
    return steps


def _children_usage(cohort: Node, key: FlavorResource) -> tuple[int, int]:
    """Return the most usage that the children of a cohort add to it: (part that no job can preempt, all)."""
    if key not in cohort.demands:
        for inner in cohort.nested(lambda child: key not in child.demands):
            parts = [_usage_in_parent(child, key) for child in (*inner.cohorts, *inner.members)]
            inner.demands[key] = sum(kept for kept, _ in parts), sum(total for _, total in parts)
    return cohort.demands[key]


def _usage_in_parent(child: Node, key: FlavorResource) -> tuple[int, int]:
    """Return the most usage that a child adds to its cohort: (part that no job can preempt, all)."""
    local, limit = child.kept(key), _limit(child, key)
    if child.queue is None:
        kept, total = child.demands[key]
        kept = max(kept, min(total, child.has(key)))
    else:
        total = 0 if child.holding is Holding.NONE or key not in child.quotas else _UNLIMITED
        kept = total if child.holding is Holding.KEPT else min(total, child.has(key))
    return int(min(max(0, kept - local), limit)), int(min(max(0, total - local), limit))


def _limit(node: Node, key: FlavorResource) -> float:
    limit = node.quota(key).borrowing
    return inf if limit is None else node.has(key) - node.kept(key) + limit


def _outward(path: Sequence[_PathNode], amounts: Sequence[int]) -> list[float]:
    """Return the usage of each node of the path, lowest first, if the side children of each node use these amounts.

    The usage of a node is at most its `potential`.
    """
    usage = [0.0]
    for before, step, amount in zip(path, path[1:], amounts[1:], strict=False):
        usage.append(min(before.stored(usage[-1]) + amount, step.potential))
    return usage


def _available(path: Sequence[_PathNode], usage: Sequence[float]) -> tuple[int, ...]:
    """Return for each node of the path the amount that the queue could use if this node were the root."""
    available: list[int] = []
    most, below = inf, 0.0
    for step, used in zip(path, usage, strict=True):
        available.append(int(max(0, min(most, below + step.subtree - used))))
        spare = max(0, step.local - used)
        most = min(most, below + spare + step.limit - step.stored(used))
        below += spare
    return tuple(available)


@dataclass(slots=True)
class _State:
    """A state: the usage of the side children of each node of the path.

    Attributes:
        kept: for each node, the usage that no job of the queue can preempt.
        more: for each node, the usage that jobs of the queue can preempt.
    """

    path: Sequence[_PathNode]
    kept: list[float]
    more: list[float]

    def held_by(self, level: int) -> int:
        """Return the largest request that fits at the node at a level of the path after preemption above the node."""
        after = _State(self.path, self.kept, [amount if at <= level else 0 for at, amount in enumerate(self.more)])
        return min(self.available()[level], after.available()[-1])

    def available(self) -> tuple[int, ...]:
        """Return for each node of the path the amount that the queue could use if this node were the root."""
        return _available(self.path, self.usage())

    def usage(self) -> list[float]:
        """Return the usage of the ClusterQueue and of each cohort above it, in the order of the path."""
        usage = [0.0]
        for before, kept, more in zip(self.path, self.kept[1:], self.more[1:], strict=False):
            usage.append(before.stored(usage[-1]) + kept + more)
        return usage

    def free_for_children(self, level: int) -> float:
        """Return the further usage that the side children of the node at this level of the path can have."""
        usage = self.usage()
        left = self.path[-1].subtree - usage[-1]
        for step, used in zip(self.path[level:-1][::-1], usage[level:-1][::-1], strict=True):
            left = max(0, step.local - used) + min(step.limit - step.stored(used), left)
        return max(0, left)


def _contended(path: Sequence[_PathNode], level: int) -> _State:
    """Return the state with the least room for a job at a level of the path.

    First the side children up to this level use all quota that they can get. Then the side children above use the quota
    that no job of the queue can preempt, and then the quota that jobs of the queue can preempt.
    """
    state = _State(path, [0.0] * len(path), [0.0] * len(path))
    for at in (*range(1, level + 1), *range(level + 1, len(path))):
        state.kept[at] += min(path[at].kept, state.free_for_children(at))
        if at <= level:
            state.more[at] += min(path[at].all - path[at].kept, state.free_for_children(at))
    for at in range(level + 1, len(path)):
        state.more[at] += min(path[at].all - path[at].kept, state.free_for_children(at))
    return state


@dataclass(frozen=True, slots=True)
class Capacity:
    """The quota of a ClusterQueue or Cohort for a flavor and resource, and the amounts that a ClusterQueue gets.

    `owned <= reclaimable <= idle` are amounts for a queue that has no running job. They are 0 if Kueue admits no job of
    the queue.

    Attributes:
        borrowing: its borrowing limit; None for no limit.
        lending: its lending limit; None for no limit.
        owned: the quota that it always gets without preemption, whatever the other queues use.
        reclaimable: the quota that it always gets with the preemption that its policy allows; None if unknown.
        idle: the quota that it gets while all other queues are idle (`potentialAvailable`).
        reason: why `reclaimable` is unknown, or why `owned`, `reclaimable` and `idle` are 0.
    """

    nominal: int
    borrowing: int | None
    lending: int | None
    owned: int
    reclaimable: int | None
    idle: int
    reason: str = ""


def own_capacity(quota: Quota, reason: str = "") -> Capacity:
    """Return the quota and limits of a Cohort, or of a ClusterQueue that gets nothing for a reason."""
    return Capacity(quota.nominal, quota.borrowing, quota.lending, 0, 0, 0, reason)


def compute_capacity(node: Node, key: FlavorResource) -> Capacity:
    """Return the capacity of a ClusterQueue for a flavor and resource."""
    quota = node.quota(key)
    if node.refusal:
        return own_capacity(quota, f"the queue admits no job: {node.refusal}")
    guaranteed = compute_guarantee(node, key)
    low, high = reclaim_range(node, guaranteed)
    reclaimable, reason = (
        (low, "") if low == high else (None, explain_unknown(node, f"at least {format_amount(key.resource, low)}"))
    )
    potential = node.potential(key)
    return Capacity(quota.nominal, quota.borrowing, quota.lending, guaranteed.owned, reclaimable, potential, reason)


def reclaim_range(node: Node, guaranteed: Guarantee) -> tuple[int, int]:
    """Return (lower bound, upper bound) of the amount or nodes that a ClusterQueue always gets with preemption.

    Both bounds include `owned`, the part without preemption. `reclaimWithinCohort: LowerPriority` adds nothing: all
    running jobs may have the highest priority (kueue v0.19.2 pkg/scheduler/preemption/common/preemption_policy.go
    SatisfiesPreemptionPolicy).
    """
    if node.is_alone:
        return guaranteed.owned, guaranteed.bound
    if not can_reclaim(node):
        return guaranteed.owned, guaranteed.owned
    classical = max(guaranteed.owned, *guaranteed.levels), max(guaranteed.owned, *guaranteed.levels, guaranteed.bound)
    fair = (
        max(guaranteed.owned, guaranteed.levels[0]),
        max(guaranteed.owned, guaranteed.levels[0], guaranteed.fair_bound),
    )
    if node.is_fair is None:
        return min(classical[0], fair[0]), max(classical[1], fair[1])
    return fair if node.is_fair else classical


def can_reclaim(node: Node) -> bool:
    """Return True if a job of the queue can preempt jobs of other queues of any priority (`CanAlwaysReclaim`)."""
    return bool(node.parent and node.queue and node.queue.preemption.reclaim_within_cohort == "Any")


def explain_unknown(node: Node, least: str) -> str:
    """Return why the amount is unknown that a ClusterQueue always gets with preemption.

    Args:
        node: the ClusterQueue in its cohort tree.
        least: the start of the text, with the certain amount, such as `at least 2 nodes`.
    """
    if node.is_alone:
        return LACKS_QUEUES if least.startswith("at least 0 ") else f"{least}: {LACKS_QUEUES}"
    if node.is_fair:
        return f"{least}: while the queue borrows, the quota that it reclaims depends on the fair shares of other jobs"
    if node.is_fair is None:
        return f"{least}: the rest depends on fair sharing, which no file configures"
    return f"{least}: the rest depends on the quota that queues with `stopPolicy: Hold` still use"
