"""Resource amounts as Kueue counts them: `cpu` in thousandths, everything else in whole units, rounded up.

Source: kueue v0.19.2 pkg/resources/requests.go `ResourceValue`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from generator.errors import Problem, SimulationError
from generator.quantities import Quantity, parse


class FlavorResource(NamedTuple):
    """The key of a quota: a resource on the nodes of a flavor."""

    flavor: str
    resource: str


Amounts = dict[FlavorResource, int]
Requests = Mapping[str, int]
"""Resource → amount."""

_BYTES = ("memory", "ephemeral-storage", "storage")


def parse_amount(resource: str, value: object, place: str) -> int:
    """Parse an amount of a resource.

    Raises:
        SimulationError: the value at the place is not a quantity.
    """
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError("not a quantity")  # noqa: TRY004 - one kind of mistake, whatever the type
        return _round_up(str(value), is_cpu=resource == "cpu")
    except ValueError as error:
        fix = "write it as `2`, `500m` or `4Gi`"
        raise SimulationError((Problem(f"{place}: {resource} is {error}", fix),)) from None


@lru_cache(maxsize=4096)
def _round_up(text: str, *, is_cpu: bool) -> int:
    amount = parse(text).value
    return ceil(amount * 1000) if is_cpu else ceil(amount)


def parse_amounts(resources: object, place: str) -> dict[str, int]:
    """Parse the amounts of a resource list, such as `requests`."""
    amounts = resources if isinstance(resources, dict) else {}
    return {str(name): parse_amount(str(name), value, place) for name, value in amounts.items()}


def format_amount(resource: str, amount: int) -> str:
    """Format an amount as a quantity.

    >>> shown("cpu", 57500), shown("memory", 2 * 1024**3), shown("nvidia.com/gpu", 8)
    ('57500m', '2Gi', '8')
    """
    value = Fraction(amount, 1000) if resource == "cpu" else Fraction(amount)
    is_binary = resource in _BYTES or resource.startswith("hugepages-")
    quantity = Quantity(value, is_binary)
    return str(quantity) if is_binary or value.denominator != 1 else str(value.numerator)


def add_requests(sums: dict[str, int], requests: Requests, factor: int = 1) -> None:
    """Add requests, times a factor, to sums."""
    for name, amount in requests.items():
        sums[name] = sums.get(name, 0) + amount * factor
