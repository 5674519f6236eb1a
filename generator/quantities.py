"""Kubernetes quantities: read, multiply, and write in the canonical form that the API server keeps.

Source: k8s.io/apimachinery v0.34.2 pkg/api/resource/quantity.go (`ParseQuantity`, `CanonicalizeBytes`): no fraction
digits, and the largest suffix that keeps the amount exact. The API server stores a canonical quantity unchanged, so
Argo CD reports no drift. `parse` accepts exponents (`1e3`), and `str` writes a suffix instead (`1k`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
)
_BINARY = {suffix: 1024**power for power, suffix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
}
_MOST = 2**63 - 1  # the API server caps a larger amount, or loses its zeros (it writes `1000E` as `1`)


@dataclass(frozen=True, slots=True, repr=False)
class Quantity:
    """An exact amount; `is_binary` chooses binary suffixes (`Gi`) or decimal ones (`G`, `m`)."""

    value: Fraction
    is_binary: bool = False

    def __str__(self) -> str:
        if self.value == 0:
            return "0"
        if self.is_binary and self.value % _BINARY["Ki"] == 0:  # below 1Ki there is no binary suffix
            return _write_number(int(self.value), _BINARY)
        if self.value.denominator == 1:
            return _write_number(int(self.value), {suffix: int(size) for suffix, size in _DECIMAL.items() if size >= 1})
        for suffix in ("m", "u", "n"):
            scaled = self.value / _DECIMAL[suffix]
            if scaled.denominator == 1:
                return f"{scaled.numerator}{suffix}"
        return str(Quantity(_to_nano(self.value)))

    def __repr__(self) -> str:
        """Return the string that a platform in Python takes, such as `'64Gi'`."""
        return repr(str(self))

    def __mul__(self, factor: int | Fraction) -> Quantity:
        return Quantity(self.value * factor, self.is_binary)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.value + other.value, self.is_binary)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.value - other.value, self.is_binary)

    def floor(self, unit: int | Fraction = 1) -> Quantity:
        """Return the largest multiple of `unit` that does not exceed this amount."""
        return Quantity(Fraction(self.value // unit * unit), self.is_binary)


ZERO = Quantity(Fraction(0))


def _to_nano(value: Fraction) -> Fraction:
    """Round to nano, away from zero, as the API server does."""
    nanos = value * 10**9
    if nanos.denominator == 1:
        return value
    return Fraction(ceil(nanos) if nanos > 0 else floor(nanos), 10**9)


def _write_number(number: int, suffixes: dict[str, int]) -> str:
    for suffix in sorted(suffixes, key=lambda name: -suffixes[name]):
        if number % suffixes[suffix] == 0:
            return f"{number // suffixes[suffix]}{suffix}"
    raise AssertionError(number)  # every set of suffixes holds the empty one, of size 1


@lru_cache(maxsize=4096)
def parse(text: str) -> Quantity:
    """Parse a quantity. The results are cached, because manifests repeat their amounts.

    >>> str(parse("1000m")), str(parse("2048Gi")), str(parse("1.5Gi")), str(parse("1e3"))
    ('1', '2Ti', '1536Mi', '1k')

    Raises:
        ValueError: the text is not a quantity; the message completes the sentence `VALUE is …`.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("not a quantity")
    suffix = match["suffix"] or ""
    number = Fraction(match["number"].removesuffix("."))
    is_binary = suffix != "" and suffix in _BINARY
    if is_binary:
        scale = Fraction(_BINARY[suffix])
    else:
        scale = _DECIMAL[suffix] if suffix in _DECIMAL else Fraction(10) ** int(suffix[1:])
    value = _to_nano(number * scale)
    if abs(value) > _MOST:
        raise ValueError("too large: a quantity is less than 8Ei")
    return Quantity(value, is_binary)


def amount_of(value: object) -> Fraction | None:
    """Return the amount of a value, if it is a string such as `500m`, or a number; None if it is no quantity.

    The API server ignores blanks around a quantity.

    Source: k8s.io/apimachinery v0.34.2 pkg/api/resource/quantity.go UnmarshalJSON
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return parse(str(value).strip(" ")).value
    except ValueError:
        return None
