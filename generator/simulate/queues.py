"""QueueTree: the flavors, cohorts and queues of a cluster, as values that can be asked.

kueue v0.19.2 apis/kueue/v1beta2; what follows from it: pkg/cache/hierarchy, pkg/cache/scheduler/clusterqueue.go
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile

from generator.documents.syntax import on_one_line
from generator.facts.names import METADATA_NAME
from generator.manifests import Body
from generator.simulate.amounts import FlavorResource, Requests
from generator.simulate.kueue_rules import NEWEST, Rules
from generator.simulate.selectors import selects
from generator.simulate.settings import UNTOLD, Settings

_LONGEST = 200  # letters of a circle in a message


@dataclass(frozen=True, slots=True)
class Flavor:
    """A ResourceFlavor: what nodes it stands for, and if its annotations say so, how many.

    Attributes:
        name: of the ResourceFlavor.
        labels: of its nodes (`nodeLabels`).
        taints: of its nodes.
        tolerations: what Kueue adds to each pod.
        topology: the Topology by which Kueue places pods; empty for none.
        levels: of that Topology, from the widest place to the narrowest; empty if there is none of that name.
        nodes: how many there are (annotation `mpigen.dev/nodes`); None where nobody says.
        allocatable: what each node has for pods (annotation `mpigen.dev/allocatable`); empty where nobody says.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Body, ...] = ()
    tolerations: tuple[Body, ...] = ()
    topology: str = ""
    levels: tuple[str, ...] = ()
    nodes: int | None = None
    allocatable: Requests = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Quota:
    """Of one flavor and resource: None for `borrowing` is without limit, None for `lending` is everything."""

    nominal: int
    borrowing: int | None = None
    lending: int | None = None


NO_QUOTA = Quota(0)


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that come from the same flavor, and the flavors in the order in which they are tried."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cohort:
    """A group of queues and cohorts. One without an object exists all the same, if a queue or a cohort names it."""

    name: str
    parent: str = ""
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0
    is_declared: bool = True


@dataclass(frozen=True, slots=True)
class Preemption:
    """Whom a job may drive out; what is not said is `Never`."""

    reclaim_within_cohort: str = "Never"
    within_queue: str = "Never"
    borrow_within_cohort: str = "Never"
    borrow_threshold: int | None = None


@dataclass(frozen=True, slots=True)
class Fungibility:
    """When the next flavor is tried although this one would do."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str = "BorrowingOverPreemption"


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A ClusterQueue.

    Attributes:
        namespaces: its selector; None for no namespace at all.
        checks: its AdmissionChecks.
        is_elsewhere: whether one of them sends its jobs to other clusters (MultiKueue). It counts its quota here all
            the same, and no node and no place: kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go
            `podSetTopologyRequest`.
        provisioned: the flavors whose nodes a ProvisioningRequest creates for each job. Kueue places the job only
            then: the same function.
    """

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    weight: float = 1.0
    preemption: Preemption = Preemption()
    fungibility: Fungibility = Fungibility()
    strategy: str = "BestEffortFIFO"
    stop_policy: str = "None"
    namespaces: Body | None = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    is_elsewhere: bool = False
    provisioned: frozenset[str] = frozenset()

    def group(self, resource: str) -> ResourceGroup | None:
        """The group that covers a resource; None if the queue has nothing of it."""
        return next((group for group in self.groups if resource in group.resources), None)

    def quota(self, key: FlavorResource) -> Quota:
        """Nothing, where none is written."""
        return self.quotas.get(key, NO_QUOTA)

    @property
    def flavors(self) -> frozenset[str]:
        """All that it has quota of."""
        return frozenset(name for group in self.groups for name in group.flavors)


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """The door to a ClusterQueue in a namespace."""

    namespace: str
    name: str
    queue: str
    stop_policy: str = "None"


@dataclass(frozen=True)
class QueueTree:
    """The flavors, cohorts and queues by name, and the configuration and version of Kueue.

    `namespaces` holds the labels of those that there are manifests of.
    """

    flavors: Mapping[str, Flavor]
    cohorts: Mapping[str, Cohort]
    queues: Mapping[str, ClusterQueue]
    local_queues: tuple[LocalQueue, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: Settings = UNTOLD
    rules: Rules = NEWEST

    def ancestors(self, cohort: str) -> Iterator[Cohort]:
        """The cohort, its parent, and so on; of a cycle each once."""
        seen: set[str] = set()
        while cohort in self.cohorts and cohort not in seen:
            seen.add(cohort)
            yield self.cohorts[cohort]
            cohort = self.cohorts[cohort].parent

    def is_cyclic(self, cohort: str) -> bool:
        """Whether the parents of a cohort come to no end: Kueue then admits nothing of what is in it."""
        return cohort in self._endless

    @cached_property
    def _endless(self) -> frozenset[str]:
        """The cohorts whose parents come to no end, each looked at once: there may be thousands above one another."""
        known: dict[str, bool] = {}
        for name in self.cohorts:
            way, at = dict[str, None](), name
            while at in self.cohorts and at not in known and at not in way:
                way[at] = None
                at = self.cohorts[at].parent
            known |= dict.fromkeys(way, at in way or known.get(at, False))
        return frozenset(name for name, is_endless in known.items() if is_endless)

    def roots(self) -> Iterator[Cohort]:
        """The cohorts without a parent, and of each cycle the first by name."""
        seen: set[str] = set()
        for cohort in sorted(self.cohorts.values(), key=lambda each: each.name):
            if self.is_cyclic(cohort.name):
                way = [each.name for each in takewhile(lambda each: each.name not in seen, self.ancestors(cohort.name))]
                if way and self.cohorts[way[-1]].parent in way:
                    yield cohort
                seen.update(way)
            elif not cohort.parent:
                yield cohort

    def inner(self, cohort: str) -> list[Cohort]:
        """The cohorts right below a cohort, by name."""
        return sorted((each for each in self.cohorts.values() if each.parent == cohort), key=lambda each: each.name)

    def members(self, cohort: str) -> list[ClusterQueue]:
        """The queues right below a cohort, by name; of an empty name: those without a cohort."""
        return sorted((each for each in self.queues.values() if each.cohort == cohort), key=lambda each: each.name)

    def flavors_of(self, queue: ClusterQueue) -> Mapping[str, Flavor]:
        """All flavors as the jobs of a queue find them: of the nodes of other clusters nobody says anything."""
        if not queue.is_elsewhere:
            return self.flavors
        return {name: replace(each, nodes=None, allocatable={}) for name, each in self.flavors.items()}

    def doors(self, queue: str) -> list[LocalQueue]:
        """The LocalQueues that lead to a queue."""
        return [each for each in self.local_queues if each.queue == queue]

    def misses(self, queue: ClusterQueue) -> list[str]:
        """Return the flavors of a ClusterQueue that no ResourceFlavor defines."""
        return sorted(queue.flavors - self.flavors.keys())

    def stopped(self, queue: ClusterQueue) -> str:
        """Why a queue admits nothing at all; empty if it does."""
        missing = self.misses(queue)
        if missing:
            return f"there is no ResourceFlavor {', '.join(f'`{name}`' for name in missing)}"
        if queue.cohort and self.is_cyclic(queue.cohort):
            circle = " → ".join(f"`{each.name}`" for each in self.ancestors(queue.cohort))
            return f"the parents of its cohort go in a circle: {on_one_line(circle, _LONGEST)}"
        return f"it is stopped: `stopPolicy` is `{queue.stop_policy}`" if queue.stop_policy != "None" else ""

    def lacks(self, queue: ClusterQueue) -> str:
        """Why a queue admits nothing although its flavors are there; empty if it does.

        A queue with admission checks may send its jobs to clusters that have the Topology (MultiKueue).
        """
        known = [self.flavors[name] for name in queue.flavors if name in self.flavors]
        missing = sorted({each.topology for each in known if each.topology and not each.levels})
        if not missing or queue.checks:
            return ""
        return f"there is no Topology {', '.join(f'`{name}`' for name in missing)}"

    def refuses(self, queue: ClusterQueue, namespace: str) -> str:
        """Why a queue takes no job of a namespace; empty if it does, or if nothing says what labels that has."""
        if queue.namespaces is None:
            return "it has no `namespaceSelector`, and so takes jobs of no namespace"
        known = self.namespaces.get(namespace, {METADATA_NAME: namespace})
        if selects(queue.namespaces, known) or (queue.namespaces and namespace not in self.namespaces):
            return ""
        return f"its `namespaceSelector` does not select `{namespace}`"
