"""Which places the pods of a group get: the fewest and tightest that hold all of them.

kueue v0.19.2 pkg/cache/scheduler/tas_flavor_snapshot.go `findTopologyAssignment`, without slices, balanced placement
and preferred node affinity; with the profile Mixed (`TASProfileMixed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from generator.errors import NotModelledError, Problem
from generator.simulate.amounts import Requests
from generator.simulate.places import Place, Places, times
from generator.simulate.topology import How

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
