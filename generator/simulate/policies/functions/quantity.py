"""Quantities: k8s.io/apiserver v0.34.2 pkg/cel/library/quantity.go and pkg/cel/quantity.go."""

from __future__ import annotations

from fractions import Fraction

from generator import quantities
from generator.simulate.policies.signatures import QUANTITY, Function, opaque

_Value = dict[str, str]
_LARGEST = 2**63


def _of(value: _Value) -> Fraction:
    return Fraction(value[QUANTITY])


def _made(amount: Fraction) -> _Value:
    return opaque(QUANTITY, str(amount))


def _quantity(text: str) -> _Value:
    return _made(quantities.parse(text).value)


def _is_quantity(text: str) -> bool:
    try:
        quantities.parse(text)
    except ValueError:
        return False
    return True


def _is_integer(value: _Value) -> bool:
    amount = _of(value)
    return amount.denominator == 1 and -_LARGEST <= amount < _LARGEST


def _integer(value: _Value) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return int(_of(value))


def _compared(one: _Value, other: _Value) -> int:
    left, right = _of(one), _of(other)
    return (left > right) - (left < right)


FUNCTIONS = (
    Function("quantity", ("string",), QUANTITY, _quantity, 28, is_member=False),
    Function("isQuantity", ("string",), "bool", _is_quantity, 28, is_member=False),
    Function("sign", (QUANTITY,), "int", lambda one: _compared(one, _made(Fraction(0))), 28, is_member=False),
    Function("isInteger", (QUANTITY,), "bool", _is_integer, 28),
    Function("asInteger", (QUANTITY,), "int", _integer, 28),
    Function("asApproximateFloat", (QUANTITY,), "double", lambda one: float(_of(one)), 28),
    Function("isGreaterThan", (QUANTITY, QUANTITY), "bool", lambda one, other: _compared(one, other) > 0, 28),
    Function("isLessThan", (QUANTITY, QUANTITY), "bool", lambda one, other: _compared(one, other) < 0, 28),
    Function("compareTo", (QUANTITY, QUANTITY), "int", _compared, 28),
    Function("add", (QUANTITY, QUANTITY), QUANTITY, lambda one, other: _made(_of(one) + _of(other)), 28),
    Function("add", (QUANTITY, "int"), QUANTITY, lambda one, other: _made(_of(one) + other), 28),
    Function("sub", (QUANTITY, QUANTITY), QUANTITY, lambda one, other: _made(_of(one) - _of(other)), 28),
    Function("sub", (QUANTITY, "int"), QUANTITY, lambda one, other: _made(_of(one) - other), 28),
)
