"""Workloads: jobs, the quota and nodes that running jobs use, and the outcome of each job.

Source: kueue v0.19.2 pkg/cache/scheduler/snapshot.go; kueue v0.19.2 pkg/cache/scheduler/clusterqueue_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from generator.objects.queue import Amounts, FlavorResource
from generator.upstream.kueue.flavor_assigner import Assignment
from generator.upstream.kueue.placement import Occupancy, Sites
from generator.upstream.kueue.podsets import PodSet
from generator.upstream.kueue.queues import Node


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is submitted to a ClusterQueue. With an empty `namespace`, `namespaceSelector` is ignored."""

    name: str
    queue: str
    podsets: tuple[PodSet, ...]
    priority: int = 0
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The event that a job finishes or is deleted."""

    name: str


class State(Enum):
    """The state of a job.

    `ADMITTED`: it runs. `WAITS`: it is pending until other jobs release quota or nodes. `NEVER`: it stays pending even
    while all queues are idle. `FINISHED`: it finished or was deleted.
    """

    ADMITTED = "admitted"
    WAITS = "waits"
    NEVER = "never"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job.

    Attributes:
        flavors: PodSet → resource → flavor, for an admitted job.
        borrows: True if Kueue admitted the job with borrowed quota.
        reason: why the job is pending, with the amounts that it needs and that are free; or why Kueue ignores the job.
        history: the events of the job, such as `admitted` or `preempted by b`.
        places: PodSet → leaf domain, such as a node → number of pods; only pods that Kueue places by topology.
        before: the pending jobs that come before a waiting job in its queue.
    """

    state: State
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    borrows: bool = False
    reason: str = ""
    history: tuple[str, ...] = ()
    places: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    before: tuple[str, ...] = ()

    @property
    def was_preempted(self) -> bool:
        """True if a different job preempted this job at least once."""
        return any(event.startswith("preempted") for event in self.history)


@dataclass(frozen=True, eq=False, slots=True)
class Workload:
    """A job, its position in the order of submission and of admission, and the flavors that it has while it runs."""

    job: Job
    number: int
    gets: Assignment | None = None
    admitted: int = 0

    @property
    def usage(self) -> Amounts:
        """The quota that the workload uses."""
        return self.gets.usage if self.gets else {}

    @property
    def occupancies(self) -> tuple[Occupancy, ...]:
        """The leaf domains that the workload's pods occupy."""
        return self.gets.occupancies if self.gets else ()

    def uses(self, keys: frozenset[FlavorResource]) -> bool:
        """Return True if the workload uses one of these flavors and resources (`WorkloadUsesResources`)."""
        return self.gets is not None and bool(self.gets.keys & keys)


@dataclass(slots=True)
class Cluster:
    """The quota tree and the topology domains, with the workloads that run in each queue."""

    nodes: Mapping[str, Node]
    sites: Sites
    running: dict[str, dict[str, Workload]] = field(default_factory=dict)

    def of(self, queue: str) -> list[Workload]:
        """Return the running workloads of the ClusterQueue with this name, in the order of submission."""
        return sorted(self.running.get(queue, {}).values(), key=lambda workload: workload.number)

    def add(self, workload: Workload) -> None:
        """Start a workload: add its quota and its domains to the usage."""
        self.running.setdefault(workload.job.queue, {})[workload.job.name] = workload
        self._take(workload)

    def remove(self, workload: Workload) -> None:
        """Stop a workload: remove its quota and its domains from the usage."""
        del self.running[workload.job.queue][workload.job.name]
        self._give_back(workload)

    def _take(self, workload: Workload) -> None:
        add(self.nodes[workload.job.queue], workload.usage)
        self.sites.take(workload.occupancies)

    def _give_back(self, workload: Workload) -> None:
        remove(self.nodes[workload.job.queue], workload.usage)
        self.sites.give_back(workload.occupancies)

    @contextmanager
    def without(self, workloads: Iterable[Workload]) -> Iterator[None]:
        """Remove the usage of workloads while the `with` block runs (`SimulateWorkloadUsageRemoval`)."""
        removed = list({workload.job.name: workload for workload in workloads}.values())
        for workload in removed:
            self._give_back(workload)
        try:
            yield
        finally:
            for workload in reversed(removed):
                self._take(workload)


def add(node: Node, usage: Amounts) -> None:
    """Add usage, an amount of each flavor and resource, to a ClusterQueue in the quota tree."""
    for key, amount in usage.items():
        node.add(key, amount)


def remove(node: Node, usage: Amounts) -> None:
    """Remove usage, an amount of each flavor and resource, from a ClusterQueue in the quota tree."""
    for key, amount in usage.items():
        node.remove(key, amount)


@contextmanager
def having(node: Node, usage: Amounts) -> Iterator[None]:
    """Add usage to a queue while the `with` block runs (`SimulateUsageAddition`)."""
    add(node, usage)
    try:
        yield
    finally:
        remove(node, usage)


@contextmanager
def lacking(node: Node, usage: Amounts) -> Iterator[None]:
    """Remove usage from a queue while the `with` block runs (`SimulateUsageRemoval`)."""
    remove(node, usage)
    try:
        yield
    finally:
        add(node, usage)


def has_room(node: Node, usage: Amounts) -> bool:
    """Return True if a queue has free quota, including quota that it can borrow, for all amounts of a usage."""
    return all(amount <= max(0, node.available(key)) for key, amount in usage.items())
