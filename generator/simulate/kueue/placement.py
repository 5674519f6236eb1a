"""Placement of pods by topology: the domains that running jobs occupy, and the domains that another job gets.

Source: kueue v0.19.2 pkg/cache/scheduler/tas_flavor_snapshot.go `FindTopologyAssignmentsForFlavor`,
`findTopologyAssignment`, clusterqueue_snapshot.go. Slices, balanced placement and preferred node affinity are not
simulated; the profile is Mixed (`TASProfileMixed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from generator.errors import NotModelledError, Problem
from generator.objects.amounts import Requests
from generator.simulate.kueue.configuration import NEWEST, Rules
from generator.simulate.kueue.nodes import alike, is_of, takes
from generator.simulate.kueue.podsets import PodSet, grouped, named
from generator.simulate.kueue.queues import Flavor
from generator.simulate.kueue.topology import How, Key, Machine, Place, Places, times

_ONE_POD = {"pods": 1}


@dataclass(frozen=True, slots=True)
class Ask:
    """Pods that are placed together.

    Attributes:
        count: how many there are, the leader apart.
        requests: what each asks for.
        leader: what the one pod asks for that is placed with them; None without one.
        how: how close together.
        level: which level that is about.
        counts_leader: see `kueue_rules.Rules`.
    """

    count: int
    requests: Requests
    leader: Requests | None
    how: How
    level: str
    counts_leader: bool = True


@dataclass(slots=True)
class Room:
    """How many pods a place holds, and then, how many it gets.

    Attributes:
        pods: without the leader.
        beside: with the leader there too.
        leaders: 1 if it holds the leader.
    """

    pods: int = 0
    beside: int = 0
    leaders: int = 0


def place(places: Places, ask: Ask, free: Callable[[Place], Requests | None]) -> dict[Place, Room] | None:
    """Narrowest place → what it gets; None if there is no room.

    Args:
        places: all that there are.
        ask: the pods.
        free: of a narrowest place what is free there; None where they may not go.
    """
    return _Search(places, ask, free).found()


class _Search:
    def __init__(self, places: Places, ask: Ask, free: Callable[[Place], Requests | None]) -> None:
        self._places = places
        self._ask = ask
        self._leaders = 0 if ask.leader is None else 1
        self._is_tight = ask.how is not How.UNCONSTRAINED  # else the places with the least room come first
        self._room: dict[Place, Room] = {}
        self._asked = {**ask.requests, **_ONE_POD}
        self._leader = {**(ask.leader or {}), **_ONE_POD}
        for each in places.at[0].values():
            self._fill(each, free)

    def _fill(self, here: Place, free: Callable[[Place], Requests | None]) -> Room:
        """How much each place holds (`fillLeafCounts`, `fillInCountsHelper`)."""
        room = self._room[here] = Room()
        inner = [self._fill(each, free) for each in here.inner]
        if inner:
            room.pods = sum(each.pods for each in inner)
            able = [each.pods - each.beside for each in inner if each.leaders or not self._leaders]
            room.beside = room.pods - min(able) if able else 0
            room.leaders = max(each.leaders for each in inner)
        elif (left := free(here)) is not None:
            room.pods = room.beside = times(self._asked, left)
            if self._leaders and times(self._leader, left) > 0:
                room.leaders = 1
                left = {name: amount - self._leader.get(name, 0) for name, amount in left.items()}
                room.beside = times(self._asked, left)
        return room

    def found(self) -> dict[Place, Room] | None:
        """From the places of a level down to the narrowest, each time as few as can be."""
        level = self._places.levels.index(self._ask.level)
        fitting = self._fitting(level)
        if fitting is None:
            return None
        level, chosen = fitting
        minimum = self._minimum(chosen)
        for _ in range(level, len(self._places.levels) - 1):
            minimum = self._minimum(self._sorted(each for outer in minimum or () for each in outer.inner))
        # None: Kueue too would come to no end here, and logs an error (`errCodeAssumptionsViolated`)
        return None if minimum is None else {each: self._room[each] for each in minimum}

    def _fitting(self, level: int) -> tuple[int, Sequence[Place]] | None:
        """`findLevelWithFitDomains`."""
        known = self._with_leader_first(self._places.at[level].values())
        if not known:
            return None
        if self._is_tight:
            if self._holds(known[0]):
                return level, [self._tightest(known, self._ask.count, self._leaders)]
        elif holding := next((each for each in known if self._holds_all(each)), None):
            return level, [holding]
        if self._ask.how is How.REQUIRED:
            return None
        if level > 0 and self._is_tight:
            return self._fitting(level - 1)
        several = self._several(known)
        return None if several is None else (level, several)

    def _holds(self, here: Place) -> bool:
        room = self._room[here]
        return room.beside >= self._ask.count and room.leaders >= self._leaders

    def _holds_all(self, here: Place) -> bool:
        """Return True for a place with room for all, before Kueue 0.19 without a look at the leader."""
        return self._holds(here) if self._ask.counts_leader else self._room[here].pods >= self._ask.count

    def _several(self, known: Sequence[Place]) -> list[Place] | None:
        """More than one place: first one with the leader, then those with the most room."""
        known = self._leader_first(known, self._ask.count, self._leaders)
        chosen: list[Place] = []
        left, leaders, number = self._ask.count, self._leaders, 0
        while leaders > 0 and number < len(known) and self._room[known[number]].leaders > 0:
            here = known[number]
            if self._is_tight and self._room[here].beside >= left:
                here = self._tightest(known[number:], left, leaders)
            chosen.append(here)
            leaders -= self._room[here].leaders
            left -= self._room[here].beside
            number += 1
        others = self._sorted(known[number:])
        for number, here in enumerate(others):
            if left <= 0 or leaders > 0:
                break
            if self._is_tight and self._room[here].pods >= left:
                here = self._tightest(others[number:], left, 0)  # noqa: PLW2901 - the last of them
            chosen.append(here)
            left -= self._room[here].pods
        return chosen if left <= 0 and leaders <= 0 else None

    def _minimum(self, known: Sequence[Place]) -> list[Place] | None:
        """Give each place what it gets, and leave out those that get nothing (`updateCountsToMinimumGeneric`)."""
        known = self._leader_first(known, self._ask.count, self._leaders)
        chosen: list[Place] = []
        left, leaders = self._ask.count, self._leaders
        for number, each in enumerate(known):
            room = self._room[each]
            here, most = each, room.beside if leaders else room.pods
            if self._is_tight and most >= left and room.leaders >= leaders:
                here = self._tightest(known[number:], left, leaders)
                room = self._room[here]
                most = room.beside if leaders else room.pods
            is_last = most >= left and room.leaders >= leaders
            led = min(room.leaders, leaders)
            if is_last or not leaders or self._ask.counts_leader:
                room.pods = most = min(most, left)
            elif most > left:
                raise NotModelledError((Problem("Kueue 0.18 gives a launcher a place where all hosts are already"),))
            room.leaders = led  # before 0.19 this place keeps all hosts for which it has room without the launcher
            left, leaders = left - most, leaders - led
            chosen.append(here)
            if is_last:
                return chosen
        return None

    def _tightest(self, known: Sequence[Place], count: int, leaders: int) -> Place:
        """The first of those with the least room that is enough; or else the first of all (`findBestFitDomainBy`)."""

        def most(here: Place) -> int:
            return self._room[here].beside if leaders else self._room[here].pods

        holding = [each for each in known if self._room[each].leaders >= leaders and most(each) >= count]
        return min(holding, key=most, default=known[0])

    def _leader_first(self, known: Sequence[Place], count: int, leaders: int) -> Sequence[Place]:
        """A place for the leader first, which then leaves enough for all others (`prioritizeLeaderDomain`)."""
        if not self._ask.counts_leader:
            return known
        spare = sum(self._room[each].pods for each in known) - count
        for number, each in enumerate(known if leaders else ()):
            room = self._room[each]
            if room.leaders >= leaders and room.pods - room.beside <= spare:
                return [each, *known[:number], *known[number + 1 :]]
        return known

    def _sorted(self, known: Iterable[Place]) -> list[Place]:
        """`sortedDomains`."""
        sign = -1 if self._is_tight else 1
        return sorted(known, key=lambda each: (sign * self._room[each].pods, each.values))

    def _with_leader_first(self, known: Iterable[Place]) -> list[Place]:
        """`sortedDomainsWithLeader`."""
        sign = -1 if self._is_tight else 1
        return sorted(known, key=lambda each: (-self._room[each].leaders, sign * self._room[each].beside, each.values))


_FIX = "give the Nodes, as `kubectl get nodes -o yaml` tells them"


@dataclass(frozen=True, slots=True)
class Stay:
    """Pods of one kind that are in one place: a node, or what else is the narrowest level of the topology."""

    flavor: str
    key: Key
    pods: str
    requests: Requests
    count: int

    @property
    def total(self) -> dict[str, int]:
        """What they take there."""
        return {**{name: amount * self.count for name, amount in self.requests.items()}, "pods": self.count}


@dataclass(frozen=True, slots=True)
class Placed:
    """Pods that Kueue places by topology, with the flavor that they have."""

    pods: PodSet
    flavor: str


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Pods that are placed together, and for which there is no room."""

    pods: Sequence[PodSet]
    flavor: str

    def __str__(self) -> str:
        wish = self.pods[0].topology
        where = f"in one {wish.level} " if wish and wish.how is How.REQUIRED else ""
        pods = " and ".join(f"{each.count} `{each.name}`" for each in self.pods)
        return f"there is no room {where}for {pods} on the nodes of flavor `{self.flavor}`"


_Taken = dict[tuple[str, Key], dict[str, int]]
"""What is in use: flavor and place → amounts; for nodes the flavor is empty, as several may have the same."""


class Sites:
    """All places, and what running jobs have of them."""

    def __init__(
        self,
        flavors: Mapping[str, Flavor],
        machines: Sequence[Machine],
        unknown: Iterable[str] = (),
        rules: Rules = NEWEST,
    ) -> None:
        """Nothing is in use, except of flavors of which something is and nobody knows where: these are `unknown`.

        Without `machines` it is not known what nodes there are.
        """
        self._flavors = flavors
        self._machines = machines
        self._unknown = frozenset(unknown)
        self._rules = rules
        self._places: dict[str, Places] = {}
        self._taken: _Taken = {}
        self._open: dict[tuple[str, str], frozenset[Key]] = {}

    def find(self, asked: Iterable[Placed], *, is_empty: bool = False) -> tuple[Stay, ...] | NoPlace:
        """Where all pods of a job go that are placed by topology; `is_empty`: as if nothing else were running.

        Raises:
            NotModelledError: it depends on nodes that are not known.
        """
        stays: list[Stay] = []
        assumed: _Taken = {}
        in_order = sorted(asked, key=lambda each: each.flavor)
        for flavor, some in groupby(in_order, key=lambda each: each.flavor):
            for _, group in grouped([each.pods for each in some]):
                found = self._find(flavor, group, [assumed] if is_empty else [assumed, self._taken])
                if found is None:
                    return NoPlace(group, flavor)
                stays += found
                for stay in found:
                    _change(assumed, self._at(stay), stay.total, 1)
        return tuple(stays)

    def most(self, flavor: str, pods: PodSet) -> int:
        """How many pods of a kind there is room for at most, if nothing is running.

        Raises:
            NotModelledError: it depends on nodes that are not known.
        """
        places, wish = self._known(self._flavors[flavor], pods), pods.topology
        level = wish.level if wish and wish.how is How.REQUIRED else ""
        depth = places.levels.index(level) + 1 if level in places.levels else 0
        rooms: dict[Key, int] = {}
        is_open = self._open_to(pods, flavor)
        for here in places.narrowest.values():
            if places.key(here) in is_open:
                around = here.values[:depth]
                rooms[around] = rooms.get(around, 0) + times({**pods.requests, "pods": 1}, here.capacity)
        return max(rooms.values(), default=0)

    def _open_to(self, pods: PodSet, flavor: str) -> frozenset[Key]:
        """The narrowest places where pods may go; others of the same kind ask again and again."""
        alike = flavor, f"{pods.node_selector} {pods.tolerations} {pods.affinity}"
        if alike not in self._open:
            known = self._places[flavor].narrowest.items()
            self._open[alike] = frozenset(
                key
                for key, here in known
                if here.machine is None or not self._machines or takes(here.machine, pods, self._flavors[flavor])
            )
        return self._open[alike]

    def _find(self, flavor: str, group: Sequence[PodSet], taken: Sequence[_Taken]) -> list[Stay] | None:
        workers, leader = _workers_and_leader(group)
        places, wish = self._known(self._flavors[flavor], workers), workers.topology
        ask = Ask(
            workers.count,
            workers.requests,
            leader.requests if leader else None,
            wish.how if wish else How.UNCONSTRAINED,
            wish.level if wish and wish.level else places.levels[-1],
            self._rules.counts_leader,
        )

        is_open, used = self._open_to(workers, flavor), [each for each in taken if each]

        def free(here: Place) -> Requests | None:
            return self._free(flavor, here, used) if places.key(here) in is_open else None

        found = place(places, ask, free)
        return None if found is None else list(_stays(flavor, places, found, workers, leader))

    def _known(self, flavor: Flavor, pods: PodSet) -> Places:
        """The places of a flavor: of the nodes that there are, or else of those that it says there are."""
        if not flavor.levels:
            message = f"the Topology of flavor `{flavor.name}` is in no file, or has no levels"
            raise NotModelledError((Problem(message, "give it too"),))
        if flavor.name not in self._places:
            nodes = [each for each in self._machines if is_of(each, flavor)] if self._machines else alike(flavor)
            self._places[flavor.name] = Places(flavor.levels, nodes)
        places = self._places[flavor.name]
        must_be_close = pods.topology is not None and pods.topology.how is How.REQUIRED
        if flavor.name in self._unknown:
            message = f"whether `{pods.name}` has a place depends on where others run on flavor `{flavor.name}`"
            raise NotModelledError((Problem(message),))
        if not self._machines and (must_be_close or not places.narrowest):
            message = f"whether `{pods.name}` has a place depends on where the nodes of flavor `{flavor.name}` are"
            raise NotModelledError((Problem(message, _FIX),))
        return places

    def _free(self, flavor: str, here: Place, taken: Sequence[_Taken]) -> Requests:
        if not taken:
            return here.capacity
        places = self._places[flavor]
        at = ("" if places.are_nodes else flavor, places.key(here))
        used = [each[at] for each in taken if at in each]
        if not used:
            return here.capacity
        return {name: amount - sum(each.get(name, 0) for each in used) for name, amount in here.capacity.items()}

    def _at(self, stay: Stay) -> tuple[str, Key]:
        return "" if self._places[stay.flavor].are_nodes else stay.flavor, stay.key

    @property
    def is_idle(self) -> bool:
        """Whether nothing is running anywhere."""
        return not any(any(each.values()) for each in self._taken.values())

    def holds(self, stays: Iterable[Stay]) -> bool:
        """Whether there is still room where pods are to go (`Fits`)."""
        there = ((each, self._places[each.flavor].narrowest[each.key]) for each in stays)
        return all(
            times(each.requests, self._free(each.flavor, here, [self._taken])) >= each.count for each, here in there
        )

    def check(self, stays: Iterable[Stay]) -> None:
        """That no job shares a node with another one, where it is not known which nodes are close to which.

        Raises:
            NotModelledError: one does.
        """
        for stay in () if self._machines else stays:
            if any(self._taken.get(self._at(stay), {}).values()):
                message = f"which jobs share a node of flavor `{stay.flavor}` depends on where its nodes are"
                raise NotModelledError((Problem(message, _FIX),))

    def take(self, stays: Iterable[Stay]) -> None:
        """Pods are there."""
        for stay in stays:
            _change(self._taken, self._at(stay), stay.total, 1)

    def give_back(self, stays: Iterable[Stay]) -> None:
        """Pods are there no more."""
        for stay in stays:
            _change(self._taken, self._at(stay), stay.total, -1)


def _change(taken: _Taken, at: tuple[str, Key], amounts: Requests, sign: int) -> None:
    there = taken.setdefault(at, {})
    for name, amount in amounts.items():
        there[name] = there.get(name, 0) + sign * amount


def _workers_and_leader(group: Sequence[PodSet]) -> tuple[PodSet, PodSet | None]:
    """`findLeaderAndWorkers`; other groups pkg/controller/jobframework/tas_validation.go refuses."""
    workers, leader = group[0], group[1] if len(group) > 1 else None
    if leader and leader.count > workers.count:
        workers, leader = leader, workers
    is_group = bool(workers.topology and workers.topology.group)
    if len(group) != 1 + is_group or (leader and leader.count != 1):
        message = f"Kueue refuses the group {named(group)}: it takes two kinds of pods, and of one a single pod"
        raise NotModelledError((Problem(message),))
    return workers, leader


def _stays(
    flavor: str, places: Places, found: Mapping[Place, Room], workers: PodSet, leader: PodSet | None
) -> Iterator[Stay]:
    for here, room in found.items():
        if leader and room.leaders:
            yield Stay(flavor, places.key(here), leader.name, leader.requests, room.leaders)
        if room.pods:
            yield Stay(flavor, places.key(here), workers.name, workers.requests, room.pods)
