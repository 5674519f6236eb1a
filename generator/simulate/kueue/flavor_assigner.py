"""Assignment of flavors to the PodSets of a job: at once, by borrowing, or after preemption.

Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go, tas_flavorassigner.go
`WorkloadsTopologyRequests`; pkg/scheduler/scheduler.go `updateAssignmentForTAS`. Functions are named where used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from generator.objects.amounts import Amounts, FlavorResource, Requests, total
from generator.simulate.kueue import topology
from generator.simulate.kueue.assignment import Assignment, Choice, Got, Mode, Shortage, Tried, is_better, looks_further
from generator.simulate.kueue.configuration import NEWEST, Rules
from generator.simulate.kueue.fit import mismatch
from generator.simulate.kueue.placement import NoPlace, Placed, Sites
from generator.simulate.kueue.podsets import PodSet, grouped, named
from generator.simulate.kueue.queues import ClusterQueue, Flavor, ResourceGroup
from generator.simulate.kueue.quota_tree import Node


@dataclass(frozen=True, slots=True)
class Placing:
    """Places jobs of one queue.

    Attributes:
        sites: where there is room.
        flavors: all that there are.
        is_implied: whether pods are placed that do not ask for it.
        provisioned: flavors whose nodes are created for the job; it has a place on them only then.
    """

    sites: Sites
    flavors: Mapping[str, Flavor]
    is_implied: bool
    provisioned: frozenset[str] = frozenset()

    def place(self, done: Assignment, podsets: Sequence[PodSet]) -> None:
        """Find places for an assignment that has quota; without, it is as good as without quota.

        Raises:
            NotModelledError: it depends on nodes that are not known.
        """
        if done.mode is Mode.NO_FIT or not self._has_flavors(done, podsets):
            return
        asked = list(self._asked(done, podsets))
        if done.mode is Mode.FIT:
            found = self.sites.find(asked)
            if not isinstance(found, NoPlace):
                done.stays = found
                return
            done.refused.append(str(found))
            done.mode = Mode.NO_FIT if self.sites.is_idle else Mode.NO_CANDIDATES
        if done.mode is Mode.NO_FIT:
            return
        if asked and isinstance(found := self.sites.find(asked, is_empty=True), NoPlace):
            done.refused.append(str(found))
            done.mode = Mode.NO_FIT
            return
        done.contest(each.pods.name for each in asked)

    def after_preemption(self, done: Assignment, podsets: Sequence[PodSet], *, is_empty: bool) -> None:
        """Where a job will go that makes room for itself, or would like to (`is_empty`: and cannot)."""
        found = self.sites.find(self._asked(done, podsets), is_empty=is_empty)
        done.stays = () if isinstance(found, NoPlace) else found

    def has_place(self, done: Assignment, podsets: Sequence[PodSet]) -> bool:
        """Whether there is room for all pods now."""
        return not isinstance(self.sites.find(self._asked(done, podsets)), NoPlace)

    def _is_placed(self, pods: PodSet) -> bool:
        return pods.count > 0 and (pods.topology is not None or self.is_implied)

    def _flavors(self, done: Assignment, pods: PodSet) -> set[str]:
        names = {each.flavor for each in done.podsets[pods.name].values()}
        return {name for name in names if self.flavors[name].topology}

    def _has_flavors(self, done: Assignment, podsets: Sequence[PodSet]) -> bool:
        """Whether each has one flavor with a topology (`onlyTASFlavor`)."""
        for pods in podsets:
            names = self._flavors(done, pods)
            if self._is_placed(pods) and len(names) != 1:
                found = "no flavor" if not names else f"the flavors {', '.join(f'`{each}`' for each in sorted(names))}"
                done.refused.append(f"`{pods.name}` has {found} with a topology, and needs one")
                done.mode = Mode.NO_FIT
                return False
        return True

    def _asked(self, done: Assignment, podsets: Sequence[PodSet]) -> Iterator[Placed]:
        for pods in podsets:
            if self._is_placed(pods) and not self._flavors(done, pods) <= self.provisioned:
                yield Placed(pods, *self._flavors(done, pods))


Oracle = Callable[[FlavorResource, int], tuple[Mode, int]]
"""Whether driving others out would make room for an amount, and how far one would then borrow."""


def lowest_that_fits(node: Node, key: FlavorResource, amount: int) -> tuple[int, bool]:
    """The height of the lowest cohort that has room, and whether there is one above it.

    pkg/scheduler/preemption/classical/hierarchical_preemption.go `FindHeightOfLowestSubtreeThatFits`
    """
    if node.parent is None or not node.borrows_with(key, amount):
        return 0, node.parent is not None
    left = amount - node.kept_free(key)
    for each in node.path():
        if not each.borrows_with(key, left):
            return each.height(), each.parent is not None
        left -= each.kept_free(key)
    return node.root().height(), False


@dataclass(frozen=True, slots=True)
class Assigner:
    """Finds flavors for jobs of one queue.

    Attributes:
        queue: the ClusterQueue.
        node: its place in the tree, with all that is in use.
        flavors: all that there are.
        oracle: whether driving others out would help.
        is_fair: whether fair sharing is on: then a queue may drive others out while it borrows.
        tried: where an attempt just before was broken off.
        sites: where pods are placed by topology; None if that is left open.
        pinned: what the job is to get if it gets anything: the same flavors as in this assignment.
        rules: those of the version of Kueue.
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
        """One group of pods after the other, each with what those before it take (`assignFlavors`).

        Raises:
            NotModelledError: pods ask for slices of a topology, or tolerate taints by comparing numbers.
        """
        done = Assignment()
        for number, group in grouped(podsets):
            wanted = [self._wanted(pods) for pods in group]
            asked: dict[str, int] = {}
            for each in wanted:
                for resource, amount in each.items():
                    asked[resource] = asked.get(resource, 0) + amount
            known = len(done.shortages)
            choices = self._choices(number, group, asked, done)
            for pods, each in zip(group, wanted, strict=True):
                self._take(done, pods, each, choices)
            if len(done.shortages) > known and any(each.mode is not Mode.FIT for each in choices.values()):
                done.mode = Mode.NO_CANDIDATES
            if any(each and not done.podsets[pods.name] for pods, each in zip(group, wanted, strict=True)):
                done.mode = Mode.NO_FIT
                return done
        if self.sites is not None:
            self.placing(self.sites).place(done, podsets)
        return done

    def placing(self, sites: Sites) -> Placing:
        """How pods of this queue are placed."""
        return Placing(sites, self.flavors, self.is_by_topology, self.queue.provisioned)

    def _wanted(self, pods: PodSet) -> dict[str, int]:
        wanted = total(pods.counted, pods.count)
        if self.queue.group("pods"):
            wanted["pods"] = pods.count
        return wanted

    def _take(self, done: Assignment, pods: PodSet, wanted: Requests, choices: Mapping[str, Choice]) -> None:
        """Its part of what the group gets; if it asks for nothing, then a place (`resolvePodSetFlavors`)."""
        has_place = pods.topology and pods.topology.group
        mine = {name: each for name, each in choices.items() if name in wanted}
        if not wanted and has_place and self.rules.lends_group_flavor:
            mine = {name: each for name, each in choices.items() if self.flavors[each.flavor].topology}
        done.podsets[pods.name] = mine
        for resource, choice in mine.items():
            key = FlavorResource(choice.flavor, resource)
            done.usage[key] = done.usage.get(key, 0) + wanted.get(resource, 0)

    def assign_at_last(self, podsets: Sequence[PodSet]) -> Assignment:
        """What comes of it if nothing else happens: Kueue at once tries again from where it broke off.

        So pods that have a flavor, and leave no room in it for others of the job, try the next.
        pkg/cache/queue/cluster_queue.go `requeueIfNotPresent`; pkg/workload/workload.go `PendingFlavors`

        Raises:
            NotModelledError: pods ask for slices of a topology, or tolerate taints by comparing numbers.
        """
        seen: list[Tried] = []
        found = self.assign(podsets)
        while found.mode is not Mode.FIT and found.is_broken_off and found.tried not in seen:
            seen.append(found.tried)
            before, found = found, replace(self, tried=found.tried).assign(podsets)
            found.shortages = [*before.shortages, *found.shortages]
            found.refused = [*before.refused, *found.refused]
        return found

    def _choices(self, number: int, pods: Sequence[PodSet], asked: Requests, done: Assignment) -> Mapping[str, Choice]:
        """The flavors of one group of pods; none at all if one of the resources finds none."""
        found: dict[str, Choice] = {}
        for resource in asked:
            group = self.queue.group(resource)
            if resource in found or (group is None and asked[resource] == 0):
                continue
            if group is None:
                done.refused.append(f"{named(pods)} asks for {resource}, and `{self.queue.name}` has no quota for it")
                return {}
            start = self.tried[number].get(resource, -1) + 1 if number < len(self.tried) else 0
            wanted = {name: amount for name, amount in asked.items() if name in group.resources}
            choices = self._best(group, start, pods, wanted, done)
            if not choices:
                return {}
            found.update(choices)
        return found

    def _best(
        self, group: ResourceGroup, start: int, pods: Sequence[PodSet], wanted: Requests, done: Assignment
    ) -> Mapping[str, Choice]:
        """The first flavor that will do, or else the best of all (`findFlavorForPodSets`).

        Where preemption is preferred to borrowing, a resource that is free to borrow counts as worse than one that
        others must leave. All of it then counts as free, Kueue drives nobody out, and the job waits for these others.
        """
        best: dict[str, Choice] = {}
        best_mode, tried = (Mode.NO_FIT, 0), -1
        refusals: list[str] = []
        shortages: list[Shortage] = []
        rules = self.queue.fungibility
        for number in range(start, len(group.flavors)):
            name, tried = group.flavors[number], number
            if self._is_pinned_elsewhere(name, pods, wanted):
                continue
            refused = self._refused(pods, self.flavors[name], group)
            if refused:
                refusals.append(refused)
                continue
            choices, mode, short = self._in_flavor(name, pods, wanted, done.usage)
            shortages += short
            if not looks_further(mode, rules):
                best, best_mode = choices, mode
                break
            if is_better(mode, best_mode, rules, ranks_no_candidates_last=self.rules.ranks_no_candidates_last):
                best, best_mode = choices, mode
        if best_mode[0] is not Mode.FIT:
            done.refused += refusals
            done.shortages += shortages
        last = -1 if tried == len(group.flavors) - 1 else tried
        return {key: Choice(each.flavor, each.mode, each.borrowing, last) for key, each in best.items()}

    def _refused(self, group: Sequence[PodSet], flavor: Flavor, resources: ResourceGroup) -> str:
        """Why a flavor is not for a group of pods (`checkFlavorForPodSets`)."""
        levels = flavor.levels if flavor.topology else ()
        offer = topology.Offer(flavor.name, levels, resources.resources, self.is_by_topology)
        for pods in group:
            refused = topology.explain_topology_mismatch(pods.name, pods.topology, pods.requests, offer) or mismatch(
                pods, flavor
            )
            if refused:
                return refused
        return ""

    def _is_pinned_elsewhere(self, flavor: str, group: Sequence[PodSet], wanted: Requests) -> bool:
        """`shouldSkipBasedOnNominationMapping`."""
        if self.pinned is None:
            return False
        choices = [self.pinned.podsets.get(pods.name, {}) for pods in group]
        return all(each.flavor != flavor for some in choices for name, each in some.items() if name in wanted)

    @property
    def is_by_topology(self) -> bool:
        """Whether all flavors of the queue have a topology: then all pods are placed by it (`isTASOnly`)."""
        return bool(self.queue.flavors) and all(self.flavors[name].topology for name in self.queue.flavors)

    def _in_flavor(
        self, name: str, pods: Sequence[PodSet], wanted: Requests, usage: Amounts
    ) -> tuple[dict[str, Choice], Got, list[Shortage]]:
        """How all of it can be had of one flavor: as the worst of its resources."""
        choices: dict[str, Choice] = {}
        short: list[Shortage] = []
        worst = (Mode.FIT, 0)
        for resource, amount in wanted.items():
            key = FlavorResource(name, resource)
            mode, borrowing, shortage = self._fits(key, usage.get(key, 0) + amount, pods)
            if shortage:
                short.append(shortage)
            last = self.rules.ranks_no_candidates_last
            if is_better(worst, (mode, borrowing), self.queue.fungibility, ranks_no_candidates_last=last):
                worst = (mode, borrowing)
            if worst[0] is Mode.NO_FIT:
                return {}, worst, short
            choices[resource] = Choice(name, mode, borrowing)
        return choices, worst, short

    def _fits(self, key: FlavorResource, amount: int, pods: Sequence[PodSet]) -> tuple[Mode, int, Shortage | None]:
        """`fitsResourceQuota`."""
        most, free = self.node.potential(key), max(0, self.node.available(key))
        if amount > most:
            return Mode.NO_FIT, 0, Shortage(named(pods), key, amount, most, self.queue.name)
        borrowing, is_below_another = lowest_that_fits(self.node, key, amount)
        if amount <= free:
            return Mode.FIT, borrowing, None
        short = Shortage(named(pods), key, amount, free)
        if self.node.quota(key).nominal >= amount or is_below_another or self._preempts_while_borrowing():
            return *self.oracle(key, amount), short
        return Mode.NO_FIT, borrowing, short

    def _preempts_while_borrowing(self) -> bool:
        preemption = self.queue.preemption
        is_fair = self.is_fair and preemption.reclaim_within_cohort != "Never"
        return is_fair or preemption.borrow_within_cohort != "Never"
