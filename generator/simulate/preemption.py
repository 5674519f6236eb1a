"""Whom Kueue drives out to make room for a job, without fair sharing.

kueue v0.19.2 pkg/scheduler/preemption/preemption.go `classicalPreemptions`, classical/hierarchical_preemption.go,
classical/candidate_generator.go, common/ordering.go, common/preemption_policy.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from generator.simulate.amounts import Amounts, FlavorResource
from generator.simulate.balance import Node
from generator.simulate.cluster import Cluster, Workload
from generator.simulate.queues import Preemption


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


def targets(cluster: Cluster, demand: Demand) -> list[Workload]:
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
