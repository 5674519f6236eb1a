"""Quantities: k8s.io/apiserver v0.34.2 pkg/cel/library/quantity.go, which adds to those of apimachinery.

k8s.io/apimachinery v0.34.2 pkg/api/resource/{quantity,amount}.go `ParseQuantity`, `AsInt64`, `Add`

A whole number is not always an integer there: one that was written with a fraction, as `1000m`, or that is long, as
`100Ti`, is none. Two quantities are equal though one of them is an integer and the other is not, so what says it is a
zero: a whole one, or one with a fraction, which CEL takes for equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from generator.simulate.policies.signatures import QUANTITY, Function

_FORM = re.compile(r"(?P<sign>[+-]?)(?P<num>[0-9]*)(?:\.(?P<denom>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)")
_BINARY = {suffix: 10 * power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL = {suffix: 3 * power for power, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)}
_LONGEST_EXPONENT = 20  # letters
_LARGEST_EXPONENT = 4_000  # of ten: Python writes no integer of more than 4,300 digits
_EXPONENT = re.compile(r"[eE](?P<power>[-+]?[0-9]+)")
_DIGITS, _BINARY_DIGITS = 18, 15
_NANO = Fraction(1, 10**9)
_LARGEST = 2**63
_FORM_ERROR = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX_ERROR = "unable to parse quantity's suffix"


@dataclass(frozen=True, slots=True)
class _Quantity:
    """An amount; `is_integer` if Kubernetes stores it as an integer."""

    amount: Fraction
    is_integer: bool

    def __add__(self, other: _Quantity) -> _Quantity:
        if other.amount == 0:
            return self
        if self.amount == 0:
            return other
        total = self.amount + other.amount
        return _Quantity(total, self.is_integer and other.is_integer and _fits(total))

    def __neg__(self) -> _Quantity:
        return _Quantity(-self.amount, self.is_integer)


def _fits(amount: Fraction) -> bool:
    return -_LARGEST <= amount < _LARGEST


def _parsed(text: str) -> _Quantity:
    match = _FORM.fullmatch(text)
    if match is None or not text:
        raise ValueError(_FORM_ERROR)
    num, denom, suffix = match["num"].lstrip("0") or "0", match["denom"] or "", match["suffix"]
    written = Fraction(int(num + denom or "0"), 10 ** len(denom))
    sign = -1 if match["sign"] == "-" else 1
    if suffix in _BINARY:
        power = _BINARY[suffix]
        is_short = not denom and _BINARY_DIGITS - len(num) - power * 3 // 10 - 1 >= 0
        amount = min(_rounded(written * 2**power), Fraction(_LARGEST - 1))
        return _Quantity(sign * amount, is_short)
    exponent = _exponent(suffix)
    amount, scale = written * Fraction(10) ** exponent, exponent - len(denom)
    is_short = len(num) + len(denom) <= _DIGITS
    return _Quantity(sign * _rounded(amount), is_short and scale >= 0 and _fits(amount))


def _exponent(suffix: str) -> int:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match["power"]) > _LONGEST_EXPONENT or abs(int(match["power"])) >= 2**31:
        raise ValueError(_SUFFIX_ERROR)
    if abs(int(match["power"])) > _LARGEST_EXPONENT:
        raise ValueError("mpigen does not compute quantities with so many digits")
    return int(match["power"])


def _rounded(amount: Fraction) -> Fraction:
    """Round up to whole nano units."""
    return ceil(amount / _NANO) * _NANO


_Value = dict[str, Any]
_KEPT = "integer"


def _of(value: _Value) -> _Quantity:
    return _Quantity(Fraction(value[QUANTITY]), isinstance(value[_KEPT], int))


def _made(quantity: _Quantity) -> _Value:
    return {QUANTITY: str(quantity.amount), _KEPT: 0 if quantity.is_integer else 0.0}


def _is_quantity(text: str) -> bool:
    try:
        _parsed(text)
    except ValueError:
        return False
    return True


def _integer(value: _Value) -> int:
    if not _of(value).is_integer:
        raise ValueError("cannot convert value to integer")
    return int(_of(value).amount)


def _sign(value: _Value) -> int:
    amount = _of(value).amount
    return (amount > 0) - (amount < 0)


def _compared(one: _Value, other: _Value) -> int:
    return _sign(_difference(one, other))


def _sum(one: _Value, other: _Value) -> _Value:
    return _made(_of(one) + _of(other))


def _difference(one: _Value, other: _Value) -> _Value:
    return _made(_of(one) + -_of(other))


def _whole(number: int) -> _Value:
    return _made(_Quantity(Fraction(number), is_integer=True))


FUNCTIONS = (
    Function("quantity", ("string",), QUANTITY, lambda text: _made(_parsed(text)), 28, is_member=False),
    Function("isQuantity", ("string",), "bool", _is_quantity, 28, is_member=False),
    Function("sign", (QUANTITY,), "int", _sign, 28, is_member=False),
    Function("isInteger", (QUANTITY,), "bool", lambda one: _of(one).is_integer, 28),
    Function("asInteger", (QUANTITY,), "int", _integer, 28),
    Function("asApproximateFloat", (QUANTITY,), "double", lambda one: float(_of(one).amount), 28),
    Function("isGreaterThan", (QUANTITY, QUANTITY), "bool", lambda one, other: _compared(one, other) > 0, 28),
    Function("isLessThan", (QUANTITY, QUANTITY), "bool", lambda one, other: _compared(one, other) < 0, 28),
    Function("compareTo", (QUANTITY, QUANTITY), "int", _compared, 28),
    Function("add", (QUANTITY, QUANTITY), QUANTITY, _sum, 28),
    Function("add", (QUANTITY, "int"), QUANTITY, lambda one, other: _sum(one, _whole(other)), 28),
    Function("sub", (QUANTITY, QUANTITY), QUANTITY, _difference, 28),
    Function("sub", (QUANTITY, "int"), QUANTITY, lambda one, other: _difference(one, _whole(other)), 28),
)
