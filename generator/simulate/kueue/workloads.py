"""Workloads: jobs, the quota and nodes that running jobs use, and the outcome of each job.

Source: kueue v0.19.2 pkg/cache/scheduler/snapshot.go, clusterqueue_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from generator.objects.queue import Amounts, FlavorResource
from generator.simulate.kueue.flavor_assigner import Assignment
from generator.simulate.kueue.placement import Occupancy, Sites
from generator.simulate.kueue.podsets import PodSet
from generator.simulate.kueue.queues import Node


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is submitted to a ClusterQueue. Without a namespace, its `namespaceSelector` is ignored."""

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
    """The state of a job. `NEVER`: it occupancies pending even while all other queues are idle."""

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
        reason: why the job is pending, with the numbers.
        history: its events, such as `admitted`, `preempted by b`.
        places: PodSet → leaf domain → number of pods, for pods that are placed by topology.
    """

    state: State
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    borrows: bool = False
    reason: str = ""
    history: tuple[str, ...] = ()
    places: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def was_preempted(self) -> bool:
        """True if another job ever preempted this job."""
        return any(event.startswith("preempted") for event in self.history)


@dataclass(frozen=True, eq=False, slots=True)
class Workload:
    """A job with its order of submission and of admission, and its assignment while it runs."""

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
        """Return the running workloads of a queue, in the order of submission."""
        return sorted(self.running.get(queue, {}).values(), key=lambda workload: workload.number)

    def add(self, workload: Workload) -> None:
        """Start a workload."""
        self.running.setdefault(workload.job.queue, {})[workload.job.name] = workload
        self._take(workload)

    def remove(self, workload: Workload) -> None:
        """Stop a workload."""
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
        """Remove the usage of workloads inside the block (`SimulateWorkloadUsageRemoval`)."""
        removed = list({workload.job.name: workload for workload in workloads}.values())
        for workload in removed:
            self._give_back(workload)
        try:
            yield
        finally:
            for workload in reversed(removed):
                self._take(workload)


def add(node: Node, usage: Amounts) -> None:
    """Add usage to a queue."""
    for key, amount in usage.items():
        node.add(key, amount)


def remove(node: Node, usage: Amounts) -> None:
    """Remove usage from a queue."""
    for key, amount in usage.items():
        node.remove(key, amount)


@contextmanager
def having(node: Node, usage: Amounts) -> Iterator[None]:
    """Add usage to a queue inside the block (`SimulateUsageAddition`)."""
    add(node, usage)
    try:
        yield
    finally:
        remove(node, usage)


@contextmanager
def lacking(node: Node, usage: Amounts) -> Iterator[None]:
    """Remove usage from a queue inside the block (`SimulateUsageRemoval`)."""
    remove(node, usage)
    try:
        yield
    finally:
        add(node, usage)


def has_room(node: Node, usage: Amounts) -> bool:
    """Return True if a queue has free quota for an amount of usage."""
    return all(amount <= max(0, node.available(key)) for key, amount in usage.items())
