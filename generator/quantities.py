"""Kubernetes quantities: read, multiply, and write in the canonical form that the API server keeps.

Source: apimachinery v0.34.2 pkg/api/resource/quantity.go ParseQuantity; apimachinery v0.34.2
pkg/api/resource/quantity.go Quantity.CanonicalizeBytes: no fraction
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
        ValueError: the text is not a quantity, or is 8Ei or more. The message completes the sentence `VALUE is …`.
    """
    quantity = _parse_any(text)
    if abs(quantity.value) > _MOST:
        raise ValueError("too large: a quantity is less than 8Ei")
    return quantity


def is_too_large(value: object) -> bool:
    """Return True if a string or a number is a quantity of 8Ei or more."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    try:
        return abs(_parse_any(str(value).strip(" ")).value) > _MOST
    except ValueError:
        return False


def _parse_any(text: str) -> Quantity:
    """Parse a quantity of any size.

    Raises:
        ValueError: the text is not a quantity.
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
    return Quantity(_to_nano(number * scale), is_binary)


def amount_of(value: object) -> Fraction | None:
    """Return the amount of a string such as `500m`, or of a number; None if the value is no quantity, or 8Ei or more.

    The API server ignores blanks around a quantity.

    Source: apimachinery v0.34.2 pkg/api/resource/quantity.go Quantity.UnmarshalJSON
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return parse(str(value).strip(" ")).value
    except ValueError:
        return None


def compared_amount(value: object) -> Fraction | None:
    """Return the amount with which the API server compares a quantity; None if the value is no quantity.

    Unlike `amount_of`, the function also reads amounts of 8Ei or more. The API server caps only binary amounts.

    Source: apimachinery v0.34.2 pkg/api/resource/quantity.go ParseQuantity; apimachinery v0.34.2
    pkg/api/resource/quantity.go Quantity.Cmp
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        quantity = _parse_any(str(value).strip(" "))
    except ValueError:
        return None
    return min(quantity.value, Fraction(_MOST)) if quantity.is_binary else quantity.value


_GO_FORM = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<rest>[0-9]*))?(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?"
)
_SHORT, _SHORT_BINARY = 18, 14  # digits of an amount that Kubernetes stores as an integer
_NANO = 9


def scaled_value(text: str, scale: int) -> int:
    """Return the amount of a quantity as an int64 in units of 10 to the power of `scale`, as Kubernetes computes it.

    A positive result is rounded up. An amount that is too large overflows, and no error reports it: the result of
    `scaled_value("9223372036854776", -3)` is negative.

    Source: apimachinery v0.34.2 pkg/api/resource/quantity.go ParseQuantity; apimachinery v0.34.2
    pkg/api/resource/quantity.go Quantity.ScaledValue; apimachinery v0.34.2 pkg/api/resource/amount.go
    int64Amount.AsScaledInt64; apimachinery v0.34.2 pkg/api/resource/math.go positiveScaleInt64; apimachinery v0.34.2
    pkg/api/resource/scale_int.go scaledValue

    Raises:
        ValueError: the text is not a quantity.
    """
    match = _GO_FORM.fullmatch(text)
    if match is None or not text:
        raise ValueError("not a quantity")
    whole, rest, suffix = match["whole"] or "0", match["rest"] or "", match["suffix"] or ""
    sign, digits = -1 if match["sign"] == "-" else 1, int(whole + rest)
    if suffix.endswith("i"):
        power = 10 * [*_BINARY].index(suffix)
        is_short = not rest and _SHORT_BINARY - len(whole) - int(power * 0.3) >= 0
        if is_short:
            return _scale_integer(sign * (digits << power), 0, scale)
        return _scale_decimal(sign, digits << power, len(rest), scale, is_binary=True)
    exponent = (
        int(suffix[1:]) if suffix[:1] in ("e", "E") and len(suffix) > 1 else 3 * ("num kMGTPE".index(suffix or " ") - 3)
    )
    if len(whole) + len(rest) <= _SHORT and exponent - len(rest) >= -_NANO:
        return _scale_integer(sign * digits, exponent - len(rest), scale)
    return _scale_decimal(sign, digits, len(rest) - exponent, scale, is_binary=False)


def _scale_integer(value: int, own: int, scale: int) -> int:
    """Convert a value from units of 10 to the power of `own` to 10 to the power of `scale`, rounded away from zero.

    If the result does not fit into an int64, the factors 1, 10, 100, 10^3, 10^6 and 10^9 wrap around, and all others
    give 0.
    """
    if own < scale:
        divisor: int = 10 ** (scale - own)
        return -(-value // divisor) if value > 0 else value // divisor
    if own - scale in (0, 1, 2, 3, 6, 9):
        return _wrap(value * 10 ** (own - scale))
    for _ in range(own - scale):
        value *= 10
        if _wrap(value) != value:
            return 0
    return value


def _scale_decimal(sign: int, digits: int, places: int, scale: int, *, is_binary: bool) -> int:
    """Return a decimal number with some places behind the point in units of 10 to the power of `scale`."""
    if digits:  # rounded to nano
        digits = digits * 10 ** (_NANO - places) if places <= _NANO else -(-digits // 10 ** (places - _NANO))
        places = _NANO
    if is_binary and digits > _MOST * 10**places:
        digits, places = _MOST, 0
    shift = places + scale
    if shift <= 0:
        return _wrap(_wrap(sign * digits) * 10**-shift)
    if sign > 0:
        return _wrap(-(-digits // 10**shift))
    value = _wrap(-digits)  # a negative number overflows before the division, which truncates
    quotient: int = abs(value) // 10**shift * (1 if value > 0 else -1)
    return quotient + int(value != quotient * 10**shift)


def _wrap(number: int) -> int:
    """Return the lowest 64 bits of a number, with a sign."""
    return (number + 2**63) % 2**64 - 2**63
