"""The amounts of a quota: the user writes nodes or resources, Kueue needs an amount of each resource of each pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

from pydantic import AfterValidator, Discriminator, Field, PlainSerializer, PlainValidator, Tag, WithJsonSchema

from generator import quantities
from generator.config.model.fields import (
    Resources,
    faults_of_amounts,
    reject,
    sort_keys,
    to_quantity,
)
from generator.config.model.pools import Pool
from generator.objects.queue import format_amount, parse_amounts
from generator.quantities import ZERO, Quantity
from generator.upstream.kueue.configuration import Counting


@dataclass(frozen=True, slots=True)
class Supply:
    """The resources that the nodes of a pool provide to quotas.

    Attributes:
        offered: resource → the amount that one node offers to jobs, as Kueue counts it.
        accelerator: the resource of the devices that run ranks, even if Kueue counts other resources for it.
        uncounted: resource that Kueue does not count → the resources that Kueue counts in its place.
    """

    name: str
    nodes: int
    offered: Mapping[str, Quantity]
    accelerator: str
    uncounted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def pool_supply(pool: Pool, counting: Counting) -> Supply:
    """Return the resources that the nodes of a pool provide to quotas, as Kueue counts them."""
    requested = parse_amounts({name: str(amount) for name, amount in pool.offered.items()}, pool.name)
    counted = counting.of(requested)
    if counted == requested:
        return Supply(pool.name, pool.nodes, pool.offered, pool.accelerator)
    amounts = {name: quantities.parse(format_amount(name, amount)) for name, amount in counted.items()}
    uncounted = {name: counting.instead(name) for name in requested if name not in counted}
    return Supply(pool.name, pool.nodes, amounts, pool.accelerator, uncounted)


Amounts = dict[str, dict[str, Quantity]]
"""Pool → resource → amount, with every resource that the pool offers."""


def _amount(value: object) -> int | Quantity:
    quantity = to_quantity(
        value, "write a number of nodes, such as 2, or for a resource an amount, such as 500m or 256Gi"
    )
    return value if isinstance(value, int) else quantity


def _written(value: int | Quantity) -> int | str:
    return value if isinstance(value, int) else str(value)


def _whole(value: dict[str, Share]) -> dict[str, Share]:
    reject(faults_of_amounts(value))
    return sort_keys(value)


Share = Annotated[
    Annotated[int | Quantity, PlainValidator(_amount), PlainSerializer(_written), Tag("[amount]")]
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
"""Pool → a number of nodes or amounts of resources, or resource → amount."""


def pools_offering(resource: str, pools: Iterable[Supply]) -> list[Supply]:
    """Return the pools whose nodes offer a resource, as Kueue counts it."""
    return [pool for pool in pools if resource in pool.offered]


def quota_amounts(shares: Mapping[str, Share], pools: Sequence[Supply]) -> Amounts:
    """Return the amounts of a quota or a limit for each pool: pool → resource → amount.

    Raises:
        KeyError, ValueError: not exactly one pool offers a resource, or a pool lacks one; never for a valid Platform.
    """
    by_name = {pool.name: pool for pool in pools}
    named: dict[str, dict[str, Quantity]] = {}
    result: Amounts = {}
    for key, share in shares.items():
        if key in by_name and isinstance(share, int):
            result[key] = node_amounts(by_name[key], share)
        elif key in by_name and isinstance(share, dict):
            named.setdefault(key, {}).update(share)
        else:
            (pool,) = pools_offering(key, pools)
            named.setdefault(pool.name, {})[key] = to_quantity(share)
    for name, resources in named.items():
        result[name] = _of_resources(by_name[name], resources)
    return result


def sum_amounts(*parts: Amounts) -> Amounts:
    """Add up amounts (pool → resource → amount) by pool and resource. An amount that a part lacks counts as zero."""
    result: Amounts = {}
    for part in parts:
        for pool, resources in part.items():
            amounts_of_pool = result.setdefault(pool, {})
            amounts_of_pool.update(
                {name: amount + amounts_of_pool.get(name, ZERO) for name, amount in resources.items()}
            )
    return result


def node_amounts(pool: Supply, nodes: int | Fraction) -> dict[str, Quantity]:
    """Return resource → the amount that a number of nodes of a pool offers to jobs."""
    return {resource: amount * nodes for resource, amount in pool.offered.items()}


def _of_resources(pool: Supply, resources: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """Return amounts of some resources of a pool, with the pool's other resources for the same number of nodes.

    If the given amounts need different numbers of nodes, the largest number counts. The other amounts are rounded down.
    """
    nodes = max(nodes_worth(pool, resource, amount) for resource, amount in resources.items())
    whole = {resource: amount.floor() for resource, amount in node_amounts(pool, nodes).items()}
    return {**whole, **resources}


def nodes_worth(pool: Supply, resource: str, amount: Quantity) -> Fraction:
    """Return the number of nodes of the pool that together offer an amount of a resource, as a fraction."""
    return amount.value / pool.offered[resource].value
