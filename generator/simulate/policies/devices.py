"""Compile the CEL selectors of devices, in ResourceClaims, their templates and DeviceClasses.

Source: k8s.io/dynamic-resource-allocation v0.34.2 cel/compile.go CompileCELExpression; for regular expressions,
k8s.io/apiserver v0.34.2 pkg/cel/environment/base.go (ValidateRegexLiterals) and pkg/cel/library/regex.go.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.facts.table import read_table
from generator.simulate.policies.environment import declare, flat_name
from generator.simulate.policies.expression import error_messages
from generator.simulate.policies.library import find_pattern_problem
from generator.simulate.policies.syntax import Reading, apply_changes, find_patterns, find_readings

DEVICE = "device"
"""The variable of a selector."""
_FIELDS: dict[str, str] = read_table("cel")["device"]["fields"]
_RESULTS = ("BOOL", "DYN")


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
    rewritten = apply_changes(text, [_replace(reading) for reading in readings if _is_typed(reading)])
    try:
        result = str(_environment(minor).compile(rewritten).return_type())
    except RuntimeError as error:
        return error_messages(error)[0]
    if result not in _RESULTS:
        return f"must evaluate to bool but got {result.lower()}"
    problems = ((literal, find_pattern_problem(literal)) for literal in find_patterns(text))
    return next((f"invalid regular expression {literal}: {problem}" for literal, problem in problems if problem), "")


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
