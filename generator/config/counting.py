"""`queues.excludeResourcePrefixes` and `queues.transformations`: what Kueue counts of what nodes have and pods ask for.

Kueue itself wants each input once, and one of two strategies: v0.19.2 pkg/config/validation.go
`validateResourceTransformations`. `multiplyBy` is not offered, as Kueue 0.18 and 0.19 differ in what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field, field_validator

from generator import quantities
from generator.config.fields import Quantity, Resource, Section
from generator.config.pools import Pool
from generator.simulate import counting
from generator.simulate.amounts import requested, shown
from generator.simulate.counting import Counting


class Transformation(Section):
    """What one resource counts as, such as a MIG slice as so much memory of a GPU."""

    input: Resource
    """What pods ask for, such as `nvidia.com/mig-1g.10gb`."""
    strategy: Literal["retain", "replace"] = "retain"
    """Whether it also counts as itself. `replace`: only as `outputs`, and without any not at all."""
    outputs: dict[Resource, Quantity] = Field(default={})
    """What one of it counts as, such as `example.com/gpu-memory: 10`. Quotas of nodes then have so much of that."""

    @field_validator("outputs")
    @classmethod
    def _in_order(cls, value: dict[str, str]) -> dict[str, str]:
        return dict(sorted(value.items()))


def counting_of(prefixes: Iterable[str], transformations: Iterable[Transformation]) -> Counting:
    """The same as arithmetic."""
    known = {
        each.input: counting.Transformation(
            {name: quantities.parse(factor).value for name, factor in each.outputs.items()},
            keeps_input=each.strategy == "retain",
        )
        for each in transformations
    }
    return Counting(tuple(prefixes), known)


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
