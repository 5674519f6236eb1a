"""Kueue's scheduler: one cycle over the heads of the queues, and the pending workloads between cycles.

Source: kueue v0.19.2 pkg/scheduler/scheduler.go, fair_sharing_iterator.go,
pkg/scheduler/preemption/preemption_oracle.go, pkg/cache/queue/cluster_queue.go, inadmissible_workloads.go.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from generator.objects.amounts import Amounts, FlavorResource, positive
from generator.simulate.kueue import preemption
from generator.simulate.kueue import preemption as fair_preemption
from generator.simulate.kueue.assignment import Assignment, Mode, Tried
from generator.simulate.kueue.configuration import NEWEST, Rules
from generator.simulate.kueue.flavor_assigner import Assigner, lowest_that_fits
from generator.simulate.kueue.placement import Stay
from generator.simulate.kueue.preemption import Demand, Share, share
from generator.simulate.kueue.queues import ClusterQueue, Flavor
from generator.simulate.kueue.quota_tree import Node
from generator.simulate.kueue.workloads import Cluster, Workload, add, has_room, having, remove

_Held = tuple[Amounts, tuple[Stay, ...]]
"""Amounts and places that nobody else may have in a cycle."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first job of a queue, and where an attempt just before was broken off."""

    workload: Workload
    tried: Tried = ()


@dataclass(slots=True)
class Entry:
    """A job in a cycle.

    Attributes:
        head: the job.
        node: its queue.
        gets: what it would get.
        targets: whom it would drive out.
        is_admitted: it runs now.
        is_preempting: those are driven out now.
        is_overtaken: another one came first in this cycle; it is tried again at once.
    """

    head: Head
    node: Node
    gets: Assignment
    targets: list[Workload]
    is_admitted: bool = False
    is_preempting: bool = False
    is_overtaken: bool = False


@dataclass(slots=True)
class Scheduler:
    """Kueue with its configuration and version; `strategies` are those of fair sharing, none where it is off."""

    cluster: Cluster
    flavors: Mapping[str, Flavor]
    strategies: tuple[str, ...] = ()
    rules: Rules = NEWEST
    _admitted: int = field(default=0, init=False)

    def cycle(self, heads: list[Head]) -> list[Entry]:
        """Decide on these jobs; admitted ones run afterwards, and whoever is driven out runs still.

        Raises:
            NotModelledError: it depends on nodes that are not known where pods are placed.
        """
        entries = [self._nominate(head) for head in heads]
        reserved: list[tuple[Node, _Held]] = []
        gone: list[Workload] = []
        done: list[Entry] = []
        for entry in self._in_order(entries):
            usage, stays = held = self._process(entry, gone)
            done.append(entry)
            add(entry.node, usage)
            self.cluster.sites.take(stays)
            reserved.append((entry.node, held))
        for node, (usage, stays) in reversed(reserved):
            remove(node, usage)
            self.cluster.sites.give_back(stays)
        for entry in done:
            if entry.is_admitted:
                self._admitted += 1
                self.cluster.sites.check(entry.gets.stays)
                self.cluster.add(replace(entry.head.workload, gets=entry.gets, admitted=self._admitted))
        return done

    def _nominate(self, head: Head, pinned: Assignment | None = None) -> Entry:
        """What it would get as things are (`getAssignments`); if `pinned`, then of the same flavors as there."""
        node = self.cluster.nodes[head.workload.job.queue]
        queue = node.queue or ClusterQueue(node.name)
        assigner = Assigner(
            queue=queue,
            node=node,
            flavors=self.flavors,
            oracle=lambda key, amount: self._after_preemption(head.workload, node, key, amount),
            is_fair=bool(self.strategies),
            tried=() if pinned else head.tried,
            sites=self.cluster.sites,
            pinned=pinned,
            rules=self.rules,
        )
        podsets, placing = head.workload.job.podsets, assigner.placing(self.cluster.sites)
        gets = assigner.assign(podsets)
        targets: list[Workload] = []
        if gets.mode is Mode.NO_CANDIDATES:
            usage = dict(positive(gets.usage))
            demand = Demand(head.workload, node, usage, gets.contested, lambda: placing.has_place(gets, podsets))
            targets = self._targets(demand)
            with self.cluster.without(targets):
                placing.after_preemption(gets, podsets, is_empty=not targets)
        return Entry(head, node, gets, targets)

    def _targets(self, demand: Demand) -> list[Workload]:
        if self.strategies:
            return fair_preemption.find_fair_targets(self.cluster, demand, self.strategies)
        return preemption.find_targets(self.cluster, demand)

    def _after_preemption(self, workload: Workload, node: Node, key: FlavorResource, amount: int) -> tuple[Mode, int]:
        """`SimulatePreemption`."""
        targets = self._targets(Demand(workload, node, {key: amount}, frozenset((key,))))
        with self.cluster.without(targets):
            borrowing, _ = lowest_that_fits(node, key, amount)
        if not targets:
            return Mode.NO_CANDIDATES, borrowing
        is_own = any(each.job.queue == node.name for each in targets)
        return Mode.PREEMPT if is_own else Mode.RECLAIM, borrowing

    def _process(self, entry: Entry, gone: list[Workload]) -> _Held:
        """Decide; gives what nobody else may have in this cycle (`processEntry`)."""
        with self.cluster.without([*gone, *entry.targets]):
            is_crowded = has_room(entry.node, entry.gets.usage) and not self.cluster.sites.holds(entry.gets.stays)
        if is_crowded:  # others took its places in this cycle: maybe there are more
            again = self._nominate(entry.head, entry.gets)
            entry.gets, entry.targets = again.gets, again.targets
        if entry.gets.mode is Mode.NO_FIT:
            return {}, ()
        if entry.gets.mode is not Mode.FIT and not entry.targets:
            return self._reserved(entry)
        names = {each.job.name for each in gone}
        is_shared = any(each.job.name in names for each in entry.targets)
        with self.cluster.without([*gone, *entry.targets]):
            has_places = self.cluster.sites.holds(entry.gets.stays)
            entry.is_overtaken = is_shared or not (has_places and has_room(entry.node, entry.gets.usage))
        if entry.is_overtaken:
            return {}, ()
        gone += entry.targets
        entry.is_admitted = entry.gets.mode is Mode.FIT
        entry.is_preempting = not entry.is_admitted
        return entry.gets.usage, entry.gets.stays

    def _reserved(self, entry: Entry) -> _Held:
        """Of a job that cannot make room, unless its queue takes back its own anyhow (`quotaResourcesToReserve`)."""
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
        return kept, entry.gets.stays

    def _in_order(self, entries: list[Entry]) -> Iterator[Entry]:
        """Without fair sharing: who borrows least, then the highest priority, then who came first."""
        if self.strategies:
            yield from _fairly(entries)
            return
        yield from sorted(entries, key=lambda each: (each.gets.borrowing, *_precedence(each)))


def _precedence(entry: Entry) -> tuple[int, int]:
    return -entry.head.workload.job.priority, entry.head.workload.number


def _fairly(entries: list[Entry]) -> Iterator[Entry]:
    """At every level of cohorts who then has the smallest share, again after each (`fairSharingIterator`)."""
    left = list(entries)
    while left:
        root = left[0].node.root()
        group = {each.node.name: each for each in left if each.node.root() is root}
        first = _winner(root, group) if root.queue is None else left[0]
        if first is not None:  # there is one as long as the group has any
            left.remove(first)
            yield first


def _winner(root: Node, entries: Mapping[str, Entry]) -> Entry | None:
    """`runTournament`: at each cohort between those who won in the cohorts below, and its own queues."""
    first: dict[Node, Entry | None] = {}
    for cohort in root.nested():
        inner = [first[each] for each in cohort.cohorts]
        candidates = [*inner, *(entries.get(each.name) for each in cohort.queues)]
        there = [each for each in candidates if each is not None]
        first[cohort] = min(there, key=partial(_rank, cohort), default=None)
    return first[root]


def _rank(cohort: Node, entry: Entry) -> tuple[bool, tuple[bool, float], int, int]:
    """Whether its part of the cohort would borrow what it asks for, the share that this would have, and its turn."""
    with having(entry.node, entry.gets.usage):
        there: Share = share(next(each for each in (entry.node, *entry.node.path()) if each.parent is cohort))
    is_borrowing = any(entry.gets.usage.get(key, 0) > 0 for key in there.borrowed)
    return (is_borrowing, there.rank, *_precedence(entry))


@dataclass(eq=False, slots=True)
class _Ticket:
    """A job that waits.

    Attributes:
        workload: the job.
        queue: where.
        tried: where the last attempt was broken off.
        tried_in: the cycle of that attempt.
        change: how often the queue had changed by then.
        is_asleep: it is tried again only after something was given back.
        is_first: it comes before others of its queue, as somebody was driven out for it.
    """

    workload: Workload
    queue: ClusterQueue
    tried: Tried = ()
    tried_in: int = 0
    change: int = 0
    is_asleep: bool = False
    is_first: bool = False

    def turn(self) -> tuple[bool, int, int]:
        """Its place in the queue: the highest priority first, then the oldest (`baseCompareFunc`)."""
        return not self.is_first, -self.workload.job.priority, self.workload.number

    def is_like(self, other: Workload) -> bool:
        """Whether Kueue takes both for the same (`computeSchedulingHash`)."""
        ours, theirs = self.workload.job, other.job
        return (ours.queue, ours.priority, ours.podsets) == (theirs.queue, theirs.priority, theirs.podsets)


class Waiting:
    """All jobs that wait."""

    def __init__(self, rules: Rules = NEWEST) -> None:
        self._rules = rules
        self._tickets: dict[str, _Ticket] = {}
        self._hopeless: list[_Ticket] = []  # what was tried in vain; who is like these is not even tried
        self._cycle = 0
        self._changes: dict[str, int] = {}

    def enter(self, workload: Workload, queue: ClusterQueue) -> None:
        """A job comes, or comes back."""
        is_known = queue.strategy != "StrictFIFO" and any(each.is_like(workload) for each in self._hopeless)
        self._tickets[workload.job.name] = _Ticket(workload, queue, is_asleep=is_known)

    def leave(self, name: str) -> None:
        """A job waits no more."""
        self._tickets.pop(name, None)

    def heads(self) -> list[Head]:
        """The first of each queue that is awake; where the order is strict, nobody sleeps."""
        first: dict[str, _Ticket] = {}
        for each in sorted(self._tickets.values(), key=_Ticket.turn):
            if not each.is_asleep:
                first.setdefault(each.queue.name, each)
        return [Head(each.workload, each.tried if self._counts(each) else ()) for each in first.values()]

    def _counts(self, ticket: _Ticket) -> bool:
        """Whether an attempt goes on where the last one was broken off (`lastAssignmentOutdated`)."""
        is_new = self._rules.keeps_progress and ticket.tried_in == self._cycle
        return is_new or ticket.change == self._changes.get(ticket.queue.name, 0)

    def note_change(self, queue: str) -> None:
        """A job of this queue was admitted, or stopped."""
        self._changes[queue] = self._changes.get(queue, 0) + 1

    def put_back(self, entries: list[Entry]) -> bool:
        """Those that were tried in a cycle, and are not admitted; whether any of them sleeps now."""
        self._cycle += 1
        slept = [self._put_back(entry) for entry in entries if not entry.is_admitted]
        return any(slept)

    def _put_back(self, entry: Entry) -> bool:
        """`requeueIfNotPresent`."""
        ticket = self._tickets[entry.head.workload.job.name]
        ticket.tried, ticket.tried_in = entry.gets.tried, self._cycle
        ticket.change = self._changes.get(ticket.queue.name, 0)
        if entry.is_preempting:
            ticket.is_first, ticket.tried = True, ()
            return False
        if entry.is_overtaken and not self._rules.keeps_progress:
            ticket.tried = ()
        if entry.is_overtaken or entry.gets.is_broken_off or ticket.queue.strategy == "StrictFIFO":
            return False
        self._hopeless.append(ticket)
        for each in self._tickets.values():
            each.is_asleep = each.is_asleep or each.is_like(ticket.workload)
        return True

    def wake(self, queues: Container[str]) -> None:
        """Something was given back: all of these queues are tried again (`queueInadmissibleWorkloads`)."""
        self._hopeless = [each for each in self._hopeless if each.queue.name not in queues]
        for each in self._tickets.values():
            each.is_asleep = each.is_asleep and each.queue.name not in queues
