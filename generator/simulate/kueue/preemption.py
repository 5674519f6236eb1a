"""Preemption: the workloads that Kueue evicts to make room for a job, with and without fair sharing.

Source: kueue v0.19.2 pkg/scheduler/preemption/preemption.go `classicalPreemptions`, `fairPreemptions`,
classical/hierarchical_preemption.go, classical/candidate_generator.go, common/ordering.go,
common/preemption_policy.go, fairsharing/{ordering,target,strategy}.go; pkg/cache/scheduler/fair_sharing.go.

Where two cohorts have exactly the same share, Kueue takes either of them, by chance: `nextTarget` iterates over an
unordered set. Here it is the last by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from generator.objects.amounts import Amounts, FlavorResource
from generator.simulate.kueue.queues import Preemption
from generator.simulate.kueue.quota_tree import Node
from generator.simulate.kueue.workloads import Cluster, Workload, having, lacking


@dataclass(frozen=True, slots=True)
class Share:
    """The largest part of any resource that a queue or cohort borrows, in thousandths of all that can be lent.

    Attributes:
        ratio: before the weight is taken into account.
        weight: of the queue or cohort.
        borrowed: of what it has more than its own.
    """

    ratio: float
    weight: float
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def weighted(self) -> float:
        """A weight of 2 halves the share, a weight of 0 makes it infinite."""
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def rank(self) -> tuple[bool, float]:
        """To compare by: who borrows at weight 0 comes after all others (`CompareDRS`)."""
        is_weightless = self.weight == 0 and self.ratio != 0
        return is_weightless, self.ratio if is_weightless else self.weighted


NOBODY = Share(-1.0, 1.0)
"""Less than anybody has."""


def share(node: Node) -> Share:
    """That of a queue or cohort now (`dominantResourceShare`)."""
    if node.parent is None:
        return Share(0.0, node.weight)
    beyond = {key: node.uses(key) - own for key, own in node.subtree.items() if node.uses(key) > own}
    borrowed: dict[str, int] = {}
    for key, amount in beyond.items():
        borrowed[key.resource] = borrowed.get(key.resource, 0) + amount
    lent: dict[str, int] = {}
    for key in node.root().subtree if borrowed else ():
        lent[key.resource] = lent.get(key.resource, 0) + node.parent.potential(key)
    ratios = [float(amount) * 1000.0 / float(lent[name]) for name, amount in borrowed.items() if lent.get(name, 0) > 0]
    return Share(max(ratios, default=0.0), node.weight, frozenset(beyond))


@dataclass(frozen=True, slots=True)
class Demand:
    """A job that needs room.

    Attributes:
        workload: the job.
        node: its queue.
        usage: what it would take.
        contested: of what there is too little.
        has_place: whether all its pods that are placed by topology have room now.
    """

    workload: Workload
    node: Node
    usage: Amounts
    contested: frozenset[FlavorResource]
    has_place: Callable[[], bool] = lambda: True

    @property
    def rules(self) -> Preemption:
        """Those of its queue."""
        return self.node.queue.preemption if self.node.queue else Preemption()


class Claim(Enum):
    """By what right somebody is driven out (`preemptionVariant`)."""

    SAME_QUEUE = "prioritization in the ClusterQueue"
    CLOSER = "reclamation within the cohort"
    WITHOUT_BORROWING = "reclamation within the cohort, without borrowing"
    WHILE_BORROWING = "reclamation within the cohort while borrowing"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Somebody who may be driven out, and the lowest cohort that both are in."""

    workload: Workload
    claim: Claim
    common: Node | None = None


def may_drive_out(demand: Demand, other: Workload, policy: str) -> bool:
    """Whether a policy allows it (`SatisfiesPreemptionPolicy`)."""
    ours, theirs = demand.workload.job.priority, other.job.priority
    match policy:
        case "Any":
            return True
        case "LowerPriority":
            return ours > theirs
        case "LowerOrNewerEqualPriority":
            return ours > theirs or (ours == theirs and demand.workload.number < other.number)
    return False


def in_order(queue: str) -> Callable[[Workload], tuple[bool, int, int, int]]:
    """Who goes first: those of other queues, then those of the least priority, then the last admitted."""
    return lambda each: (each.job.queue == queue, each.job.priority, -each.admitted, each.number)


def find_targets(cluster: Cluster, demand: Demand) -> list[Workload]:
    """Whom to drive out; nobody, if that makes no room. The cluster is afterwards what it was before."""
    ranked = _Ranked(cluster, demand)
    for borrow in ranked.attempts():
        gone: list[Workload] = []
        for each in ranked.valid(borrow=borrow):
            cluster.remove(each)
            gone.append(each)
            if fits(demand, borrow=borrow):
                gone = fill_back(cluster, demand, gone, borrow=borrow)
                _restore(cluster, gone)
                return gone
        _restore(cluster, gone)
    return []


def fits(demand: Demand, *, borrow: bool) -> bool:
    """Whether there is room now (`workloadFits`)."""
    for key, amount in demand.usage.items():
        if not borrow and demand.node.borrows_with(key, amount):
            return False
        if amount > max(0, demand.node.available(key)):
            return False
    return demand.has_place()


def fill_back(cluster: Cluster, demand: Demand, gone: list[Workload], *, borrow: bool) -> list[Workload]:
    """Let those return who turn out not to be in the way, the last but one first (`fillBackWorkloads`)."""
    for number in range(len(gone) - 2, -1, -1):
        cluster.add(gone[number])
        if fits(demand, borrow=borrow):
            gone[number] = gone[-1]
            gone.pop()
        else:
            cluster.remove(gone[number])
    return gone


def _restore(cluster: Cluster, gone: list[Workload]) -> None:
    for each in gone:
        cluster.add(each)


class _Ranked:
    """All who may be driven out, in the order in which that is tried (`candidateIterator`)."""

    def __init__(self, cluster: Cluster, demand: Demand) -> None:
        self._cluster = cluster
        self._demand = demand
        order = in_order(demand.node.name)
        parts = [self._elsewhere(is_closer=True), self._elsewhere(is_closer=False), self._own()]
        self._closer, self._others, own = (sorted(part, key=lambda each: order(each.workload)) for part in parts)
        self._all = [*self._closer, *self._others, *own]

    def attempts(self) -> list[bool]:
        """Whether the job may borrow: what is tried first, and what then."""
        forbidden = self._demand.rules.borrow_within_cohort == "Never"
        if not (self._closer or self._others) or (forbidden and not self._is_under_nominal()):
            return [True]
        return [False, True] if forbidden and not self._closer else [True, False]

    def _is_under_nominal(self) -> bool:
        node = self._demand.node
        return all(node.quota(key).nominal > node.uses(key) for key in self._demand.contested)

    def valid(self, *, borrow: bool) -> Iterator[Workload]:
        """Those that are still to be driven out, as others go (`candidateIsValid`)."""
        for each in self._all:
            if each.claim is Claim.SAME_QUEUE or self._is_valid(each, borrow=borrow):
                yield each.workload

    def _is_valid(self, candidate: Candidate, *, borrow: bool) -> bool:
        if borrow and candidate.claim is Claim.WITHOUT_BORROWING:
            return False
        node = self._cluster.nodes[candidate.workload.job.queue]
        below = []
        for each in (node, *node.path()):
            if each is candidate.common:
                break
            below.append(each)
        return not any(each.is_within(self._demand.contested) for each in below)

    def _own(self) -> list[Candidate]:
        policy = self._demand.rules.within_queue
        return [Candidate(each, Claim.SAME_QUEUE) for each in self._driven_out(self._demand.node, policy)]

    def _driven_out(self, node: Node, policy: str) -> Iterator[Workload]:
        for each in self._cluster.of(node.name):
            if each.uses(self._demand.contested) and may_drive_out(self._demand, each, policy):
                yield each

    def _elsewhere(self, *, is_closer: bool) -> list[Candidate]:
        """Those of other queues, from which the job's queue is as near to the quota as they, or nearer.

        `collectCandidatesForHierarchicalReclaim`
        """
        demand, found, before = self._demand, list[Candidate](), None
        if demand.rules.reclaim_within_cohort == "Never":
            return found
        has_advantage, left = _left_over(demand.node, demand.usage)
        for cohort in demand.node.path():
            if has_advantage == is_closer:
                for node in self._borrowing(cohort, before):
                    found += self._claimed(node, cohort, has_advantage=has_advantage)
            fits_here, left = _left_over(cohort, left)
            has_advantage, before = has_advantage or fits_here, cohort
        return found

    def _borrowing(self, cohort: Node, skipped: Node | None) -> Iterator[Node]:
        """Queues below a cohort that have more than their own, in cohorts that do (`collectCandidatesInSubtree`)."""
        contested = self._demand.contested
        entered = cohort.nested(lambda child: child is not skipped and not child.is_within(contested))
        for queue in (each for child in entered for each in child.queues):
            if queue is not self._demand.node and not queue.is_within(contested):
                yield queue

    def _claimed(self, node: Node, common: Node, *, has_advantage: bool) -> Iterator[Candidate]:
        rules = self._demand.rules
        for each in self._driven_out(node, rules.reclaim_within_cohort):
            claim = Claim.CLOSER if has_advantage else self._claim(each)
            yield Candidate(each, claim, common)

    def _claim(self, other: Workload) -> Claim:
        """`classifyPreemptionVariant`."""
        rules, priority = self._demand.rules, other.job.priority
        is_above = rules.borrow_threshold is not None and priority > rules.borrow_threshold
        if rules.borrow_within_cohort == "Never" or priority >= self._demand.workload.job.priority or is_above:
            return Claim.WITHOUT_BORROWING
        return Claim.WHILE_BORROWING


def _left_over(node: Node, wanted: Amounts) -> tuple[bool, Amounts]:
    """Whether it fits into what a node has, and what goes beyond what that keeps (`QuantitiesFitInQuota`)."""
    has_all = all(node.has(key) >= node.uses(key) + amount for key, amount in wanted.items())
    return has_all, {key: max(0, amount - node.kept_free(key)) for key, amount in wanted.items()}


FINAL, INITIAL = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
STRATEGIES = ((FINAL,), (INITIAL,), (FINAL, INITIAL))
"""Kueue refuses others: pkg/config/validation.go `validateFairSharing`."""


def find_fair_targets(cluster: Cluster, demand: Demand, strategies: tuple[str, ...]) -> list[Workload]:
    """Whom to drive out; nobody, if that makes no room. The cluster is afterwards what it was before."""
    candidates = sorted(_candidates(cluster, demand), key=in_order(demand.node.name))
    if not candidates:
        return []
    attempt = _Attempt(cluster, demand)
    with having(demand.node, demand.usage):  # shares are compared as if the job were there already
        again = attempt.first(candidates, strategies[0])
        if not attempt.is_done and len(strategies) > 1:
            attempt.second(again)
    gone = fill_back(cluster, demand, attempt.gone, borrow=True) if attempt.is_done else attempt.gone
    for each in gone:
        cluster.add(each)
    return gone if attempt.is_done else []


def _candidates(cluster: Cluster, demand: Demand) -> Iterator[Workload]:
    """`findCandidates`."""
    queues = [(demand.node, demand.rules.within_queue)]
    if demand.node.parent is not None and demand.rules.reclaim_within_cohort != "Never":
        others = (each for each in demand.node.root().below() if each is not demand.node)
        borrowing = [each for each in others if any(each.borrows_with(key) for key in demand.contested)]
        queues += [(each, demand.rules.reclaim_within_cohort) for each in borrowing]
    for node, policy in queues:
        for each in cluster.of(node.name):
            if each.uses(demand.contested) and may_drive_out(demand, each, policy):
                yield each


class _Attempt:
    """One search for room. `gone` are those that are driven out so far: they are removed from the cluster."""

    def __init__(self, cluster: Cluster, demand: Demand) -> None:
        self._cluster = cluster
        self._demand = demand
        self.gone: list[Workload] = []
        self.is_done = False

    def first(self, candidates: Iterable[Workload], strategy: str) -> list[Workload]:
        """The first strategy; gives those that it spares (`runFirstFsStrategy`)."""
        own = self._demand.node
        is_entitled = not any(own.borrows_with(key) for key in self._demand.contested)
        spared: list[Workload] = []
        order = _Order(own, candidates)
        for node in order:
            if self.is_done:
                break
            if node is own or is_entitled:
                self._drive_out(order.pop(node))
            else:
                spared += self._unfair(order, node, strategy)
        return spared

    def _unfair(self, order: _Order, node: Node, strategy: str) -> list[Workload]:
        """Drive out the first job of a queue that the strategy allows; gives those that it spares."""
        ours, theirs = order.shares(node)
        spared = []
        hopeless = math.isinf(ours.weighted) and not math.isinf(theirs.weighted)
        while order.waiting(node):
            each = order.pop(node)
            if not hopeless:
                with lacking(node, each.usage):
                    then = order.shares(node)[1]
                if ours.rank <= then.rank if strategy == FINAL else ours.rank < theirs.rank:
                    self._drive_out(each)
                    break
            spared.append(each)
        return spared

    def second(self, candidates: Iterable[Workload]) -> None:
        """The second one, which asks each queue once (`runSecondFsStrategy`)."""
        order = _Order(self._demand.node, candidates)
        for node in order:
            if self.is_done:
                break
            ours, theirs = order.shares(node)
            each = order.pop(node)
            if ours.rank < theirs.rank:
                self._drive_out(each)
            order.drop(node)

    def _drive_out(self, workload: Workload) -> None:
        self._cluster.remove(workload)
        self.gone.append(workload)
        with lacking(self._demand.node, self._demand.usage):
            self.is_done = fits(self._demand, borrow=True)


class _Order:
    """Queues, the one with the largest share first, again after each change (`TargetClusterQueueOrdering`)."""

    def __init__(self, own: Node, candidates: Iterable[Workload]) -> None:
        self._own = own
        self._above = list(own.path())
        self._left: dict[str, list[Workload]] = {}
        self._dropped: set[Node] = set()
        for each in candidates:
            self._left.setdefault(each.job.queue, []).append(each)

    def waiting(self, node: Node) -> bool:
        """Whether jobs of a queue are left."""
        return bool(self._left.get(node.name))

    def pop(self, node: Node) -> Workload:
        """The next of a queue."""
        return self._left[node.name].pop(0)

    def drop(self, node: Node) -> None:
        """Ask this queue no more."""
        self._dropped.add(node)

    def __iter__(self) -> Iterator[Node]:
        if self._own.parent is None:
            while self._own not in self._dropped and self.waiting(self._own):
                yield self._own
            return
        root = self._own.root()
        while root not in self._dropped:
            node = self._next(root)
            if node is not None:
                yield node

    def _next(self, cohort: Node) -> Node | None:
        """`nextTarget`; None where only something was dropped."""
        at: Node | None = cohort
        while at is not None:
            cohort = at
            queue, queues_share = self._first_queue(cohort)
            inner, inner_share = self._first_cohort(cohort)
            at = inner if inner_share.rank >= queues_share.rank else None
            if at is None and queue is not None:
                return queue
        self._dropped.add(cohort)
        return None

    def _first_cohort(self, cohort: Node) -> tuple[Node | None, Share]:
        first, most = None, NOBODY
        for each in cohort.cohorts:
            if each in self._dropped:
                continue
            found = share(each)
            if not found.borrowed and each not in self._above:
                self._dropped.add(each)
            elif found.rank >= most.rank:
                first, most = each, found
        return first, most

    def _first_queue(self, cohort: Node) -> tuple[Node | None, Share]:
        """Of those with the same share it is that whose next job comes first."""
        first, most, order = None, NOBODY, in_order(self._own.name)
        for each in cohort.queues:
            if each in self._dropped:
                continue
            found = share(each)
            if (not found.borrowed and each is not self._own) or not self.waiting(each):
                self._dropped.add(each)
            elif found.rank > most.rank:
                first, most = each, found
            elif first is not None and found.rank == most.rank:
                first = min(first, each, key=lambda node: order(self._left[node.name][0]))
        return first, most

    def shares(self, node: Node) -> tuple[Share, Share]:
        """Those of both sides right below the lowest cohort that both are in (`ComputeShares`)."""
        common = next(each for each in node.path() if each in self._above)
        return share(_below(self._own, common)), share(_below(node, common))


def _below(node: Node, cohort: Node) -> Node:
    """The queue or the cohort around it that is right below a cohort."""
    return next(each for each in (node, *node.path()) if each.parent is cohort)
