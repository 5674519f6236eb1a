"""An expression as it was written → as cel-expr-python can check it, and as it can evaluate it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from generator.simulate.policies.environment import TYPED, named
from generator.simulate.policies.signatures import IS
from generator.simulate.policies.tokens import Reading

OPTIONAL_READING = "$[?0]"
"""How the value of a variable is read that may be absent."""
_VARIABLES = "variables"
_Change = tuple[int, int, str]


def checkable(text: str, found: Collection[Reading], variables: Collection[str]) -> str:
    """The text with names of their own for variables of the policy, and for fields of known types."""
    changes = []
    for each in found:
        if _is_variable(each, variables):
            changes.append(_variable(each, text, "$"))
        elif each.root in TYPED and not each.is_tested and (path := _known_path(each)):
            changes.append((each.start, each.ends[len(path) - 1], named(path)))
    return _changed(text, changes)


def evaluable(
    text: str, found: Collection[Reading], variables: Mapping[str, str], converted: Collection[tuple[int, int, str]]
) -> str:
    """The text with names of their own for variables of the policy, and nothing asked of what is null.

    Args:
        text: what was written.
        found: what it reads.
        variables: the policy's own: name → how one that is called `$` is read.
        converted: start, end and type of what is converted: Go converts nothing else than what it takes it for.
    """
    changes = [each for start, end, type_ in converted for each in ((start, start, f"{IS}{type_}("), (end, end, ")"))]
    for each in found:
        if _is_variable(each, variables):
            changes.append(_variable(each, text, _form(each, variables[each.fields[0]])))
        elif each.root != _VARIABLES and _asks(each, 0):
            changes.append((each.start, each.ends[0], _or_nothing(each.root)))
    return _changed(text, changes)


def _form(reading: Reading, form: str) -> str:
    """How a variable is read: where Go looks for a field in an optional value, it finds none.

    cel-go v0.26.0 interpreter/attributes.go `applyQualifiers` opens only what an attribute begins with, which here is
    the mapping of all variables.
    """
    if form == OPTIONAL_READING and (len(reading.fields) > 1 or reading.bracket):
        return "{}"
    return _or_nothing(form) if _asks(reading, 1) else form


def _asks(reading: Reading, length: int) -> bool:
    """Whether it is asked of the first fields, so many, if they have the next."""
    is_last = len(reading.fields) == length
    if is_last:
        return reading.bracket == "[?"
    return reading.certain == length or (reading.is_tested and len(reading.fields) == length + 1)


def _or_nothing(name: str) -> str:
    """Null has no fields, and that is all: C++ calls the question an error, and Go answers it."""
    return f"({name} == null ? {{}} : {name})"


def _is_variable(reading: Reading, variables: Collection[str]) -> bool:
    return reading.root == _VARIABLES and bool(reading.fields) and reading.fields[0] in variables


def _variable(reading: Reading, text: str, form: str) -> _Change:
    """It is there, whoever asks."""
    if reading.is_tested and len(reading.fields) == 1:
        return text.rindex("has", 0, reading.start), text.index(")", reading.ends[1]) + 1, "true"
    name = form.replace("$", named((_VARIABLES, reading.fields[0])))
    return reading.start, reading.ends[1], name if reading.certain else f"optional.of({name})"


def _known_path(reading: Reading) -> tuple[str, ...]:
    fields: Any = TYPED[reading.root]
    for length, name in enumerate(reading.fields[: reading.certain], start=2):
        fields = fields[name]
        if isinstance(fields, str):
            return (reading.root, *reading.fields)[:length]
    return ()


def _changed(text: str, changes: list[_Change]) -> str:
    for start, end, instead in sorted(changes, reverse=True):
        text = text[:start] + instead + text[end:]
    return text
