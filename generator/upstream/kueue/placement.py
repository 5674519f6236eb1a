"""Placement of pods by topology: the domains that running jobs occupy, and the domains for a new job.

Source: kueue v0.19.2 pkg/cache/scheduler/tas_flavor_snapshot.go TASFlavorSnapshot.FindTopologyAssignmentsForFlavor;
kueue v0.19.2 pkg/cache/scheduler/tas_flavor_snapshot.go TASFlavorSnapshot.findTopologyAssignment; kueue v0.19.2
pkg/cache/scheduler/clusterqueue_snapshot.go. Slices, balanced placement and preferred node affinity are not
simulated; the profile is Mixed (`TASProfileMixed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from generator.errors import NotModelledError, Problem
from generator.objects.queue import Flavor, Requests, add_requests
from generator.upstream.kueue.configuration import NEWEST, Rules
from generator.upstream.kueue.nodes import generic_machines, is_feasible, is_of_flavor
from generator.upstream.kueue.podsets import PodSet, group_podsets, join_names
from generator.upstream.kueue.topology import Domain, Key, Machine, TopologyMode, TopologyTree, count_in

_ONE_POD = {"pods": 1}
_FIX = "add the Nodes, as `kubectl get nodes -o yaml` prints them"


@dataclass(slots=True)
class _Room:
    """The pods that a domain can hold. The search lowers the numbers to the pods that the domain gets.

    Attributes:
        pods: number of worker pods if the domain does not hold the leader, which is the launcher pod.
        led_pods: number of worker pods if the domain also holds the leader.
        leaders: 1 if the domain holds the leader, else 0.
    """

    pods: int = 0
    led_pods: int = 0
    leaders: int = 0


class _Search:
    """A search for the fewest domains with room for a PodSet group; of equally few, for those with the least room."""

    def __init__(
        self,
        tree: TopologyTree,
        group: tuple[PodSet, PodSet | None],
        free: Callable[[Domain], Requests | None],
        *,
        counts_leader: bool,
    ) -> None:
        """Prepare the search.

        Args:
            tree: the domains.
            group: the worker PodSet, and the leader PodSet that shares its domain; None without a leader.
            free: returns the free resources of a leaf; None if the pods cannot run there.
            counts_leader: see `configuration.Rules.counts_leader`.
        """
        workers, leader = group
        request = workers.topology
        self._tree = tree
        self._count = workers.count
        self._mode = request.mode if request else TopologyMode.UNCONSTRAINED
        self._level = tree.levels.index(request.level if request and request.level else tree.levels[-1])
        self._leaders = 0 if leader is None else 1
        self._counts_leader = counts_leader
        self._is_tight = (
            self._mode is not TopologyMode.UNCONSTRAINED
        )  # if False, domains with the least room come first
        self._room: dict[Domain, _Room] = {}
        self._worker_requests = {**workers.requests, **_ONE_POD}
        self._leader_requests = {**(leader.requests if leader else {}), **_ONE_POD}
        for domain in tree.by_level[0].values():
            self._fill(domain, free)

    def _fill(self, domain: Domain, free: Callable[[Domain], Requests | None]) -> _Room:
        """Compute how many pods a domain and its child domains hold (`fillLeafCounts`, `fillInCountsHelper`)."""
        room = self._room[domain] = _Room()
        children = [self._fill(child, free) for child in domain.children]
        if children:
            room.pods = sum(child.pods for child in children)
            costs = [child.pods - child.led_pods for child in children if child.leaders or not self._leaders]
            room.led_pods = room.pods - min(costs) if costs else 0
            room.leaders = max(child.leaders for child in children)
        elif (left := free(domain)) is not None:
            room.pods = room.led_pods = count_in(self._worker_requests, left)
            if self._leaders and count_in(self._leader_requests, left) > 0:
                room.leaders = 1
                left = {name: amount - self._leader_requests.get(name, 0) for name, amount in left.items()}
                room.led_pods = count_in(self._worker_requests, left)
        return room

    def run(self) -> dict[Domain, _Room] | None:
        """Return leaf → the pods that it gets; None if there is no room. Each level uses as few domains as possible."""
        fitting = self._find_level(self._level)
        if fitting is None:
            return None
        level, domains = fitting
        minimum = self._minimize(domains)
        for _ in range(level, len(self._tree.levels) - 1):
            minimum = self._minimize(self._sort(child for domain in minimum or () for child in domain.children))
        # If `minimum` is None, Kueue also fails, and logs an error (`errCodeAssumptionsViolated`).
        return None if minimum is None else {leaf: self._room[leaf] for leaf in minimum}

    def _find_level(self, level: int) -> tuple[int, Sequence[Domain]] | None:
        """Return (lowest level with room, domains to use); None if no level has room (`findLevelWithFitDomains`)."""
        domains = self._sort_leader_first(self._tree.by_level[level].values())
        if not domains:
            return None
        if self._is_tight:
            if self._holds(domains[0], self._count, self._leaders):
                return level, [self._tightest(domains, 0, self._count, self._leaders)]
        elif holding := next((domain for domain in domains if self._holds_all(domain)), None):
            return level, [holding]
        if self._mode is TopologyMode.REQUIRED:
            return None
        if level > 0 and self._is_tight:
            return self._find_level(level - 1)
        several = self._find_several(domains)
        return None if several is None else (level, several)

    def _pods(self, domain: Domain, leaders: int) -> int:
        """Return the number of worker pods that a domain holds, next to the leader if `leaders` is 1."""
        return self._room[domain].led_pods if leaders else self._room[domain].pods

    def _holds(self, domain: Domain, count: int, leaders: int) -> bool:
        return self._pods(domain, leaders) >= count and self._room[domain].leaders >= leaders

    def _holds_all(self, domain: Domain) -> bool:
        """Return True if a domain holds all worker pods and, since Kueue 0.19, the leader."""
        return self._holds(domain, self._count, self._leaders if self._counts_leader else 0)

    def _find_several(self, domains: Sequence[Domain]) -> list[Domain] | None:
        """Return some of the domains, which together have room for all pods, the leader's domain first.

        Return None if even all domains together have too little room for the pods and the leader.
        """
        domains = self._prioritize_leader(domains, self._count, self._leaders)
        chosen: list[Domain] = []
        left, leaders, index = self._count, self._leaders, 0
        while leaders > 0 and index < len(domains) and self._room[domains[index]].leaders > 0:
            domain = self._tightest(domains, index, left, leaders)
            chosen.append(domain)
            leaders -= self._room[domain].leaders
            left -= self._room[domain].led_pods
            index += 1
        others = self._sort(domains[index:])
        for index in range(len(others)):
            if left <= 0 or leaders > 0:
                break
            domain = self._tightest(others, index, left, 0)
            chosen.append(domain)
            left -= self._room[domain].pods
        return chosen if left <= 0 and leaders <= 0 else None

    def _minimize(self, domains: Sequence[Domain]) -> list[Domain] | None:
        """Distribute the pods to the first domains, and return these domains (`updateCountsToMinimumGeneric`).

        Return None if the domains have no room for all pods.

        Raises:
            NotModelledError: Kueue 0.18 places the launcher in a domain without room for it.
        """
        domains = self._prioritize_leader(domains, self._count, self._leaders)
        chosen: list[Domain] = []
        left, leaders = self._count, self._leaders
        for index in range(len(domains)):
            domain = self._tightest(domains, index, left, leaders)
            room, most = self._room[domain], self._pods(domain, leaders)
            is_last = self._holds(domain, left, leaders)
            led = min(room.leaders, leaders)
            if is_last or not leaders or self._counts_leader:
                room.pods = most = min(most, left)
            elif most > left:
                message = "Kueue 0.18 places the launcher pod in a domain that the worker pods already fill"
                raise NotModelledError((Problem(message),))
            room.leaders = led  # before 0.19, the domain keeps all workers that it would hold without the launcher
            left, leaders = left - most, leaders - led
            chosen.append(domain)
            if is_last:
                return chosen
        return None

    def _tightest(self, domains: Sequence[Domain], start: int, count: int, leaders: int) -> Domain:
        """Return the domain at `start`, unless it holds all pods.

        If it does, return the domain with the least room that holds all pods (`findBestFitDomainBy`). For a request
        without a level (`unconstrained`), always return the domain at `start`.
        """
        first = domains[start]
        if not (self._is_tight and self._holds(first, count, leaders)):
            return first
        holding = [domain for domain in domains[start:] if self._holds(domain, count, leaders)]
        return min(holding, key=lambda domain: self._pods(domain, leaders))

    def _prioritize_leader(self, domains: Sequence[Domain], count: int, leaders: int) -> Sequence[Domain]:
        """Return the domains, with the first domain in front that can take the leader (`prioritizeLeaderDomain`).

        A domain can take the leader if the domains together still hold all worker pods.
        """
        if not self._counts_leader:
            return domains
        spare = sum(self._room[domain].pods for domain in domains) - count
        for index, domain in enumerate(domains if leaders else ()):
            room = self._room[domain]
            if room.leaders >= leaders and room.pods - room.led_pods <= spare:
                return [domain, *domains[:index], *domains[index + 1 :]]
        return domains

    def _sort(self, domains: Iterable[Domain]) -> list[Domain]:
        """Sort domains by room for worker pods: the most first, or for `unconstrained` the least (`sortedDomains`)."""
        sign = -1 if self._is_tight else 1
        return sorted(domains, key=lambda domain: (sign * self._room[domain].pods, domain.values))

    def _sort_leader_first(self, domains: Iterable[Domain]) -> list[Domain]:
        """Sort domains: with room for the leader first, then by room for worker pods (`sortedDomainsWithLeader`)."""
        sign = -1 if self._is_tight else 1
        rooms = self._room
        return sorted(domains, key=lambda item: (-rooms[item].leaders, sign * rooms[item].led_pods, item.values))


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Pods of one PodSet in one leaf domain: `key` is the key of the domain, `pods` is the name of the PodSet."""

    flavor: str
    key: Key
    pods: str
    requests: Requests
    count: int

    @property
    def total(self) -> dict[str, int]:
        """Resources that all these pods use together."""
        return {**{name: amount * self.count for name, amount in self.requests.items()}, "pods": self.count}


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A PodSet that Kueue places by topology, and the name of its flavor."""

    pods: PodSet
    flavor: str


@dataclass(frozen=True, slots=True)
class NoPlace:
    """A PodSet group for which the nodes of a flavor have no room.

    If the group requires a level, all its pods must fit into one domain of this level.
    """

    pods: Sequence[PodSet]
    flavor: str

    def __str__(self) -> str:
        request = self.pods[0].topology
        domain = f"in one {request.level} " if request and request.mode is TopologyMode.REQUIRED else ""
        pods = " and ".join(f"{podset.count} of `{podset.name}`" for podset in self.pods)
        return f"the nodes of flavor `{self.flavor}` have no room {domain}for these pods: {pods}"


_Usage = dict[tuple[str, Key], dict[str, int]]
"""(flavor, key of a leaf) → amounts in use. The flavor is empty if leaves are nodes, which flavors may share."""


class Sites:
    """The topology domains of all flavors, and the resources that running jobs use in them."""

    def __init__(
        self,
        flavors: Mapping[str, Flavor],
        machines: Sequence[Machine],
        unknown: Iterable[str] = (),
        rules: Rules = NEWEST,
    ) -> None:
        """Create idle domains.

        Args:
            flavors: all flavors.
            machines: the Nodes; empty if they are unknown.
            unknown: names of flavors whose usage is known, but not the nodes in use.
            rules: the rules of the Kueue version.
        """
        self._flavors = flavors
        self._machines = machines
        self._unknown = frozenset(unknown)
        self._rules = rules
        self._trees: dict[str, TopologyTree] = {}
        self._used: _Usage = {}
        self._feasible: dict[tuple[str, str], frozenset[Key]] = {}

    def find(self, pods: Iterable[PlacementRequest], *, is_empty: bool = False) -> tuple[Occupancy, ...] | NoPlace:
        """Return the leaf domains for all pods of a job; with `is_empty`, as if no other job ran.

        Return NoPlace if a PodSet group has no room.

        Raises:
            NotModelledError: the result depends on unknown nodes.
        """
        occupancies: list[Occupancy] = []
        assumed: _Usage = {}
        by_flavor = sorted(pods, key=lambda placed: placed.flavor)
        for flavor, members in groupby(by_flavor, key=lambda placed: placed.flavor):
            for _, group in group_podsets([placed.pods for placed in members]):
                placed = self._find_group(flavor, group, [assumed] if is_empty else [assumed, self._used])
                if placed is None:
                    return NoPlace(group, flavor)
                occupancies += placed
                for occupancy in placed:
                    self._count(assumed, occupancy, 1)
        return tuple(occupancies)

    def most(self, flavor: str, pods: PodSet) -> int:
        """Return an upper bound of the pods of a PodSet that the idle domains of a flavor hold.

        If the PodSet requires a level, the result is a bound for the largest domain of this level.

        Raises:
            NotModelledError: the result depends on unknown nodes.
        """
        tree, request = self._tree(self._flavors[flavor], pods), pods.topology
        level = request.level if request and request.mode is TopologyMode.REQUIRED else ""
        depth = tree.levels.index(level) + 1 if level in tree.levels else 0
        rooms: dict[Key, int] = {}
        feasible = self._feasible_leaves(pods, flavor)
        for leaf in tree.leaves.values():
            if tree.key(leaf) in feasible:
                domain = leaf.values[:depth]
                rooms[domain] = rooms.get(domain, 0) + count_in({**pods.requests, **_ONE_POD}, leaf.capacity)
        return max(rooms.values(), default=0)

    def _feasible_leaves(self, pods: PodSet, flavor: str) -> frozenset[Key]:
        """Return the keys of the leaves where pods can run, cached by node selector, tolerations and affinity."""
        key = flavor, f"{pods.node_selector} {pods.tolerations} {pods.affinity}"
        if key not in self._feasible:
            self._feasible[key] = frozenset(
                leaf_key
                for leaf_key, leaf in self._trees[flavor].leaves.items()
                if leaf.machine is None or not self._machines or is_feasible(leaf.machine, pods, self._flavors[flavor])
            )
        return self._feasible[key]

    def _find_group(self, flavor: str, group: Sequence[PodSet], usage: Sequence[_Usage]) -> list[Occupancy] | None:
        workers, leader = _workers_and_leader(group)
        tree = self._tree(self._flavors[flavor], workers)
        feasible, used = self._feasible_leaves(workers, flavor), [amounts for amounts in usage if amounts]

        def free(leaf: Domain) -> Requests | None:
            """Return the free resources of a leaf; None if the pods cannot run there."""
            return self._free(flavor, leaf, used) if tree.key(leaf) in feasible else None

        rooms = _Search(tree, (workers, leader), free, counts_leader=self._rules.counts_leader).run()
        return None if rooms is None else list(_occupancies(flavor, tree, rooms, workers, leader))

    def _tree(self, flavor: Flavor, pods: PodSet) -> TopologyTree:
        """Return the domains of a flavor: from the Nodes, or without them from the nodes that the flavor declares.

        Raises:
            NotModelledError: the Topology is in no file, or the room for the pods depends on unknown nodes.
        """
        tree = self._domains(flavor)
        is_required = pods.topology is not None and pods.topology.mode is TopologyMode.REQUIRED
        if flavor.name in self._unknown:
            message = f"the room for `{pods.name}` depends on the nodes of flavor `{flavor.name}` that other jobs use"
            raise NotModelledError((Problem(message),))
        if not self._machines and (is_required or not tree.leaves):
            message = f"the room for `{pods.name}` depends on the topology of the nodes of flavor `{flavor.name}`"
            raise NotModelledError((Problem(message, _FIX),))
        return tree

    def _domains(self, flavor: Flavor) -> TopologyTree:
        """Return the domains of a flavor.

        Raises:
            NotModelledError: the Topology is in no file.
        """
        if not flavor.levels:
            message = f"the Topology of flavor `{flavor.name}` is in no file, or has no levels"
            raise NotModelledError((Problem(message, "add the Topology with its levels"),))
        if flavor.name not in self._trees:
            given = [machine for machine in self._machines if is_of_flavor(machine, flavor)]
            self._trees[flavor.name] = TopologyTree(
                flavor.levels, given if self._machines else generic_machines(flavor)
            )
        return self._trees[flavor.name]

    def _free(self, flavor: str, leaf: Domain, usage: Sequence[_Usage]) -> Requests:
        if not usage:
            return leaf.capacity
        tree = self._trees[flavor]
        key = ("" if tree.are_nodes else flavor, tree.key(leaf))
        used = [amounts[key] for amounts in usage if key in amounts]
        if not used:
            return leaf.capacity
        return {name: amount - sum(amounts.get(name, 0) for amounts in used) for name, amount in leaf.capacity.items()}

    def _key(self, occupancy: Occupancy) -> tuple[str, Key]:
        if occupancy.flavor not in self._flavors:
            raise NotModelledError(
                (Problem(f"no file has the ResourceFlavor `{occupancy.flavor}`, whose nodes a job uses"),)
            )
        tree = self._domains(self._flavors[occupancy.flavor])
        return "" if tree.are_nodes else occupancy.flavor, occupancy.key

    def _count(self, usage: _Usage, occupancy: Occupancy, sign: int) -> None:
        add_requests(usage.setdefault(self._key(occupancy), {}), occupancy.total, sign)

    @property
    def is_idle(self) -> bool:
        """True if no pod that Kueue places by topology is running."""
        return not any(any(amounts.values()) for amounts in self._used.values())

    def holds(self, occupancies: Iterable[Occupancy]) -> bool:
        """Return True if the domains of these pods still have room for them (`Fits`)."""
        leaves = ((occupancy, self._trees[occupancy.flavor].leaves[occupancy.key]) for occupancy in occupancies)
        return all(
            count_in(occupancy.requests, self._free(occupancy.flavor, leaf, [self._used])) >= occupancy.count
            for occupancy, leaf in leaves
        )

    def check(self, occupancies: Iterable[Occupancy]) -> None:
        """Raise an error if a new job shares a node with running jobs while no file has the Nodes.

        Raises:
            NotModelledError: the jobs that share a node depend on the unknown topology.
        """
        for occupancy in () if self._machines else occupancies:
            if any(self._used.get(self._key(occupancy), {}).values()):
                message = (
                    f"the jobs that share a node depend on the topology of the nodes of flavor `{occupancy.flavor}`"
                )
                raise NotModelledError((Problem(message, _FIX),))

    def take(self, occupancies: Iterable[Occupancy]) -> None:
        """Add the resources of started pods to the usage."""
        for occupancy in occupancies:
            self._count(self._used, occupancy, 1)

    def give_back(self, occupancies: Iterable[Occupancy]) -> None:
        """Remove the resources of stopped pods from the usage."""
        for occupancy in occupancies:
            self._count(self._used, occupancy, -1)


def _workers_and_leader(group: Sequence[PodSet]) -> tuple[PodSet, PodSet | None]:
    """Return (worker PodSet, leader PodSet or None) of a group; the leader has one pod (`findLeaderAndWorkers`).

    Raises:
        NotModelledError: the group has another form, so Kueue rejects it (kueue v0.19.2
        pkg/controller/jobframework/tas_validation.go).
    """
    workers, leader = group[0], group[1] if len(group) > 1 else None
    if leader and leader.count > workers.count:
        workers, leader = leader, workers
    is_group = bool(workers.topology and workers.topology.group)
    if len(group) != 1 + is_group or (leader and leader.count != 1):
        message = f"Kueue rejects the group {join_names(group)}: a group has two PodSets, one of them with a single pod"
        raise NotModelledError((Problem(message),))
    return workers, leader


def _occupancies(
    flavor: str, tree: TopologyTree, rooms: Mapping[Domain, _Room], workers: PodSet, leader: PodSet | None
) -> Iterator[Occupancy]:
    for leaf, room in rooms.items():
        if leader and room.leaders:
            yield Occupancy(flavor, tree.key(leaf), leader.name, leader.requests, room.leaders)
        if room.pods:
            yield Occupancy(flavor, tree.key(leaf), workers.name, workers.requests, room.pods)
