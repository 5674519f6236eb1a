"""Literals that the API server rejects in CEL: lists and mappings of mixed types, durations, timestamps and patterns.

Source: apiserver v0.34.2 pkg/cel/environment/base.go baseOptsWithoutStrictCost (`HomogeneousAggregateLiterals`,
`ASTValidators`),
apiserver v0.34.2 pkg/cel/library/regex.go; cel-go v0.26.0 cel/validator.go; cel-go v0.26.0 ext/strings.go
(`stringFormatValidator`),
cel-go v0.26.0 common/types/string.go String.ConvertToType; cel-go v0.26.0 common/types/timestamp.go (`minUnixTime`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from fractions import Fraction

from generator.upstream.kubernetes.cel.checked import Checked, Node, Type
from generator.upstream.kubernetes.cel.library import find_pattern_problem

_EXEMPT = "format"
"""The function whose arguments may have different types: `'%s: %d'.format(['a', 1])`."""
_FORMATTED = ("duration", "timestamp")
_PATTERNS = ("matches", "find", "findAll")
_UNITS = {
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}
_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern.replace('?P<number>', '?:').replace('?P<unit>', '?:')})+)")
_MOST_SECONDS = Fraction(2**63 - 1, 10**9)
_TIMESTAMP = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})T(?P<hour>[0-9]{1,2}):(?P<rest>[0-9]{2}:[0-9]{2})(?:[.,][0-9]+)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-4]):[0-5][0-9])"
)


def find_literal_problem(checked: Checked) -> str:
    """Return why the API server rejects a literal of an expression; empty if it accepts all."""
    return next(_find_problems(checked, checked.root, is_exempt=False), "")


def _find_problems(checked: Checked, node: Node, *, is_exempt: bool) -> Iterator[str]:
    if node.kind == "call":
        yield from _find_invalid_argument(node)
    elif node.kind in ("list", "map") and not is_exempt:
        step = 2 if node.kind == "map" else 1
        for start in range(step):
            yield from _find_mixed_types(checked, node, start, step)
    below = is_exempt or (node.kind == "call" and node.name == _EXEMPT)
    for child in (*((node.target,) if node.target else ()), *node.children):
        yield from _find_problems(checked, child, is_exempt=below)


def _find_invalid_argument(node: Node) -> Iterator[str]:
    """Yield the problem of the first argument of a call, if it is a literal: a duration, a timestamp or a pattern."""
    argument = node.children[0] if node.children else None
    if argument is None or argument.kind != "literal" or not isinstance(argument.value, str):
        return
    if node.name in _FORMATTED and not (_is_duration if node.name == "duration" else _is_timestamp)(argument.value):
        yield f"invalid {node.name} argument `{argument.value}`"
    if node.name in _PATTERNS and (problem := find_pattern_problem(argument.value)):
        yield f"invalid regular expression `{argument.value}`: {problem}"


def _find_mixed_types(checked: Checked, node: Node, start: int, step: int) -> Iterator[str]:
    """Yield the problem of the items of a list, or of the keys or values of a mapping."""
    first: Type | None = None
    for number, item in enumerate(node.children[start::step]):
        type_ = checked.type_of(item)
        if number in node.optional and (step == 1 or start) and type_.parameters:
            type_ = type_.parameters[0]
        if item.kind in ("list", "map") and not item.children:
            continue  # an empty list has the type of the other items
        if first is None:
            first = type_
        elif first != type_:
            yield f"expected type '{first}' but found '{type_}'"
            return


def _is_duration(text: str) -> bool:
    if not _DURATION.fullmatch(text):
        return False
    return sum(Fraction(part["number"]) * _UNITS[part["unit"]] for part in _PART.finditer(text)) <= _MOST_SECONDS


def _is_timestamp(text: str) -> bool:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return False
    try:
        dt.datetime.fromisoformat(f"{match['date']}T{match['hour']:0>2}:{match['rest']}")
    except ValueError:
        return False
    return True
