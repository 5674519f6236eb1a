"""Kubernetes quantities: read, multiply, and write in the canonical form that the API server keeps.

Source: k8s.io/apimachinery pkg/api/resource/quantity.go (`Quantity`, `CanonicalizeBytes`): no fraction digits, and the
largest suffix that loses nothing. A canonical quantity is stored as it was sent, so Argo CD sees no difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
)
_BINARY = {suffix: 1024**power for power, suffix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
}


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount, and whether it is written with binary suffixes (`Gi`) or decimal ones (`G`, `m`)."""

    value: Fraction
    is_binary: bool = False

    def __str__(self) -> str:
        if self.value == 0:
            return "0"
        if self.is_binary and self.value.denominator == 1:
            return _written(int(self.value), _BINARY)
        if self.value.denominator == 1:
            return _written(int(self.value), {suffix: int(size) for suffix, size in _DECIMAL.items() if size >= 1})
        for suffix in ("m", "u", "n"):
            scaled = self.value / _DECIMAL[suffix]
            if scaled.denominator == 1:
                return f"{scaled.numerator}{suffix}"
        rounded = -(-self.value // _DECIMAL["n"])  # the API server rounds up to a nano
        return f"{rounded}n"

    def __mul__(self, factor: int | Fraction) -> Quantity:
        return Quantity(self.value * factor, self.is_binary)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.value + other.value, self.is_binary)

    def floor(self, unit: int | Fraction = 1) -> Quantity:
        """The largest multiple of `unit` that does not exceed this amount."""
        return Quantity(Fraction(self.value // unit * unit), self.is_binary)


def _written(number: int, suffixes: dict[str, int]) -> str:
    for suffix in sorted(suffixes, key=lambda name: -suffixes[name]):
        if number % suffixes[suffix] == 0:
            return f"{number // suffixes[suffix]}{suffix}"
    raise AssertionError(number)  # every set of suffixes holds the empty one, of size 1


def parse(text: str) -> Quantity:
    """Read a quantity.

    >>> str(parse("1000m")), str(parse("2048Gi")), str(parse("1.5Gi")), str(parse("1e3"))
    ('1', '2Ti', '1536Mi', '1k')

    Raises:
        ValueError: the text is not a quantity.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"`{text}` is not a quantity")
    suffix = match["suffix"] or ""
    number = Fraction(match["number"] if match["number"][-1] != "." else match["number"][:-1])
    if suffix in _BINARY and suffix:
        return Quantity(number * _BINARY[suffix], is_binary=True)
    if suffix in _DECIMAL:
        return Quantity(number * _DECIMAL[suffix])
    return Quantity(number * Fraction(10) ** int(suffix[1:]))
