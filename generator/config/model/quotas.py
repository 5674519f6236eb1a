"""The amounts of a quota: from nodes or resources, as written, to exact amounts of each resource of each pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from generator import quantities
from generator.config.model.fields import (
    Resources,
    canonical_quantity,
    require_plausible_amounts,
    require_whole_devices,
    sort_keys,
)
from generator.config.model.pools import Pool
from generator.objects.queue import format_amount, parse_amounts
from generator.quantities import Quantity
from generator.simulate.kueue.configuration import Counting


@dataclass(frozen=True, slots=True)
class Supply:
    """The resources that a pool provides to quotas.

    Attributes:
        offered: resource → the amount that one node offers to jobs, as Kueue counts it.
        accelerator: the device that runs ranks, before transformations.
        uncounted: resource that Kueue does not count → the resources that Kueue counts in its place.
    """

    name: str
    nodes: int
    offered: Mapping[str, str]
    accelerator: str
    uncounted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def pool_supply(pool: Pool, counting: Counting) -> Supply:
    """Return the resources that a pool provides to quotas."""
    requested = parse_amounts(pool.offered, pool.name)
    counted = counting.of(requested)
    if counted == requested:
        return Supply(pool.name, pool.nodes, pool.offered, pool.accelerator)
    amounts = {name: format_amount(name, amount) for name, amount in counted.items()}
    uncounted = {name: counting.instead(name) for name in requested if name not in counted}
    return Supply(pool.name, pool.nodes, amounts, pool.accelerator, uncounted)


ZERO = Quantity(Fraction(0))

Amounts = dict[str, dict[str, Quantity]]
"""Pool → resource → amount, with every resource that the pool offers."""


def _amount(value: Any) -> int | str:
    quantity = canonical_quantity(value)
    return value if isinstance(value, int) else quantity


def _whole(value: dict[str, Any]) -> dict[str, Any]:
    for share in (value, *(share for share in value.values() if isinstance(share, dict))):
        require_whole_devices(share)
    require_plausible_amounts(value)
    return sort_keys(value)


Share = Annotated[
    Annotated[int | str, PlainValidator(_amount), Tag("[amount]")]
    | Annotated[Resources, Field(min_length=1), AfterValidator(sort_keys), Tag("[each]")],
    Discriminator(lambda value: "[each]" if isinstance(value, dict) else "[amount]"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": ["string", "number"]},
                {"type": "object", "minProperties": 1, "additionalProperties": {"type": ["string", "number"]}},
            ]
        }
    ),
]
"""A number of nodes, an amount of a resource, or amounts of resources."""

Shares = Annotated[dict[str, Share], AfterValidator(_whole)]
"""Pool → nodes or resources of it, or resource → amount."""


def pools_offering(resource: str, pools: Iterable[Supply]) -> list[Supply]:
    """Return the pools whose nodes offer a resource, as Kueue counts it."""
    return [pool for pool in pools if resource in pool.offered]


def quota_amounts(shares: Mapping[str, Share], pools: Sequence[Supply]) -> Amounts:
    """Return the amounts of a quota or a borrowing limit, for each pool that it names.

    Raises:
        KeyError, ValueError: no pool offers a named resource; never for a valid Platform.
    """
    by_name = {pool.name: pool for pool in pools}
    named: dict[str, dict[str, str]] = {}
    result: Amounts = {}
    for key, share in shares.items():
        if key in by_name and isinstance(share, int):
            result[key] = node_amounts(by_name[key], share)
        elif key in by_name and isinstance(share, dict):
            named.setdefault(key, {}).update(share)
        else:
            (pool,) = pools_offering(key, pools)
            named.setdefault(pool.name, {})[key] = str(share)
    for name, resources in named.items():
        result[name] = _of_resources(by_name[name], resources)
    return result


def sum_amounts(*parts: Amounts) -> Amounts:
    """Return the sum of amounts, for each pool that any of them names."""
    result: Amounts = {}
    for part in parts:
        for pool, resources in part.items():
            amounts_of_pool = result.setdefault(pool, {})
            amounts_of_pool.update(
                {name: amount + amounts_of_pool.get(name, ZERO) for name, amount in resources.items()}
            )
    return result


def node_amounts(pool: Supply, nodes: int | Fraction) -> dict[str, Quantity]:
    """Return the resources of a number of nodes of a pool."""
    return {resource: quantities.parse(amount) * nodes for resource, amount in pool.offered.items()}


def _of_resources(pool: Supply, resources: Mapping[str, str]) -> dict[str, Quantity]:
    """Return the named resources, and add the others in proportion to the scarcest named resource."""
    nodes = max(nodes_worth(pool, resource, amount) for resource, amount in resources.items())
    whole = {resource: amount.floor() for resource, amount in node_amounts(pool, nodes).items()}
    return {**whole, **{resource: quantities.parse(amount) for resource, amount in resources.items()}}


def nodes_worth(pool: Supply, resource: str, amount: str) -> Fraction:
    """Return the number of nodes of the pool that together offer an amount of a resource."""
    return quantities.parse(amount).value / quantities.parse(pool.offered[resource]).value
