"""Compile the CEL selectors of devices, in ResourceClaims, their templates and DeviceClasses.

Source: dynamic-resource-allocation v0.34.2 cel/compile.go compiler.CompileCELExpression; for regular expressions,
apiserver v0.34.2 pkg/cel/environment/base.go baseOptsWithoutStrictCost (ValidateRegexLiterals) and apiserver v0.34.2
pkg/cel/library/regex.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.facts.table import read_table
from generator.upstream.kubernetes.cel.checked import Checked, read_checked
from generator.upstream.kubernetes.cel.cost import Sizes, estimate_cost
from generator.upstream.kubernetes.cel.environment import declare, flat_name
from generator.upstream.kubernetes.cel.expression import error_messages
from generator.upstream.kubernetes.cel.literals import find_literal_problem
from generator.upstream.kubernetes.cel.syntax import Reading, apply_changes, find_readings

DEVICE = "device"
"""The variable of a selector."""
_FIELDS: dict[str, str] = read_table("cel")["device"]["fields"]
_RESULTS = ("bool", "any")
MOST_COST: int = read_table("cel")["device"]["largest"]
"""The largest cost of a selector."""


def find_selector_problem(text: str, minor: int) -> str:
    """Return why the API server cannot compile a CEL selector of devices; empty if it can.

    Args:
        text: the expression.
        minor: the minor version of Kubernetes whose functions it can use.
    """
    readings = [reading for reading in find_readings(text) if reading.root == DEVICE]
    for reading in readings:
        if reading.fields and reading.fields[0] not in _FIELDS:
            return f"undefined field '{reading.fields[0]}'"
        if reading.bracket and not reading.fields:
            return f"the fields of `{DEVICE}` have no index; write `{DEVICE}.driver`, for example"
    try:
        checked = _check(text, readings, minor)
    except RuntimeError as error:
        return error_messages(error)[0]
    if (result := checked.type_of(checked.root)).name not in _RESULTS:
        return f"must evaluate to bool but got {result}"
    return find_literal_problem(checked)


def find_selector_cost(text: str, minor: int) -> int:
    """Return the largest cost that the API server estimates for a CEL selector of devices; 2^64-1 without a bound.

    Args:
        text: the expression, which compiles.
        minor: the minor version of Kubernetes whose functions it can use.
    """
    readings = [reading for reading in find_readings(text) if reading.root == DEVICE]
    return estimate_cost(_check(text, readings, minor), _sizes())


@cache
def _sizes() -> Sizes:
    flat = {flat_name((DEVICE, name)): (DEVICE, name) for name in _FIELDS}
    largest = {tuple(path.split()): size for path, size in read_table("cel")["device"]["sizes"].items()}
    return Sizes(flat, frozenset({DEVICE}), largest)


def _check(text: str, readings: Iterable[Reading], minor: int) -> Checked:
    """Return a compiled selector.

    Raises:
        RuntimeError: it does not compile.
    """
    rewritten = apply_changes(text, [_replace(item) for item in readings if _is_typed(item)])
    return read_checked(_environment(minor).compile(rewritten))


def _is_typed(reading: Reading) -> bool:
    """Return True if a read takes the value of a field of `device`: not `device.?driver` or `has(device.driver)`."""
    return reading.certain > 0 and not (reading.is_tested and len(reading.fields) == 1)


def _replace(reading: Reading) -> tuple[int, int, str]:
    return reading.start, reading.ends[1], flat_name((DEVICE, reading.fields[0]))


@cache
def _environment(minor: int) -> Any:
    config, added = declare(minor, *read_table("cel")["device"]["libraries"])
    types = {DEVICE: "dyn", **{flat_name((DEVICE, name)): type_ for name, type_ in _FIELDS.items()}}
    return cel.NewEnv(
        config=config, variables={name: cel.Type(type_) for name, type_ in types.items()}, extensions=[added]
    )
