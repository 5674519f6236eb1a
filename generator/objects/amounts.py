"""Resource amounts as Kueue counts them: `cpu` in thousandths, everything else in whole units, rounded up.

Source: kueue v0.19.2 pkg/resources/requests.go `ResourceValue`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from generator.errors import Problem, SimulationError
from generator.quantities import Quantity, parse


class FlavorResource(NamedTuple):
    """What quotas are about: a resource on the nodes of a flavor."""

    flavor: str
    resource: str


Amounts = dict[FlavorResource, int]
Requests = Mapping[str, int]
"""Resource → amount."""

_BYTES = ("memory", "ephemeral-storage", "storage")


def counted(resource: str, value: object, place: str) -> int:
    """An amount of a resource.

    Raises:
        SimulationError: the value at the place is no quantity.
    """
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError("not a quantity")  # noqa: TRY004 - one kind of mistake, whatever stands there
        return _whole(str(value), is_cpu=resource == "cpu")
    except ValueError as error:
        raise SimulationError(
            (Problem(f"{place}: {resource} is {error}", "write it as `2`, `500m` or `4Gi`"),)
        ) from None


@lru_cache(maxsize=4096)
def _whole(written: str, *, is_cpu: bool) -> int:
    amount = parse(written).value
    return ceil(amount * 1000) if is_cpu else ceil(amount)


def requested(resources: object, place: str) -> dict[str, int]:
    """The amounts of a list of resources, such as `requests`."""
    found = resources if isinstance(resources, dict) else {}
    return {str(name): counted(str(name), value, place) for name, value in found.items()}


def shown(resource: str, amount: int) -> str:
    """The amount as people write it.

    >>> shown("cpu", 57500), shown("memory", 2 * 1024**3), shown("nvidia.com/gpu", 8)
    ('57500m', '2Gi', '8')
    """
    value = Fraction(amount, 1000) if resource == "cpu" else Fraction(amount)
    is_binary = resource in _BYTES or resource.startswith("hugepages-")
    quantity = Quantity(value, is_binary)
    return str(quantity) if is_binary or value.denominator != 1 else str(value.numerator)


def total(requests: Requests, count: int) -> dict[str, int]:
    """What so many pods ask for."""
    return {name: amount * count for name, amount in requests.items()}


def positive(amounts: Mapping[FlavorResource, int]) -> Iterator[tuple[FlavorResource, int]]:
    """Those that are not nothing."""
    return ((key, amount) for key, amount in amounts.items() if amount)
