"""Workloads: jobs, the quota and nodes that running jobs use, and the outcome of each job.

Source: kueue v0.19.2 pkg/cache/scheduler/snapshot.go, clusterqueue_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from generator.objects.amounts import Amounts, FlavorResource
from generator.simulate.kueue.assignment import Assignment
from generator.simulate.kueue.placement import Sites, Stay
from generator.simulate.kueue.podsets import PodSet
from generator.simulate.kueue.quota_tree import Node


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is sent to a queue.

    Attributes:
        name: no two jobs have the same.
        queue: the ClusterQueue that it comes to.
        podsets: its pods, as `podsets` gives them of a runtime.
        priority: of its WorkloadPriorityClass or PriorityClass.
        namespace: where it is; empty where the queue takes jobs of any.
    """

    name: str
    queue: str
    podsets: tuple[PodSet, ...]
    priority: int = 0
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The job of this name is done, or deleted."""

    name: str


class State(Enum):
    """Where a job stands.

    `NEVER`: not even if nobody else had anything, or its queue admits nothing.
    """

    ADMITTED = "admitted"
    WAITS = "waits"
    NEVER = "never"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job.

    Attributes:
        state: where it stands.
        flavors: of an admitted job: kind of pods → resource → flavor.
        borrows: whether it was admitted with more than its queue's own.
        reason: why it waits, or never comes: in numbers.
        history: all that happened to it, such as `admitted`, `preempted by b`.
        places: of pods that are placed by topology: kind of pods → node, or what is narrowest → how many are there.
    """

    state: State
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    borrows: bool = False
    reason: str = ""
    history: tuple[str, ...] = ()
    places: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def was_preempted(self) -> bool:
        """Whether others ever drove it out."""
        return any(each.startswith("preempted") for each in self.history)


@dataclass(frozen=True, eq=False, slots=True)
class Workload:
    """A job with its place in time, and if it is running, with what it has.

    Attributes:
        job: whose it is.
        number: it is the so-manieth that was sent; this never changes.
        gets: what it was admitted with; None while it waits.
        admitted: it is the so-manieth that was admitted.
    """

    job: Job
    number: int
    gets: Assignment | None = None
    admitted: int = 0

    @property
    def usage(self) -> Amounts:
        """What it has."""
        return self.gets.usage if self.gets else {}

    @property
    def stays(self) -> tuple[Stay, ...]:
        """Where its pods are that were placed by topology."""
        return self.gets.stays if self.gets else ()

    def uses(self, keys: frozenset[FlavorResource]) -> bool:
        """Whether it has anything of these (`WorkloadUsesResources`)."""
        return self.gets is not None and bool(self.gets.keys & keys)


@dataclass(slots=True)
class Cluster:
    """Queue → its place in the tree, and the jobs that run in it by name; and where their pods are."""

    nodes: Mapping[str, Node]
    sites: Sites
    running: dict[str, dict[str, Workload]] = field(default_factory=dict)

    def of(self, queue: str) -> list[Workload]:
        """What runs in a queue, in the order in which it was sent."""
        return sorted(self.running.get(queue, {}).values(), key=lambda each: each.number)

    def add(self, workload: Workload) -> None:
        """It runs now."""
        self.running.setdefault(workload.job.queue, {})[workload.job.name] = workload
        add(self.nodes[workload.job.queue], workload.usage)
        self.sites.take(workload.stays)

    def remove(self, workload: Workload) -> None:
        """It runs no more."""
        del self.running[workload.job.queue][workload.job.name]
        remove(self.nodes[workload.job.queue], workload.usage)
        self.sites.give_back(workload.stays)

    @contextmanager
    def without(self, workloads: Iterable[Workload]) -> Iterator[None]:
        """As if some had left what they have (`SimulateWorkloadUsageRemoval`)."""
        some = list({each.job.name: each for each in workloads}.values())
        for each in some:
            remove(self.nodes[each.job.queue], each.usage)
            self.sites.give_back(each.stays)
        try:
            yield
        finally:
            for each in reversed(some):
                add(self.nodes[each.job.queue], each.usage)
                self.sites.take(each.stays)


def add(node: Node, usage: Amounts) -> None:
    """Take amounts into use."""
    for key, amount in usage.items():
        node.add(key, amount)


def remove(node: Node, usage: Amounts) -> None:
    """Give amounts back."""
    for key, amount in usage.items():
        node.remove(key, amount)


@contextmanager
def having(node: Node, usage: Amounts) -> Iterator[None]:
    """As if a queue had more (`SimulateUsageAddition`)."""
    add(node, usage)
    try:
        yield
    finally:
        remove(node, usage)


@contextmanager
def lacking(node: Node, usage: Amounts) -> Iterator[None]:
    """As if a queue had less (`SimulateUsageRemoval`)."""
    remove(node, usage)
    try:
        yield
    finally:
        add(node, usage)


def has_room(node: Node, usage: Amounts) -> bool:
    """Whether amounts are free for a queue."""
    return all(amount <= max(0, node.available(key)) for key, amount in usage.items())
