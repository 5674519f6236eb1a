"""Preemption: the workloads that Kueue evicts to make room for a job, with and without fair sharing.

Source: kueue v0.19.2 pkg/scheduler/preemption/preemption.go Preemptor.classicalPreemptions; kueue v0.19.2
pkg/scheduler/preemption/preemption.go Preemptor.fairPreemptions; kueue v0.19.2
pkg/scheduler/preemption/classical/hierarchical_preemption.go; kueue v0.19.2
pkg/scheduler/preemption/classical/candidate_generator.go; kueue v0.19.2 pkg/scheduler/preemption/common/ordering.go;
kueue v0.19.2 pkg/scheduler/preemption/common/preemption_policy.go; kueue v0.19.2
pkg/scheduler/preemption/fairsharing/ordering.go; kueue v0.19.2 pkg/scheduler/preemption/fairsharing/target.go; kueue
v0.19.2 pkg/scheduler/preemption/fairsharing/strategy.go; kueue v0.19.2 pkg/cache/scheduler/fair_sharing.go.

If two cohorts have exactly the same share, Kueue takes one of them by chance: `nextTarget` iterates over an unordered
set. The simulation takes the last one by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from generator.objects.queue import Amounts, FlavorResource, Preemption
from generator.upstream.kueue.queues import Node
from generator.upstream.kueue.workloads import Cluster, Workload, has_room, having, lacking

FINAL, INITIAL = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
STRATEGIES = ((FINAL,), (INITIAL,), (FINAL, INITIAL))
"""The values of `preemptionStrategies` that Kueue accepts: kueue v0.19.2 pkg/config/validation.go
validateFairSharing."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A workload for which Kueue may preempt others.

    Attributes:
        node: the node of the workload's queue in the quota tree.
        usage: the quota that the workload needs.
        contested: the flavors and resources of which too little quota is free.
        has_place: returns True if the topology domains have room for the pods that Kueue places by topology.
    """

    workload: Workload
    node: Node
    usage: Amounts
    contested: frozenset[FlavorResource]
    has_place: Callable[[], bool] = lambda: True

    @property
    def rules(self) -> Preemption:
        """The preemption policy of the workload's queue."""
        return self.node.queue.preemption if self.node.queue else Preemption()

    def can_preempt(self, other: Workload, policy: str) -> bool:
        """Return True if a policy such as `LowerPriority` allows preempting `other` (`SatisfiesPreemptionPolicy`)."""
        own, others = self.workload.job.priority, other.job.priority
        match policy:
            case "Any":
                return True
            case "LowerPriority":
                return own > others
            case "LowerOrNewerEqualPriority":
                return own > others or (own == others and self.workload.number < other.number)
        return False

    def candidates(self, cluster: Cluster, node: Node, policy: str) -> Iterator[Workload]:
        """Yield the workloads in the queue of `node` that use contested quota and that a policy allows preempting."""
        for workload in cluster.of(node.name):
            if workload.uses(self.contested) and self.can_preempt(workload, policy):
                yield workload

    def fits(self, *, borrow: bool) -> bool:
        """Return True if quota and domains are free for the workload; `borrow` allows borrowing (`workloadFits`)."""
        if not borrow and any(self.node.borrows_with(key, amount) for key, amount in self.usage.items()):
            return False
        return has_room(self.node, self.usage) and self.has_place()


class Claim(Enum):
    """The reason for a preemption (`preemptionVariant`)."""

    SAME_QUEUE = "prioritization in the ClusterQueue"
    CLOSER = "reclamation within the cohort"
    WITHOUT_BORROWING = "reclamation within the cohort, without borrowing"
    WHILE_BORROWING = "reclamation within the cohort while borrowing"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A workload that Kueue can preempt, and the reason.

    `common` is the lowest cohort that contains its queue and the queue of the demand; None for the same queue.
    """

    workload: Workload
    claim: Claim
    common: Node | None = None


def _in_order(queue: str) -> Callable[[Workload], tuple[bool, int, int, int]]:
    """Return the sort key of candidates for `queue`: other queues first, then lowest priority, then last admitted."""
    return lambda item: (item.job.queue == queue, item.job.priority, -item.admitted, item.number)


def find_targets(cluster: Cluster, demand: Demand) -> list[Workload]:
    """Return the workloads to preempt without fair sharing; empty if preemption frees too little."""
    candidates = _Candidates(cluster, demand)
    for borrow in candidates.attempts():
        removed: list[Workload] = []
        for workload in candidates.valid(borrow=borrow):
            cluster.remove(workload)
            removed.append(workload)
            if demand.fits(borrow=borrow):
                targets = _fill_back(cluster, demand, removed, borrow=borrow)
                _restore(cluster, targets)
                return targets
        _restore(cluster, removed)
    return []


def _fill_back(cluster: Cluster, demand: Demand, removed: list[Workload], *, borrow: bool) -> list[Workload]:
    """Return the removed workloads that Kueue must preempt, and restore the others (`fillBackWorkloads`)."""
    for index in range(len(removed) - 2, -1, -1):
        cluster.add(removed[index])
        if demand.fits(borrow=borrow):
            removed[index] = removed[-1]
            removed.pop()
        else:
            cluster.remove(removed[index])
    return removed


def _restore(cluster: Cluster, workloads: list[Workload]) -> None:
    for workload in workloads:
        cluster.add(workload)


class _Candidates:
    """The preemption candidates, in the order in which Kueue tries them (`candidateIterator`)."""

    def __init__(self, cluster: Cluster, demand: Demand) -> None:
        self._cluster = cluster
        self._demand = demand
        order = _in_order(demand.node.name)
        parts = [self._of_others(is_closer=True), self._of_others(is_closer=False), self._of_same_queue()]
        self._closer, self._others, own = (sorted(part, key=lambda item: order(item.workload)) for part in parts)
        self._all = [*self._closer, *self._others, *own]

    def attempts(self) -> list[bool]:
        """Return one boolean per attempt: True if the workload may borrow in the attempt."""
        forbidden = self._demand.rules.borrow_within_cohort == "Never"
        if not (self._closer or self._others) or (forbidden and not self._is_under_nominal()):
            return [True]
        return [False, True] if forbidden and not self._closer else [True, False]

    def _is_under_nominal(self) -> bool:
        node = self._demand.node
        return all(node.quota(key).nominal > node.uses(key) for key in self._demand.contested)

    def valid(self, *, borrow: bool) -> Iterator[Workload]:
        """Yield the candidates that Kueue may still preempt when it reaches them (`candidateIsValid`)."""
        for candidate in self._all:
            if candidate.claim is Claim.SAME_QUEUE or self._is_valid(candidate, borrow=borrow):
                yield candidate.workload

    def _is_valid(self, candidate: Candidate, *, borrow: bool) -> bool:
        if borrow and candidate.claim is Claim.WITHOUT_BORROWING:
            return False
        node = self._cluster.nodes[candidate.workload.job.queue]
        for ancestor in (node, *node.path()):
            if ancestor is candidate.common:
                break
            if ancestor.is_within(self._demand.contested):
                return False
        return True

    def _of_same_queue(self) -> list[Candidate]:
        demand = self._demand
        workloads = demand.candidates(self._cluster, demand.node, demand.rules.within_queue)
        return [Candidate(workload, Claim.SAME_QUEUE) for workload in workloads]

    def _of_others(self, *, is_closer: bool) -> list[Candidate]:
        """Return the preemption candidates of other queues in a part of the cohort tree.

        Source: `collectCandidatesForHierarchicalReclaim`.

        Args:
            is_closer: True for candidates outside of the lowest subtree with quota for the workload, False for
                candidates inside this subtree, or in the whole tree if no subtree has quota.
        """
        demand, candidates, before = self._demand, list[Candidate](), None
        if demand.rules.reclaim_within_cohort == "Never":
            return candidates
        has_advantage, left = _fit_in_subtree(demand.node, demand.usage)
        for cohort in demand.node.path():
            if has_advantage == is_closer:
                for node in self._borrowing(cohort, before):
                    for workload in demand.candidates(self._cluster, node, demand.rules.reclaim_within_cohort):
                        claim = Claim.CLOSER if has_advantage else self._classify(workload)
                        candidates.append(Candidate(workload, claim, cohort))
            fits_here, left = _fit_in_subtree(cohort, left)
            has_advantage, before = has_advantage or fits_here, cohort
        return candidates

    def _borrowing(self, cohort: Node, skipped: Node | None) -> Iterator[Node]:
        """Yield the other queues in the subtree of a cohort that borrow contested quota, without the subtree `skipped`.

        Child cohorts that do not borrow are left out (`collectCandidatesInSubtree`).
        """
        contested = self._demand.contested
        entered = cohort.nested(lambda child: child is not skipped and not child.is_within(contested))
        for queue in (queue for child in entered for queue in child.queues):
            if queue is not self._demand.node and not queue.is_within(contested):
                yield queue

    def _classify(self, other: Workload) -> Claim:
        """Return the reason for which Kueue may preempt a workload (`classifyPreemptionVariant`)."""
        rules, priority = self._demand.rules, other.job.priority
        is_above = rules.borrow_threshold is not None and priority > rules.borrow_threshold
        if rules.borrow_within_cohort == "Never" or priority >= self._demand.workload.job.priority or is_above:
            return Claim.WITHOUT_BORROWING
        return Claim.WHILE_BORROWING


def _fit_in_subtree(node: Node, usage: Amounts) -> tuple[bool, Amounts]:
    """Return (True if the subtree quota has room for a usage, the usage beyond the local quota).

    Kueue calls this `QuantitiesFitInQuota`.
    """
    has_all = all(node.has(key) >= node.uses(key) + amount for key, amount in usage.items())
    return has_all, {key: max(0, amount - node.kept_free(key)) for key, amount in usage.items()}


@dataclass(frozen=True, slots=True)
class Share:
    """The dominant resource share of a queue or cohort: the borrowed quota, in thousandths of all lendable quota.

    Attributes:
        ratio: the share before the weight applies.
        weight: the fair-sharing weight.
        borrowed: flavors and resources that the node borrows.
    """

    ratio: float
    weight: float
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def weighted(self) -> float:
        """The weighted share: a weight of 2 halves the share, a weight of 0 makes a share above 0 infinite."""
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key of shares: a node that borrows with weight 0 comes last (`CompareDRS`)."""
        is_weightless = self.weight == 0 and self.ratio != 0
        return is_weightless, self.ratio if is_weightless else self.weighted


_LOWEST = Share(-1.0, 1.0)


def share(node: Node) -> Share:
    """Return the share of a node; 0 for a root (`dominantResourceShare`).

    The computation uses floating point as Kueue does, so that the same shares are equal.
    """
    if node.parent is None:
        return Share(0.0, node.weight)
    beyond = {key: node.uses(key) - quota for key, quota in node.subtree.items() if node.uses(key) > quota}
    borrowed: dict[str, int] = {}
    for key, amount in beyond.items():
        borrowed[key.resource] = borrowed.get(key.resource, 0) + amount
    lent: dict[str, int] = {}
    for key in node.root().subtree if borrowed else ():
        lent[key.resource] = lent.get(key.resource, 0) + node.parent.potential(key)
    ratios = [float(amount) * 1000.0 / float(lent[name]) for name, amount in borrowed.items() if lent.get(name, 0) > 0]
    return Share(max(ratios, default=0.0), node.weight, frozenset(beyond))


def child_below(node: Node, cohort: Node) -> Node:
    """Return the child of `cohort` that is `node` or an ancestor of `node`."""
    return next(ancestor for ancestor in (node, *node.path()) if ancestor.parent is cohort)


def find_fair_targets(cluster: Cluster, demand: Demand, strategies: tuple[str, ...]) -> list[Workload]:
    """Return the workloads to preempt with fair sharing; empty if preemption frees too little."""
    candidates = sorted(_fair_candidates(cluster, demand), key=_in_order(demand.node.name))
    if not candidates:
        return []
    attempt = _FairAttempt(cluster, demand)
    with having(demand.node, demand.usage):  # Kueue compares the shares as if the workload were running
        spared = attempt.run_first(candidates, strategies[0])
        if not attempt.is_done and len(strategies) > 1:
            attempt.run_second(spared)
    removed = _fill_back(cluster, demand, attempt.removed, borrow=True) if attempt.is_done else attempt.removed
    _restore(cluster, removed)
    return removed if attempt.is_done else []


def _fair_candidates(cluster: Cluster, demand: Demand) -> Iterator[Workload]:
    """Yield the workloads that the preemption policies allow Kueue to preempt (`findCandidates`)."""
    queues = [(demand.node, demand.rules.within_queue)]
    if demand.node.parent is not None and demand.rules.reclaim_within_cohort != "Never":
        others = (node for node in demand.node.root().below() if node is not demand.node)
        borrowing = [node for node in others if any(node.borrows_with(key) for key in demand.contested)]
        queues += [(node, demand.rules.reclaim_within_cohort) for node in borrowing]
    for node, policy in queues:
        yield from demand.candidates(cluster, node, policy)


class _FairAttempt:
    """A search for preemption targets. `removed` has the targets so far, whose usage `cluster` does not count."""

    def __init__(self, cluster: Cluster, demand: Demand) -> None:
        self._cluster = cluster
        self._demand = demand
        self.removed: list[Workload] = []
        self.is_done = False

    def run_first(self, candidates: Iterable[Workload], strategy: str) -> list[Workload]:
        """Add workloads to `removed` by the first strategy, until the demand fits (`runFirstFsStrategy`).

        Return the candidates that this strategy does not preempt, for `run_second`.
        """
        own = self._demand.node
        is_within_nominal = not any(own.borrows_with(key) for key in self._demand.contested)
        spared: list[Workload] = []
        order = _FairOrder(own, candidates)
        for node in order:
            if self.is_done:
                break
            if node is own or is_within_nominal:
                self._remove(order.pop(node))
            else:
                spared += self._preempt_by_share(order, node, strategy)
        return spared

    def _preempt_by_share(self, order: _FairOrder, node: Node, strategy: str) -> list[Workload]:
        """Preempt the first candidate of a queue that the strategy allows. Return the candidates before it."""
        own, others = order.shares(node)
        spared = []
        hopeless = math.isinf(own.weighted) and not math.isinf(others.weighted)
        while order.has_candidates(node):
            workload = order.pop(node)
            if not hopeless:
                with lacking(node, workload.usage):
                    after = order.shares(node)[1]
                if own.rank <= after.rank if strategy == FINAL else own.rank < others.rank:
                    self._remove(workload)
                    break
            spared.append(workload)
        return spared

    def run_second(self, candidates: Iterable[Workload]) -> None:
        """Add workloads to `removed` by the second strategy, at most one of each queue (`runSecondFsStrategy`)."""
        order = _FairOrder(self._demand.node, candidates)
        for node in order:
            if self.is_done:
                break
            own, others = order.shares(node)
            workload = order.pop(node)
            if own.rank < others.rank:
                self._remove(workload)
            order.drop(node)

    def _remove(self, workload: Workload) -> None:
        self._cluster.remove(workload)
        self.removed.append(workload)
        with lacking(self._demand.node, self._demand.usage):
            self.is_done = self._demand.fits(borrow=True)


class _FairOrder:
    """An iterator of queues by largest current share (`TargetClusterQueueOrdering`)."""

    def __init__(self, own: Node, candidates: Iterable[Workload]) -> None:
        self._own = own
        self._ancestors = list(own.path())
        self._left: dict[str, list[Workload]] = {}
        self._dropped: set[Node] = set()
        for workload in candidates:
            self._left.setdefault(workload.job.queue, []).append(workload)

    def has_candidates(self, node: Node) -> bool:
        """Return True if the ClusterQueue at this node has candidates that `pop` did not yet return."""
        return bool(self._left.get(node.name))

    def pop(self, node: Node) -> Workload:
        """Remove and return the next candidate of the ClusterQueue at this node of the quota tree."""
        return self._left[node.name].pop(0)

    def drop(self, node: Node) -> None:
        """Leave the ClusterQueue at this node out of the rest of the iteration."""
        self._dropped.add(node)

    def __iter__(self) -> Iterator[Node]:
        if self._own.parent is None:
            while self._own not in self._dropped and self.has_candidates(self._own):
                yield self._own
            return
        root = self._own.root()
        while root not in self._dropped:
            node = self._next(root)
            if node is not None:
                yield node

    def _next(self, cohort: Node) -> Node | None:
        """Return the next queue below a cohort (`nextTarget`); None if this call only dropped a cohort."""
        child: Node | None = cohort
        while child is not None:
            cohort = child
            queue, queue_share = self._first_queue(cohort)
            inner, inner_share = self._first_cohort(cohort)
            child = inner if inner_share.rank >= queue_share.rank else None
            if child is None and queue is not None:
                return queue
        self._dropped.add(cohort)
        return None

    def _first_cohort(self, cohort: Node) -> tuple[Node | None, Share]:
        first, most = None, _LOWEST
        for child in cohort.cohorts:
            if child in self._dropped:
                continue
            current = share(child)
            if not current.borrowed and child not in self._ancestors:
                self._dropped.add(child)
            elif current.rank >= most.rank:
                first, most = child, current
        return first, most

    def _first_queue(self, cohort: Node) -> tuple[Node | None, Share]:
        """Return (queue of a cohort with the largest share, its share). Of equal queues, the next candidates decide.

        The queue is None if no queue has candidates. Queues without candidates, and other queues that borrow nothing,
        are dropped.
        """
        first, most, order = None, _LOWEST, _in_order(self._own.name)
        for queue in cohort.queues:
            if queue in self._dropped:
                continue
            current = share(queue)
            if (not current.borrowed and queue is not self._own) or not self.has_candidates(queue):
                self._dropped.add(queue)
            elif current.rank > most.rank:
                first, most = queue, current
            elif first is not None and current.rank == most.rank:
                first = min(first, queue, key=lambda node: order(self._left[node.name][0]))
        return first, most

    def shares(self, node: Node) -> tuple[Share, Share]:
        """Return (share of the demand's branch, share of the branch of `node`).

        The branches are the children of the lowest cohort that contains both queues (`ComputeShares`).
        """
        common = next(ancestor for ancestor in node.path() if ancestor in self._ancestors)
        return share(child_below(self._own, common)), share(child_below(node, common))
