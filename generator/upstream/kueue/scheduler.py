"""Kueue's scheduler: one cycle over the first workload of each queue, and the pending workloads between cycles.

Source: kueue v0.19.2 pkg/scheduler/scheduler.go; kueue v0.19.2 pkg/scheduler/fair_sharing_iterator.go; kueue v0.19.2
pkg/scheduler/preemption/preemption_oracle.go; kueue v0.19.2 pkg/cache/queue/cluster_queue.go; kueue v0.19.2
pkg/cache/queue/inadmissible_workloads.go.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from generator.objects.queue import Amounts, ClusterQueue, Flavor, FlavorResource
from generator.upstream.kueue.configuration import NEWEST, Rules
from generator.upstream.kueue.flavor_assigner import Assigner, Assignment, Mode, Tried, lowest_that_fits
from generator.upstream.kueue.placement import Occupancy
from generator.upstream.kueue.preemption import Demand, child_below, find_fair_targets, find_targets, share
from generator.upstream.kueue.queues import Node
from generator.upstream.kueue.workloads import Cluster, Workload, add, has_room, having, remove

_Reserved = tuple[Amounts, tuple[Occupancy, ...]]
"""The quota and the topology domains that a job takes for the rest of a cycle."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first workload of a queue, with the flavors at which its previous attempt stopped (`tried`)."""

    workload: Workload
    tried: Tried = ()


@dataclass(slots=True)
class Entry:
    """A workload in a cycle of the scheduler.

    Attributes:
        node: the node of the workload's queue in the quota tree.
        gets: the flavors that the workload would get.
        targets: the workloads that Kueue would preempt for it.
        is_admitted: True if Kueue admits the workload in this cycle.
        is_preempting: True if the workload preempts its targets in this cycle.
        is_skipped: True if an earlier workload of the cycle took its quota or domains; the next cycle tries it again.
    """

    head: Head
    node: Node
    gets: Assignment
    targets: list[Workload]
    is_admitted: bool = False
    is_preempting: bool = False
    is_skipped: bool = False


@dataclass(slots=True)
class Scheduler:
    """The scheduler.

    Attributes:
        strategies: the preemption strategies of fair sharing; empty if it is disabled.
        admitted: the number of admissions so far.
    """

    cluster: Cluster
    flavors: Mapping[str, Flavor]
    strategies: tuple[str, ...] = ()
    rules: Rules = NEWEST
    admitted: int = field(default=0, init=False)

    def cycle(self, heads: list[Head]) -> list[Entry]:
        """Run one cycle over the first workloads of the queues, and start the admitted workloads.

        The caller stops the preempted workloads. The result has one entry for each workload in `heads`, in the order in
        which Kueue decides on them.

        Raises:
            NotModelledError: the result depends on unknown nodes.
        """
        entries = [self._nominate(head) for head in heads]
        reserved: list[tuple[Node, _Reserved]] = []
        preempted: list[Workload] = []
        processed: list[Entry] = []
        for entry in self._in_order(entries):
            usage, occupancies = held = self._process(entry, preempted)
            processed.append(entry)
            add(entry.node, usage)
            self.cluster.sites.take(occupancies)
            reserved.append((entry.node, held))
        for node, (usage, occupancies) in reversed(reserved):
            remove(node, usage)
            self.cluster.sites.give_back(occupancies)
        for entry in processed:
            if entry.is_admitted:
                self.admitted += 1
                self.cluster.sites.check(entry.gets.occupancies)
                self.cluster.add(replace(entry.head.workload, gets=entry.gets, admitted=self.admitted))
        return processed

    def _nominate(self, head: Head, pinned: Assignment | None = None) -> Entry:
        """Assign flavors to a workload (`getAssignments`): the flavors of `pinned` if it is given."""
        node = self.cluster.nodes[head.workload.job.queue]
        queue = node.queue or ClusterQueue(node.name)
        assigner = Assigner(
            queue=queue,
            node=node,
            flavors=self.flavors,
            oracle=lambda key, amount: self._simulate_preemption(head.workload, node, key, amount),
            is_fair=bool(self.strategies),
            tried=() if pinned else head.tried,
            sites=self.cluster.sites,
            pinned=pinned,
            rules=self.rules,
        )
        podsets, placer = head.workload.job.podsets, assigner.placer(self.cluster.sites)
        gets = assigner.assign(podsets)
        targets: list[Workload] = []
        if gets.mode is Mode.NO_CANDIDATES:
            usage = {key: amount for key, amount in gets.usage.items() if amount}
            demand = Demand(head.workload, node, usage, gets.contested, lambda: placer.has_place(gets, podsets))
            targets = self._find_targets(demand)
            with self.cluster.without(targets):
                placer.reserve_domains(gets, podsets, is_empty=not targets)
        return Entry(head, node, gets, targets)

    def _find_targets(self, demand: Demand) -> list[Workload]:
        if self.strategies:
            return find_fair_targets(self.cluster, demand, self.strategies)
        return find_targets(self.cluster, demand)

    def _simulate_preemption(
        self, workload: Workload, node: Node, key: FlavorResource, amount: int
    ) -> tuple[Mode, int]:
        """Return (mode of an amount after preemption, height of the lender): `SimulatePreemption`."""
        targets = self._find_targets(Demand(workload, node, {key: amount}, frozenset((key,))))
        with self.cluster.without(targets):
            borrowing, _ = lowest_that_fits(node, key, amount)
        if not targets:
            return Mode.NO_CANDIDATES, borrowing
        is_own = any(target.job.queue == node.name for target in targets)
        return Mode.PREEMPT if is_own else Mode.RECLAIM, borrowing

    def _process(self, entry: Entry, preempted: list[Workload]) -> _Reserved:
        """Decide on a workload, and return the quota and domains that it takes in this cycle (`processEntry`)."""
        with self.cluster.without([*preempted, *entry.targets]):
            is_crowded = has_room(entry.node, entry.gets.usage) and not self.cluster.sites.holds(entry.gets.occupancies)
        if is_crowded:  # earlier workloads took its domains, but other domains may be free
            again = self._nominate(entry.head, entry.gets)
            entry.gets, entry.targets = again.gets, again.targets
        if entry.gets.mode is Mode.NO_FIT:
            return {}, ()
        if entry.gets.mode is not Mode.FIT and not entry.targets:
            return self._reserve(entry)
        names = {workload.job.name for workload in preempted}
        is_shared = any(target.job.name in names for target in entry.targets)
        with self.cluster.without([*preempted, *entry.targets]):
            has_places = self.cluster.sites.holds(entry.gets.occupancies)
            entry.is_skipped = is_shared or not (has_places and has_room(entry.node, entry.gets.usage))
        if entry.is_skipped:
            return {}, ()
        preempted += entry.targets
        entry.is_admitted = entry.gets.mode is Mode.FIT
        entry.is_preempting = not entry.is_admitted
        return entry.gets.usage, entry.gets.occupancies

    def _reserve(self, entry: Entry) -> _Reserved:
        """Return the quota and domains to reserve for a workload that can neither run nor preempt.

        They are empty if the queue can reclaim its quota from any workload (`quotaResourcesToReserve`).
        """
        node, rules = entry.node, entry.node.queue.preemption if entry.node.queue else None
        if rules and rules.reclaim_within_cohort == "Any":
            return {}, ()
        kept: Amounts = {}
        for key, amount in entry.gets.usage.items():
            quota, used = node.quota(key), node.uses(key)
            if not entry.gets.borrowing:
                kept[key] = max(0, min(amount, quota.nominal - used))
            elif quota.borrowing is None:
                kept[key] = amount
            else:
                kept[key] = min(amount, quota.nominal + quota.borrowing - used)
        return kept, entry.gets.occupancies

    def _in_order(self, entries: list[Entry]) -> Iterator[Entry]:
        """Yield workloads in the order of Kueue's decisions: with fair sharing by share, else by least borrowing."""
        if self.strategies:
            yield from _in_fair_order(entries)
            return
        yield from sorted(entries, key=lambda entry: (entry.gets.borrowing, *_precedence(entry)))


def _precedence(entry: Entry) -> tuple[int, int]:
    return -entry.head.workload.job.priority, entry.head.workload.number


def _in_fair_order(entries: list[Entry]) -> Iterator[Entry]:
    """Yield the workloads by smallest share at each cohort level. Shares are computed again for each workload.

    Kueue calls this `fairSharingIterator`.
    """
    left = list(entries)
    while left:
        root = left[0].node.root()
        group = {entry.node.name: entry for entry in left if entry.node.root() is root}
        first = _winner(root, group) if root.queue is None else left[0]
        if first is not None:  # always true, because `group` contains `left[0]`
            left.remove(first)
            yield first


def _winner(root: Node, entries: Mapping[str, Entry]) -> Entry | None:
    """Return the workload on which Kueue decides first: each cohort passes on the first of its children.

    Without a workload below the root, the result is None. Kueue calls this `runTournament`.
    """
    winners: dict[Node, Entry | None] = {}
    for cohort in root.nested():
        candidates = [winners[child] for child in cohort.cohorts] + [entries.get(child.name) for child in cohort.queues]
        present = [entry for entry in candidates if entry is not None]
        winners[cohort] = min(present, key=partial(_rank, cohort), default=None)
    return winners[root]


def _rank(cohort: Node, entry: Entry) -> tuple[bool, tuple[bool, float], int, int]:
    """Return the sort key of a workload: borrowing last, then smallest share of its branch, then highest priority."""
    with having(entry.node, entry.gets.usage):
        after = share(child_below(entry.node, cohort))
    is_borrowing = any(entry.gets.usage.get(key, 0) > 0 for key in after.borrowed)
    return (is_borrowing, after.rank, *_precedence(entry))


@dataclass(eq=False, slots=True)
class _Pending:
    """A pending workload.

    Attributes:
        tried: the flavors at which the last attempt stopped.
        tried_in: the number of the cycle of the last attempt.
        change: the number of changes of the queue before the last attempt.
        is_inadmissible: True if Kueue does not try the workload again until a job releases quota.
        is_first: True if the workload comes first in its queue, because Kueue preempted workloads for it.
    """

    workload: Workload
    queue: ClusterQueue
    tried: Tried = ()
    tried_in: int = 0
    change: int = 0
    is_inadmissible: bool = False
    is_first: bool = False

    def order(self) -> tuple[bool, int, int]:
        """Return the sort key in the queue: `is_first`, then highest priority, then oldest (`baseCompareFunc`)."""
        return not self.is_first, -self.workload.job.priority, self.workload.number

    def is_like(self, other: Workload) -> bool:
        """Return True if Kueue treats the workload and the other one as equal (`computeSchedulingHash`)."""
        own, job = self.workload.job, other.job
        return (own.queue, own.priority, own.podsets) == (job.queue, job.priority, job.podsets)


class Waiting:
    """The pending workloads of all queues."""

    def __init__(self, rules: Rules = NEWEST) -> None:
        self._rules = rules
        self._pending: dict[str, _Pending] = {}
        self._inadmissible: list[_Pending] = []  # Kueue does not try workloads that equal one of them
        self._cycle = 0
        self._changes: dict[str, int] = {}

    def enter(self, workload: Workload, queue: ClusterQueue) -> None:
        """Add a workload to a queue.

        It is inadmissible if Kueue treats it as equal to an inadmissible workload. StrictFIFO queues have no such rule.
        """
        is_known = queue.strategy != "StrictFIFO" and any(item.is_like(workload) for item in self._inadmissible)
        self._pending[workload.job.name] = _Pending(workload, queue, is_inadmissible=is_known)

    def leave(self, name: str) -> None:
        """Remove the workload of the job with this name."""
        self._pending.pop(name, None)

    def before(self, workload: Workload) -> list[str]:
        """Return the names of the pending jobs that come before a pending workload in its queue."""
        own = self._pending[workload.job.name]
        queue = sorted((other for other in self._pending.values() if other.queue is own.queue), key=_Pending.order)
        return [other.workload.job.name for other in queue[: queue.index(own)]]

    def heads(self) -> list[Head]:
        """Return the first admissible workload of each queue."""
        first: dict[str, _Pending] = {}
        for pending in sorted(self._pending.values(), key=_Pending.order):
            if not pending.is_inadmissible:
                first.setdefault(pending.queue.name, pending)
        return [Head(pending.workload, pending.tried if self._continues(pending) else ()) for pending in first.values()]

    def _continues(self, pending: _Pending) -> bool:
        """Return True if the next attempt continues after the last tried flavor (`lastAssignmentOutdated`)."""
        is_new = self._rules.keeps_progress and pending.tried_in == self._cycle
        return is_new or pending.change == self._changes.get(pending.queue.name, 0)

    def note_change(self, queue: str) -> None:
        """Count a change of a queue: Kueue admitted or stopped one of its workloads."""
        self._changes[queue] = self._changes.get(queue, 0) + 1

    def put_back(self, entries: list[Entry]) -> bool:
        """Queue the workloads that the last cycle did not admit; return True if one of them became inadmissible."""
        self._cycle += 1
        inadmissible = [self._put_back(entry) for entry in entries if not entry.is_admitted]
        return any(inadmissible)

    def _put_back(self, entry: Entry) -> bool:
        """Queue a workload that was not admitted; return True if it is now inadmissible (`requeueIfNotPresent`)."""
        pending = self._pending[entry.head.workload.job.name]
        pending.tried, pending.tried_in = entry.gets.tried, self._cycle
        pending.change = self._changes.get(pending.queue.name, 0)
        if entry.is_preempting:
            pending.is_first, pending.tried = True, ()
            return False
        if entry.is_skipped and not self._rules.keeps_progress:
            pending.tried = ()
        if entry.is_skipped or entry.gets.has_untried_flavors or pending.queue.strategy == "StrictFIFO":
            return False
        self._inadmissible.append(pending)
        for other in self._pending.values():
            other.is_inadmissible = other.is_inadmissible or other.is_like(pending.workload)
        return True

    def retry_inadmissible(self, queues: Container[str]) -> None:
        """Make all workloads of these queues admissible again (`queueInadmissibleWorkloads`)."""
        self._inadmissible = [pending for pending in self._inadmissible if pending.queue.name not in queues]
        for pending in self._pending.values():
            pending.is_inadmissible = pending.is_inadmissible and pending.queue.name not in queues
