"""How large a share of what is lent somebody has: what fair sharing compares.

kueue v0.19.2 pkg/cache/scheduler/fair_sharing.go; in floating point, as there, so that ties are the same
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from generator.simulate.amounts import FlavorResource
from generator.simulate.balance import Node


@dataclass(frozen=True, slots=True)
class Share:
    """The largest part of any resource that a queue or cohort borrows, in thousandths of all that can be lent.

    Attributes:
        ratio: before the weight is taken into account.
        weight: of the queue or cohort.
        borrowed: of what it has more than its own.
    """

    ratio: float
    weight: float
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def weighted(self) -> float:
        """A weight of 2 halves the share, a weight of 0 makes it infinite."""
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def rank(self) -> tuple[bool, float]:
        """To compare by: who borrows at weight 0 comes after all others (`CompareDRS`)."""
        is_weightless = self.weight == 0 and self.ratio != 0
        return is_weightless, self.ratio if is_weightless else self.weighted


NOBODY = Share(-1.0, 1.0)
"""Less than anybody has."""


def share(node: Node) -> Share:
    """That of a queue or cohort now (`dominantResourceShare`)."""
    if node.parent is None:
        return Share(0.0, node.weight)
    beyond = {key: node.uses(key) - own for key, own in node.subtree.items() if node.uses(key) > own}
    borrowed: dict[str, int] = {}
    for key, amount in beyond.items():
        borrowed[key.resource] = borrowed.get(key.resource, 0) + amount
    lent: dict[str, int] = {}
    for key in node.root().subtree if borrowed else ():
        lent[key.resource] = lent.get(key.resource, 0) + node.parent.potential(key)
    ratios = [float(amount) * 1000.0 / float(lent[name]) for name, amount in borrowed.items() if lent.get(name, 0) > 0]
    return Share(max(ratios, default=0.0), node.weight, frozenset(beyond))
