"""The jobs that wait, and which of each queue is tried next.

kueue v0.19.2 pkg/cache/queue/cluster_queue.go, inadmissible_workloads.go; pkg/scheduler/scheduler.go
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from generator.simulate.assignment import Tried
from generator.simulate.cluster import Workload
from generator.simulate.kueue_rules import NEWEST, Rules
from generator.simulate.queues import ClusterQueue
from generator.simulate.scheduling import Entry, Head


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
