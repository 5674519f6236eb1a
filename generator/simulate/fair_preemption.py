"""Whom Kueue drives out to make room for a job where fair sharing is on.

kueue v0.19.2 pkg/scheduler/preemption/preemption.go `fairPreemptions`, fairsharing/{ordering,target,strategy}.go

Where two cohorts have exactly the same share, Kueue takes either of them, by chance: `nextTarget` goes through an
unordered set. Here it is the last by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from generator.simulate.balance import Node
from generator.simulate.cluster import Cluster, Workload, having, lacking
from generator.simulate.preemption import Demand, fill_back, fits, in_order, may_drive_out
from generator.simulate.shares import NOBODY, Share, share

FINAL, INITIAL = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
STRATEGIES = ((FINAL,), (INITIAL,), (FINAL, INITIAL))
"""Kueue refuses others: pkg/config/validation.go `validateFairSharing`."""


def targets(cluster: Cluster, demand: Demand, strategies: tuple[str, ...]) -> list[Workload]:
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
