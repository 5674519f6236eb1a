"""What a quota amounts to: from nodes or resources, as written, to exact amounts of each resource of each pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from generator import quantities
from generator.config.pools import Pool
from generator.config.tenants import Share
from generator.quantities import Quantity

Amounts = dict[str, dict[str, Quantity]]
"""Pool name → resource → amount, every allocatable resource of the pool included."""


def offering(resource: str, pools: Sequence[Pool]) -> list[Pool]:
    """The pools whose nodes have the resource."""
    return [pool for pool in pools if resource in pool.allocatable]


def amounts(shares: Mapping[str, Share], pools: Sequence[Pool]) -> Amounts:
    """The amounts of a quota or a borrowing limit, for each pool that it names.

    Raises:
        KeyError, ValueError: it names what the pools do not offer; a checked Platform never does.
    """
    by_name = {pool.name: pool for pool in pools}
    named: dict[str, dict[str, str]] = {}
    result: Amounts = {}
    for key, share in shares.items():
        if key in by_name and isinstance(share, int):
            result[key] = _of_nodes(by_name[key], Fraction(share))
        elif key in by_name and isinstance(share, dict):
            named.setdefault(key, {}).update(share)
        else:
            (pool,) = offering(key, pools)
            named.setdefault(pool.name, {})[key] = str(share)
    for name, resources in named.items():
        result[name] = _of_resources(by_name[name], resources)
    return result


def _of_nodes(pool: Pool, nodes: Fraction) -> dict[str, Quantity]:
    return {resource: (quantities.parse(amount) * nodes) for resource, amount in pool.allocatable.items()}


def _of_resources(pool: Pool, resources: Mapping[str, str]) -> dict[str, Quantity]:
    """The named resources as they are, the others in the proportion of the one that takes most of a node."""
    nodes = max(nodes_worth(pool, resource, amount) for resource, amount in resources.items())
    whole = {resource: amount.floor() for resource, amount in _of_nodes(pool, nodes).items()}
    return {**whole, **{resource: quantities.parse(amount) for resource, amount in resources.items()}}


def nodes_worth(pool: Pool, resource: str, amount: str) -> Fraction:
    """How many nodes of the pool hold that much of the resource."""
    return quantities.parse(amount).value / quantities.parse(pool.allocatable[resource]).value
