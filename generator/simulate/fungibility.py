"""Which of several flavors a queue prefers.

kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go; what is named there is said at each function.
"""

from __future__ import annotations

from generator.simulate.assignment import Mode
from generator.simulate.queues import Fungibility

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
