"""What happens to queues, and what comes of it: jobs that are sent, jobs that finish, and where each of them stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from generator.simulate.podsets import PodSet


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
