"""The flavors that a job gets or would get, and the shortages that keep it pending.

Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go `Assignment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from generator.objects.amounts import Amounts, FlavorResource, shown
from generator.simulate.kueue.placement import Stay
from generator.simulate.kueue.queues import Fungibility


class Mode(IntEnum):
    """How a flavor can be had (`preemptionMode`); the higher, the better."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


Tried = tuple[Mapping[str, int], ...]
"""For each kind of pods: resource → the flavor that was tried last, by its number; -1 if that was the last there is."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The flavor of a resource; `borrowing` is 0 within the own quota, and else how high the lender is in the tree."""

    flavor: str
    mode: Mode
    borrowing: int
    tried: int = -1


@dataclass(frozen=True, slots=True)
class Shortage:
    """Of what a job takes more than there is: ever, or just now.

    Attributes:
        pods: the kinds of pods with which it takes so much, as in a sentence.
        key: the flavor and resource.
        takes: what it takes then.
        has: what there is for it.
        queue: whose job it is, if there never is more; empty if there just is no more now.
    """

    pods: str
    key: FlavorResource
    takes: int
    has: int
    queue: str = ""

    def __str__(self) -> str:
        flavor, resource = self.key
        what = f"with {self.pods} the job takes {shown(resource, self.takes)} {resource} of flavor `{flavor}`"
        amount = shown(resource, self.has)
        return f"{what}, and {f'`{self.queue}` never gets more than {amount}' if self.queue else f'{amount} is free'}"


@dataclass(slots=True)
class Assignment:
    """What a job gets.

    Attributes:
        podsets: name → resource → flavor.
        mode: the worst of all of them: NO_FIT, NO_CANDIDATES (then others are in the way), or FIT.
        usage: what it would take.
        refused: why flavors are out of the question.
        shortages: of what there is too little.
        stays: where its pods go that are placed by topology.
    """

    podsets: dict[str, Mapping[str, Choice]] = field(default_factory=dict)
    mode: Mode = Mode.FIT
    usage: Amounts = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    shortages: list[Shortage] = field(default_factory=list)
    stays: tuple[Stay, ...] = ()

    def contest(self, names: Iterable[str]) -> None:
        """There is quota for these pods, and others are in the way all the same (`updateModeForTASRequests`)."""
        for name in names:
            choices = self.podsets[name].items()
            self.podsets[name] = {key: replace(each, mode=Mode.NO_CANDIDATES) for key, each in choices}
            self.mode = Mode.NO_CANDIDATES

    @property
    def places(self) -> Mapping[str, Mapping[str, int]]:
        """Kind of pods → narrowest place → how many of them it gets, as far as they are placed by topology."""
        found: dict[str, dict[str, int]] = {}
        for stay in self.stays:
            found.setdefault(stay.pods, {})["/".join(stay.key)] = stay.count
        return found

    @property
    def reasons(self) -> list[str]:
        """What is in the way, each once."""
        return list(dict.fromkeys([*map(str, self.shortages), *self.refused]))

    @property
    def borrowing(self) -> int:
        """How high the lenders are."""
        return max((each.borrowing for choices in self.podsets.values() for each in choices.values()), default=0)

    @property
    def contested(self) -> frozenset[FlavorResource]:
        """What others have to leave (`flavorResourcesNeedPreemption`)."""
        return frozenset(
            FlavorResource(each.flavor, resource)
            for choices in self.podsets.values()
            for resource, each in choices.items()
            if Mode.NO_FIT < each.mode < Mode.FIT
        )

    @property
    def keys(self) -> frozenset[FlavorResource]:
        """All flavors and resources, also of which it takes nothing."""
        return frozenset(FlavorResource(e.flavor, name) for each in self.podsets.values() for name, e in each.items())

    @property
    def tried(self) -> Tried:
        """Where the search for a flavor was broken off (`LastTriedFlavorIdx`)."""
        return tuple({name: each.tried for name, each in choices.items()} for choices in self.podsets.values())

    @property
    def is_broken_off(self) -> bool:
        """Whether flavors are left that were not tried (`PendingFlavors`)."""
        return any(number != -1 for each in self.tried for number in each.values())


Got = tuple[Mode, int]
"""How a flavor can be had, and how high the lender is: 0 for the own quota."""


def looks_further(mode: Got, rules: Fungibility) -> bool:
    """Whether the next flavor is tried too (`shouldTryNextFlavor`)."""
    how, borrowing = mode
    if how <= Mode.NO_CANDIDATES or (how < Mode.FIT and rules.when_can_preempt == "TryNextFlavor"):
        return True
    return borrowing > 0 and rules.when_can_borrow == "TryNextFlavor"


def is_better(one: Got, other: Got, rules: Fungibility, *, ranks_no_candidates_last: bool = True) -> bool:
    """Return True if one flavor is preferred to another (`isPreferred`)."""
    (mode, borrowing), (others_mode, others_borrowing) = one, other
    if Mode.NO_FIT in (mode, others_mode):
        return mode is not Mode.NO_FIT
    if ranks_no_candidates_last and (mode is Mode.NO_CANDIDATES) != (others_mode is Mode.NO_CANDIDATES):
        return others_mode is Mode.NO_CANDIDATES
    if rules.preference == "PreemptionOverBorrowing":
        return (-borrowing, mode) > (-others_borrowing, others_mode)
    return (mode, -borrowing) > (others_mode, -others_borrowing)
