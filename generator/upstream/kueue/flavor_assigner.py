"""Assignment of flavors to the PodSets of a job: at once, by borrowing, or after preemption.

Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go; kueue v0.19.2
pkg/scheduler/flavorassigner/tas_flavorassigner.go Assignment.WorkloadsTopologyRequests; kueue v0.19.2
pkg/scheduler/scheduler.go updateAssignmentForTAS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from generator.objects.queue import (
    Amounts,
    ClusterQueue,
    Flavor,
    FlavorResource,
    Fungibility,
    Requests,
    ResourceGroup,
    add_requests,
    format_amount,
)
from generator.upstream.kueue.configuration import NEWEST, Rules
from generator.upstream.kueue.nodes import explain_flavor_mismatch
from generator.upstream.kueue.placement import NoPlace, Occupancy, PlacementRequest, Sites
from generator.upstream.kueue.podsets import PodSet, group_podsets, join_names
from generator.upstream.kueue.queues import Node
from generator.upstream.kueue.topology import FlavorTopology, explain_topology_mismatch


class Mode(IntEnum):
    """The way in which a job would get a flavor, from worst to best (`preemptionMode`).

    No fit, no preemption candidates, preempt jobs of the own queue, reclaim from other queues, fit.
    """

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


Tried = tuple[Mapping[str, int], ...]
"""For each PodSet: resource → index of the last flavor that was tried; -1 if no flavor is left."""
RankedMode = tuple[Mode, int]
"""The mode of a flavor, and the height of the lending cohort in the quota tree; 0 without borrowing."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The flavor of a resource.

    Attributes:
        flavor: the name of the ResourceFlavor.
        mode: the way in which the job would get it.
        borrowing: the height of the lending cohort in the quota tree; 0 without borrowing.
        tried: the index of the flavor at which the search stopped; -1 if the search reached the last flavor.
    """

    flavor: str
    mode: Mode
    borrowing: int
    tried: int = -1


@dataclass(frozen=True, slots=True)
class Shortage:
    """A flavor and resource of which a job needs more than its queue can use.

    Attributes:
        pods: names of the PodSets whose needs add up to `takes`.
        key: the flavor and resource.
        takes: the amount that the job needs.
        has: the amount that is available.
        queue: the ClusterQueue if it never gets more than `has`; empty if other jobs use the quota.
    """

    pods: str
    key: FlavorResource
    takes: int
    has: int
    queue: str = ""

    def __str__(self) -> str:
        flavor, resource = self.key
        needs = f"with {self.pods} the job needs {format_amount(resource, self.takes)} {resource} of flavor `{flavor}`"
        amount = format_amount(resource, self.has)
        return f"{needs}, and {f'`{self.queue}` never gets more than {amount}' if self.queue else f'{amount} is free'}"


@dataclass(slots=True)
class Assignment:
    """The flavors of a job.

    Attributes:
        podsets: PodSet → resource → flavor.
        mode: FIT; NO_CANDIDATES while other jobs use the quota or the nodes; or NO_FIT if the job does not fit now, and
            Kueue does not search jobs to preempt for it.
        usage: the quota that the job would use.
        rejections: reasons why flavors cannot hold the pods.
        shortages: flavors and resources with too little quota.
        occupancies: the leaf domains of pods that Kueue places by topology.
    """

    podsets: dict[str, Mapping[str, Choice]] = field(default_factory=dict)
    mode: Mode = Mode.FIT
    usage: Amounts = field(default_factory=dict)
    rejections: list[str] = field(default_factory=list)
    shortages: list[Shortage] = field(default_factory=list)
    occupancies: tuple[Occupancy, ...] = ()

    def require_preemption(self, names: Iterable[str]) -> None:
        """Set NO_CANDIDATES for these PodSets, which have quota but no room (`updateModeForTASRequests`)."""
        for name in names:
            choices = self.podsets[name].items()
            self.podsets[name] = {key: replace(choice, mode=Mode.NO_CANDIDATES) for key, choice in choices}
            self.mode = Mode.NO_CANDIDATES

    @property
    def places(self) -> Mapping[str, Mapping[str, int]]:
        """PodSet → leaf domain → number of pods, for pods that Kueue places by topology."""
        places: dict[str, dict[str, int]] = {}
        for occupancy in self.occupancies:
            places.setdefault(occupancy.pods, {})["/".join(occupancy.key)] = occupancy.count
        return places

    @property
    def reasons(self) -> list[str]:
        """Reasons why the job does not fit, without duplicates."""
        return list(dict.fromkeys([*map(str, self.shortages), *self.rejections]))

    @property
    def borrowing(self) -> int:
        """Height of the highest cohort from which the job borrows; 0 without borrowing."""
        return max((choice.borrowing for choices in self.podsets.values() for choice in choices.values()), default=0)

    @property
    def contested(self) -> frozenset[FlavorResource]:
        """Flavors and resources that the job gets only by preemption (`flavorResourcesNeedPreemption`)."""
        return frozenset(
            FlavorResource(choice.flavor, resource)
            for choices in self.podsets.values()
            for resource, choice in choices.items()
            if Mode.NO_FIT < choice.mode < Mode.FIT
        )

    @property
    def keys(self) -> frozenset[FlavorResource]:
        """Flavors and resources of the job, including resources of which it requests 0."""
        podsets = self.podsets.values()
        return frozenset(FlavorResource(choice.flavor, name) for choices in podsets for name, choice in choices.items())

    @property
    def tried(self) -> Tried:
        """For each PodSet: resource → index of the flavor at which the search stopped (`LastTriedFlavorIdx`)."""
        return tuple({name: choice.tried for name, choice in choices.items()} for choices in self.podsets.values())

    @property
    def has_untried_flavors(self) -> bool:
        """True if the search stopped before the last flavor (`PendingFlavors`)."""
        return any(index != -1 for indexes in self.tried for index in indexes.values())


def tries_next_flavor(mode: RankedMode, rules: Fungibility) -> bool:
    """Return True if Kueue tries another flavor after a flavor with this mode (`shouldTryNextFlavor`)."""
    how, borrowing = mode
    if how <= Mode.NO_CANDIDATES or (how < Mode.FIT and rules.when_can_preempt == "TryNextFlavor"):
        return True
    return borrowing > 0 and rules.when_can_borrow == "TryNextFlavor"


def is_better(one: RankedMode, other: RankedMode, rules: Fungibility, *, ranks_no_candidates_last: bool = True) -> bool:
    """Return True if Kueue prefers a flavor with mode `one` to a flavor with mode `other` (`isPreferred`).

    `ranks_no_candidates_last` is the attribute of `Rules`.
    """
    (mode, borrowing), (other_mode, other_borrowing) = one, other
    if Mode.NO_FIT in (mode, other_mode):
        return mode is not Mode.NO_FIT
    if ranks_no_candidates_last and (mode is Mode.NO_CANDIDATES) != (other_mode is Mode.NO_CANDIDATES):
        return other_mode is Mode.NO_CANDIDATES
    if rules.preference == "PreemptionOverBorrowing":
        return (-borrowing, mode) > (-other_borrowing, other_mode)
    return (mode, -borrowing) > (other_mode, -other_borrowing)


@dataclass(frozen=True, slots=True)
class Placer:
    """Topology placement for the jobs of one queue.

    Attributes:
        is_implied: True if Kueue also places pods without a topology request.
        provisioned: flavors whose nodes are created for the job. Kueue places the job when these nodes exist.
    """

    sites: Sites
    flavors: Mapping[str, Flavor]
    is_implied: bool
    provisioned: frozenset[str] = frozenset()

    def place(self, assignment: Assignment, podsets: Sequence[PodSet]) -> None:
        """Place the pods of a job that has quota; lower the mode of its assignment if its pods have no room.

        Raises:
            NotModelledError: the result depends on unknown nodes.
        """
        if assignment.mode is Mode.NO_FIT or not self._check_flavors(assignment, podsets):
            return
        pods = list(self._requests(assignment, podsets))
        if assignment.mode is Mode.FIT:
            result = self.sites.find(pods)
            if not isinstance(result, NoPlace):
                assignment.occupancies = result
                return
            assignment.rejections.append(str(result))
            assignment.mode = Mode.NO_FIT if self.sites.is_idle else Mode.NO_CANDIDATES
        if assignment.mode is Mode.NO_FIT:
            return
        if pods and isinstance(result := self.sites.find(pods, is_empty=True), NoPlace):
            assignment.rejections.append(str(result))
            assignment.mode = Mode.NO_FIT
            return
        assignment.require_preemption(placed.pods.name for placed in pods)

    def reserve_domains(self, assignment: Assignment, podsets: Sequence[PodSet], *, is_empty: bool) -> None:
        """Choose the domains that a job takes after preemption; with `is_empty`, as if no other job ran."""
        result = self.sites.find(self._requests(assignment, podsets), is_empty=is_empty)
        assignment.occupancies = () if isinstance(result, NoPlace) else result

    def has_place(self, assignment: Assignment, podsets: Sequence[PodSet]) -> bool:
        """Return True if the topology domains have room for all pods of a job now."""
        return not isinstance(self.sites.find(self._requests(assignment, podsets)), NoPlace)

    def _is_placed(self, pods: PodSet) -> bool:
        return pods.count > 0 and (pods.topology is not None or self.is_implied)

    def _flavors(self, assignment: Assignment, pods: PodSet) -> set[str]:
        names = {choice.flavor for choice in assignment.podsets[pods.name].values()}
        return {name for name in names if self.flavors[name].topology}

    def _check_flavors(self, assignment: Assignment, podsets: Sequence[PodSet]) -> bool:
        """Return True if exactly one flavor of each placed PodSet has a topology; else set NO_FIT (`onlyTASFlavor`)."""
        for pods in podsets:
            names = self._flavors(assignment, pods)
            if self._is_placed(pods) and len(names) != 1:
                has = "no flavor" if not names else f"the flavors {', '.join(f'`{name}`' for name in sorted(names))}"
                assignment.rejections.append(f"`{pods.name}` has {has} with a topology, and needs exactly one")
                assignment.mode = Mode.NO_FIT
                return False
        return True

    def _requests(self, assignment: Assignment, podsets: Sequence[PodSet]) -> Iterator[PlacementRequest]:
        for pods in podsets:
            if self._is_placed(pods) and not self._flavors(assignment, pods) <= self.provisioned:
                yield PlacementRequest(pods, *self._flavors(assignment, pods))


Oracle = Callable[[FlavorResource, int], RankedMode]
"""(flavor and resource, amount) → mode in which a job gets the amount by preemption, and height of the lender."""


def lowest_that_fits(node: Node, key: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return (height of the lowest cohort or queue with quota for an amount, True if it has a parent).

    If none of them has quota, the result is (height of the root, False).

    Source: kueue v0.19.2 pkg/scheduler/preemption/classical/hierarchical_preemption.go
    FindHeightOfLowestSubtreeThatFits.
    """
    if node.parent is None or not node.borrows_with(key, amount):
        return 0, node.parent is not None
    left = amount - node.kept_free(key)
    for cohort in node.path():
        if not cohort.borrows_with(key, left):
            return cohort.height(), cohort.parent is not None
        left -= cohort.kept_free(key)
    return node.root().height(), False


@dataclass(frozen=True, slots=True)
class Assigner:
    """A flavor assigner for the jobs of one queue.

    Attributes:
        node: the queue's node in the quota tree, with the usage.
        oracle: returns the mode in which a job gets an amount by preemption.
        is_fair: True if fair sharing is enabled. A queue can then preempt while it borrows.
        tried: the flavors at which the previous attempt stopped.
        sites: the topology domains; None to leave placement out.
        pinned: an assignment whose flavors the job keeps; None if it can get any flavor.
    """

    queue: ClusterQueue
    node: Node
    flavors: Mapping[str, Flavor]
    oracle: Oracle
    is_fair: bool = False
    tried: Tried = ()
    sites: Sites | None = None
    pinned: Assignment | None = None
    rules: Rules = NEWEST

    def assign(self, podsets: Sequence[PodSet]) -> Assignment:
        """Assign flavors to the PodSet groups in order. Each group gets what earlier groups leave (`assignFlavors`).

        Raises:
            NotModelledError: pods request slices of a topology, or tolerate taints by comparing numbers.
        """
        assignment = Assignment()
        for index, group in group_podsets(podsets):
            needs = [self._needs(pods) for pods in group]
            total: dict[str, int] = {}
            for need in needs:
                add_requests(total, need)
            shortages = len(assignment.shortages)
            choices = self._choose(index, group, total, assignment)
            for pods, need in zip(group, needs, strict=True):
                self._take(assignment, pods, need, choices)
            is_short = len(assignment.shortages) > shortages
            if is_short and any(choice.mode is not Mode.FIT for choice in choices.values()):
                assignment.mode = Mode.NO_CANDIDATES
            if any(need and not assignment.podsets[pods.name] for pods, need in zip(group, needs, strict=True)):
                assignment.mode = Mode.NO_FIT
                return assignment
        if self.sites is not None:
            self.placer(self.sites).place(assignment, podsets)
        return assignment

    def placer(self, sites: Sites) -> Placer:
        """Return the topology placement for jobs of the queue in these domains."""
        return Placer(sites, self.flavors, self.is_by_topology, self.queue.provisioned)

    def _needs(self, pods: PodSet) -> dict[str, int]:
        needs = {name: amount * pods.count for name, amount in pods.counted.items()}
        if self.queue.group("pods"):
            needs["pods"] = pods.count
        return needs

    def _take(self, assignment: Assignment, pods: PodSet, needs: Requests, choices: Mapping[str, Choice]) -> None:
        """Record the flavors of one PodSet from the choices of its group (`resolvePodSetFlavors`)."""
        is_grouped = pods.topology and pods.topology.group
        own = {name: choice for name, choice in choices.items() if name in needs}
        if not needs and is_grouped and self.rules.lends_group_flavor:
            own = {name: choice for name, choice in choices.items() if self.flavors[choice.flavor].topology}
        assignment.podsets[pods.name] = own
        for resource, choice in own.items():
            key = FlavorResource(choice.flavor, resource)
            assignment.usage[key] = assignment.usage.get(key, 0) + needs.get(resource, 0)

    def assign_at_last(self, podsets: Sequence[PodSet]) -> Assignment:
        """Return the assignment after all attempts: after a failed attempt, Kueue at once tries the next flavors.

        So if some pods of the job take the quota that its other pods need, the next attempt gives them other flavors.
        Source: kueue v0.19.2 pkg/cache/queue/cluster_queue.go ClusterQueue.requeueIfNotPresent; kueue v0.19.2
        pkg/workload/workload.go AssignmentClusterQueueState.PendingFlavors.

        Raises:
            NotModelledError: pods request slices of a topology, or tolerate taints by comparing numbers.
        """
        seen: list[Tried] = []
        result = self.assign(podsets)
        while result.mode is not Mode.FIT and result.has_untried_flavors and result.tried not in seen:
            seen.append(result.tried)
            before, result = result, replace(self, tried=result.tried).assign(podsets)
            result.shortages = [*before.shortages, *result.shortages]
            result.rejections = [*before.rejections, *result.rejections]
        return result

    def _choose(
        self, index: int, pods: Sequence[PodSet], total: Requests, assignment: Assignment
    ) -> Mapping[str, Choice]:
        """Return resource → flavor for the requests of a PodSet group; empty if a resource gets no flavor.

        Reasons why flavors do not fit are added to `assignment.rejections`.

        Args:
            index: the number of the group in the job.
            pods: the PodSets of the group.
            total: resource → amount that all pods of the group request.
            assignment: the assignment so far, with the flavors of the earlier groups.
        """
        choices: dict[str, Choice] = {}
        for resource in total:
            group = self.queue.group(resource)
            if resource in choices or (group is None and total[resource] == 0):
                continue
            if group is None:
                message = f"{join_names(pods)} requests {resource}, and `{self.queue.name}` has no quota for it"
                assignment.rejections.append(message)
                return {}
            start = self.tried[index].get(resource, -1) + 1 if index < len(self.tried) else 0
            needs = {name: amount for name, amount in total.items() if name in group.resources}
            best = self._find_best(group, start, pods, needs, assignment)
            if not best:
                return {}
            choices.update(best)
        return choices

    def _find_best(
        self, group: ResourceGroup, start: int, pods: Sequence[PodSet], needs: Requests, assignment: Assignment
    ) -> Mapping[str, Choice]:
        """Return resource → flavor: the first sufficient flavor, or else the best (`findFlavorForPodSets`).

        With `PreemptionOverBorrowing`, a resource that the queue can borrow ranks below a resource that needs
        preemption. A flavor with both then counts as free, so Kueue preempts no job, and the job stays pending.
        """
        best: dict[str, Choice] = {}
        best_mode, tried = (Mode.NO_FIT, 0), -1
        rejections: list[str] = []
        shortages: list[Shortage] = []
        rules = self.queue.fungibility
        for index in range(start, len(group.flavors)):
            name, tried = group.flavors[index], index
            if self._is_pinned_to_other(name, pods, needs):
                continue
            if rejection := self._reject(pods, self.flavors[name], group):
                rejections.append(rejection)
                continue
            choices, mode, short = self._fit_flavor(name, pods, needs, assignment.usage)
            shortages += short
            if not tries_next_flavor(mode, rules):
                best, best_mode = choices, mode
                break
            if is_better(mode, best_mode, rules, ranks_no_candidates_last=self.rules.ranks_no_candidates_last):
                best, best_mode = choices, mode
        if best_mode[0] is not Mode.FIT:
            assignment.rejections += rejections
            assignment.shortages += shortages
        last = -1 if tried == len(group.flavors) - 1 else tried
        return {resource: replace(choice, tried=last) for resource, choice in best.items()}

    def _reject(self, group: Sequence[PodSet], flavor: Flavor, resources: ResourceGroup) -> str:
        """Return why a flavor cannot hold a PodSet group; empty if it can (`checkFlavorForPodSets`)."""
        levels = flavor.levels if flavor.topology else ()
        topology = FlavorTopology(flavor.name, levels, resources.resources, self.is_by_topology)
        reasons = (
            explain_topology_mismatch(pods.name, pods.topology, pods.requests, topology)
            or explain_flavor_mismatch(pods, flavor)
            for pods in group
        )
        return next(filter(None, reasons), "")

    def _is_pinned_to_other(self, flavor: str, group: Sequence[PodSet], needs: Requests) -> bool:
        """Return True if the pods keep a different flavor from `pinned` (`shouldSkipBasedOnNominationMapping`)."""
        if self.pinned is None:
            return False
        choices = [self.pinned.podsets.get(pods.name, {}) for pods in group]
        return all(choice.flavor != flavor for own in choices for name, choice in own.items() if name in needs)

    @property
    def is_by_topology(self) -> bool:
        """True if all flavors of the queue have a topology, so that Kueue places all pods by topology (`isTASOnly`)."""
        return bool(self.queue.flavors) and all(self.flavors[name].topology for name in self.queue.flavors)

    def _fit_flavor(
        self, name: str, pods: Sequence[PodSet], needs: Requests, usage: Amounts
    ) -> tuple[dict[str, Choice], RankedMode, list[Shortage]]:
        """Return (resource → choice of this flavor, worst mode of the resources, shortages)."""
        choices: dict[str, Choice] = {}
        shortages: list[Shortage] = []
        worst = (Mode.FIT, 0)
        for resource, amount in needs.items():
            key = FlavorResource(name, resource)
            mode, borrowing, shortage = self._fit(key, usage.get(key, 0) + amount, pods)
            if shortage:
                shortages.append(shortage)
            last = self.rules.ranks_no_candidates_last
            if is_better(worst, (mode, borrowing), self.queue.fungibility, ranks_no_candidates_last=last):
                worst = (mode, borrowing)
            if worst[0] is Mode.NO_FIT:
                return {}, worst, shortages
            choices[resource] = Choice(name, mode, borrowing)
        return choices, worst, shortages

    def _fit(self, key: FlavorResource, amount: int, pods: Sequence[PodSet]) -> tuple[Mode, int, Shortage | None]:
        """Return (mode of an amount, height of the lending cohort, shortage or None if it fits).

        The height is 0 if the queue borrows nothing, or if the amount can never fit. Kueue calls this
        `fitsResourceQuota`.
        """
        most, free = self.node.potential(key), max(0, self.node.available(key))
        if amount > most:
            return Mode.NO_FIT, 0, Shortage(join_names(pods), key, amount, most, self.queue.name)
        borrowing, has_parent = lowest_that_fits(self.node, key, amount)
        if amount <= free:
            return Mode.FIT, borrowing, None
        shortage = Shortage(join_names(pods), key, amount, free)
        if self.node.quota(key).nominal >= amount or has_parent or self._can_preempt_while_borrowing():
            return *self.oracle(key, amount), shortage
        return Mode.NO_FIT, borrowing, shortage

    def _can_preempt_while_borrowing(self) -> bool:
        preemption = self.queue.preemption
        is_fair = self.is_fair and preemption.reclaim_within_cohort != "Never"
        return is_fair or preemption.borrow_within_cohort != "Never"
