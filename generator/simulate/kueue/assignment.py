"""The flavors that a job gets or would get, and the shortages that keep it pending.

Source: kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go `Assignment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from generator.objects.amounts import Amounts, FlavorResource, format_amount
from generator.objects.queue import Fungibility
from generator.simulate.kueue.placement import Stay


class Mode(IntEnum):
    """The mode of a flavor assignment, from worst to best (`preemptionMode`)."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


Tried = tuple[Mapping[str, int], ...]
"""For each PodSet: resource → index of the last flavor that was tried; -1 if no flavor is left."""
RankedMode = tuple[Mode, int]
"""The mode of a flavor, and the height of the lender in the quota tree: 0 without borrowing."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The flavor of a resource; `borrowing` is the height of the lender in the quota tree, 0 without borrowing."""

    flavor: str
    mode: Mode
    borrowing: int
    tried: int = -1


@dataclass(frozen=True, slots=True)
class Shortage:
    """A flavor and resource that a job needs more of than there is: ever, or at the moment.

    Attributes:
        pods: names of the PodSets up to which the need adds up.
        key: the flavor and resource.
        takes: the amount that the job needs.
        has: the amount that is available.
        queue: the ClusterQueue, if it never gets more; empty if only no more is free at the moment.
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
        mode: the worst mode: NO_FIT, NO_CANDIDATES (then other jobs use the quota), or FIT.
        usage: the quota that the job would use.
        rejections: reasons why flavors do not match.
        shortages: flavors and resources with too little quota.
        stays: domains of pods that are placed by topology.
    """

    podsets: dict[str, Mapping[str, Choice]] = field(default_factory=dict)
    mode: Mode = Mode.FIT
    usage: Amounts = field(default_factory=dict)
    rejections: list[str] = field(default_factory=list)
    shortages: list[Shortage] = field(default_factory=list)
    stays: tuple[Stay, ...] = ()

    def require_preemption(self, names: Iterable[str]) -> None:
        """Lower the mode of PodSets that have quota but no room (`updateModeForTASRequests`)."""
        for name in names:
            choices = self.podsets[name].items()
            self.podsets[name] = {key: replace(choice, mode=Mode.NO_CANDIDATES) for key, choice in choices}
            self.mode = Mode.NO_CANDIDATES

    @property
    def places(self) -> Mapping[str, Mapping[str, int]]:
        """PodSet → leaf domain → number of pods, for pods that are placed by topology."""
        places: dict[str, dict[str, int]] = {}
        for stay in self.stays:
            places.setdefault(stay.pods, {})["/".join(stay.key)] = stay.count
        return places

    @property
    def reasons(self) -> list[str]:
        """Reasons why the job does not fit, without duplicates."""
        return list(dict.fromkeys([*map(str, self.shortages), *self.rejections]))

    @property
    def borrowing(self) -> int:
        """Height of the highest lender."""
        return max((choice.borrowing for choices in self.podsets.values() for choice in choices.values()), default=0)

    @property
    def contested(self) -> frozenset[FlavorResource]:
        """Flavors and resources that other jobs must free (`flavorResourcesNeedPreemption`)."""
        return frozenset(
            FlavorResource(choice.flavor, resource)
            for choices in self.podsets.values()
            for resource, choice in choices.items()
            if Mode.NO_FIT < choice.mode < Mode.FIT
        )

    @property
    def keys(self) -> frozenset[FlavorResource]:
        """Assigned flavors and resources, including those with an amount of 0."""
        podsets = self.podsets.values()
        return frozenset(FlavorResource(choice.flavor, name) for choices in podsets for name, choice in choices.items())

    @property
    def tried(self) -> Tried:
        """The flavors at which the search stopped (`LastTriedFlavorIdx`)."""
        return tuple({name: choice.tried for name, choice in choices.items()} for choices in self.podsets.values())

    @property
    def has_untried_flavors(self) -> bool:
        """True if the search stopped before the last flavor (`PendingFlavors`)."""
        return any(index != -1 for indexes in self.tried for index in indexes.values())


def tries_next_flavor(mode: RankedMode, rules: Fungibility) -> bool:
    """Return True if Kueue tries the next flavor as well (`shouldTryNextFlavor`)."""
    how, borrowing = mode
    if how <= Mode.NO_CANDIDATES or (how < Mode.FIT and rules.when_can_preempt == "TryNextFlavor"):
        return True
    return borrowing > 0 and rules.when_can_borrow == "TryNextFlavor"


def is_better(one: RankedMode, other: RankedMode, rules: Fungibility, *, ranks_no_candidates_last: bool = True) -> bool:
    """Return True if Kueue prefers one flavor to another (`isPreferred`)."""
    (mode, borrowing), (other_mode, other_borrowing) = one, other
    if Mode.NO_FIT in (mode, other_mode):
        return mode is not Mode.NO_FIT
    if ranks_no_candidates_last and (mode is Mode.NO_CANDIDATES) != (other_mode is Mode.NO_CANDIDATES):
        return other_mode is Mode.NO_CANDIDATES
    if rules.preference == "PreemptionOverBorrowing":
        return (-borrowing, mode) > (-other_borrowing, other_mode)
    return (mode, -borrowing) > (other_mode, -other_borrowing)
