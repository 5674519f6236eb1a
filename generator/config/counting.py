"""`queues.excludeResourcePrefixes` and `queues.transformations`: what Kueue counts of what nodes have and pods ask for.

Kueue itself wants each input once, and one of two strategies: v0.19.2 pkg/config/validation.go
`validateResourceTransformations`. `multiplyBy` is not offered, as Kueue 0.18 and 0.19 differ in what it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from generator.config.pools import Pool
from generator.simulate.amounts import requested, shown
from generator.simulate.counting import Counting


@dataclass(frozen=True, slots=True)
class Supply:
    """A pool as quotas know it.

    Attributes:
        name: of the pool.
        nodes: how many it has.
        offered: resource → what one node has for jobs, as Kueue counts it.
        accelerator: the device that runs ranks, whatever it counts as.
        uncounted: resource that nodes have, and Kueue does not count → what it counts instead, if anything.
    """

    name: str
    nodes: int
    offered: Mapping[str, str]
    accelerator: str
    uncounted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def supply(pool: Pool, how: Counting) -> Supply:
    """What quotas of a pool are made of."""
    asked = requested(pool.offered, pool.name)
    counted = how.of(asked)
    if counted == asked:
        return Supply(pool.name, pool.nodes, pool.offered, pool.accelerator)
    amounts = {name: shown(name, amount) for name, amount in counted.items()}
    uncounted = {name: how.instead(name) for name in asked if name not in counted}
    return Supply(pool.name, pool.nodes, amounts, pool.accelerator, uncounted)
