"""Violation: one place where an object breaks its schema, said so that a person can act on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from generator.schemas.json_schema import Schema
from generator.schemas.keywords import UNIQUE_ITEMS_BY, find_repeated_items
from generator.schemas.patterns import MEANINGS

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_SHOWN = 60  # characters of an offending value


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken demand of a schema.

    Attributes:
        path: where, from the root of the object; of an unknown field including its name, of a missing one without.
        keyword: the JSON Schema keyword: `additionalProperties` for an unknown field, `required` for a missing one,
            `uniqueItemsBy` for an item that is told apart from none before it,
            `propertyNames` for a key that a map does not allow, `oneOf` for fields of which there must be exactly one,
            `anyOf` for fields of which there must be one at least,
            `type`, `enum`, `const`, `pattern`, `minimum`, …
        message: what is wrong, in words.
        value: what stands there; of a missing field the object that lacks it, of a key the key.
        expected: what the keyword demands: the missing name, the allowed types, values or fields, the pattern, the
            limit; nothing for an unknown field.
        candidates: the fields that the object may have, for an unknown or missing one; else empty.
    """

    path: tuple[str | int, ...]
    keyword: str
    message: str
    value: Any
    expected: Any
    candidates: tuple[str, ...] = ()

    @property
    def is_superfluous(self) -> bool:
        """Whether it is mended by removing what stands there."""
        return self.keyword in _EMPTY and not self.expected


def explain(
    errors: Iterable[ValidationError], schema: Schema, body: Any, meanings: Mapping[str, str] | None = None
) -> list[Violation]:
    """Return the engine's errors about `body` as violations: one per unknown field, and one per place and keyword.

    Args:
        errors: the errors of the engine.
        schema: the schema that it judged by.
        body: the object.
        meanings: pattern → its meaning in words, in addition to those of Kubernetes.
    """
    meanings = {**MEANINGS, **(meanings or {})}
    found: dict[tuple[object, ...], Violation] = {}
    for error in errors:
        path = _steps(body, error.instance_path)
        value = _at(body, path)  # the engine's own copy has null for what JSON cannot say, such as .nan
        for violation in _violations(error, schema, path, value, meanings):
            # A field that must not be null is judged both where it stands and by its shared definition.
            key = (violation.path, violation.keyword, violation.expected if violation.keyword == "required" else None)
            found.setdefault(key, violation)
    return list(found.values())


def _violations(
    error: ValidationError, schema: Schema, path: tuple[str | int, ...], value: Any, meanings: Mapping[str, str]
) -> Iterator[Violation]:
    keyword, details = error.kind.name, error.kind.as_dict()
    if keyword == "additionalProperties":
        known = _fields(error, schema)
        for name in details["unexpected"]:
            yield Violation((*path, name), keyword, f"unknown field `{name}`", value[name], None, known)
    elif keyword == "falseSchema" and isinstance(value, dict):  # any field of an object that has none
        for name in value:
            yield Violation((*path, name), "additionalProperties", f"unknown field `{name}`", value[name], None)
    elif keyword == "required":
        name = details["property"]
        yield Violation(path, keyword, f"`{name}` is missing", value, name, _fields(error, schema))
    elif keyword == "propertyNames":
        about, name = details["error"].kind, details["error"].instance
        expected = next(iter(about.as_dict().values()))
        message = _message(about.name, name, expected, meanings) or details["error"].message
        yield Violation((*path, name), keyword, message, name, expected)
    elif keyword == UNIQUE_ITEMS_BY:
        keys = _at(schema, error.schema_path)
        for index, before in find_repeated_items(value, keys):
            alike = " and ".join(f"`{key}`" for key in keys)
            yield Violation((*path, index), keyword, f"the same {alike} as item [{before}]", value[index], tuple(keys))
    elif keyword in _CHOICES and all("required" in branch for branch in _at(schema, error.schema_path)):
        choice = tuple(name for branch in _at(schema, error.schema_path) for name in branch["required"])
        yield Violation(path, keyword, f"{_CHOICES[keyword]} one of {_listed(choice)} must be there", value, choice)
    else:
        expected = _expected(next(iter(details.values()), None))
        message = _message(keyword, value, expected, meanings) or error.message
        yield Violation(path, keyword, message, value, expected)


def _fields(error: ValidationError, schema: Schema) -> tuple[str, ...]:
    """The names of the fields that stand beside the keyword that failed."""
    return tuple(sorted(_at(schema, error.schema_path[:-1]).get("properties", ())))


def _at(node: Any, path: Sequence[str | int]) -> Any:
    for step in _steps(node, path):
        node = node[step]
    return node


def _steps(node: Any, path: Sequence[str | int]) -> tuple[str | int, ...]:
    """The path with the engine's numbers as texts again where they are keys, such as a label called `0`."""
    steps: list[str | int] = []
    for step in path:
        steps.append(str(step) if isinstance(node, dict) else step)
        node = node[steps[-1]]
    return tuple(steps)


def _expected(demand: Any) -> Any:
    """Lists as tuples, without null and the empty string: these only say that a field may be absent."""
    if isinstance(demand, list):
        return tuple(item for item in demand if item not in (None, "", "null"))
    return demand


def _message(keyword: str, value: Any, expected: Any, meanings: Mapping[str, str]) -> str:
    if keyword in _EMPTY and not expected:
        return f"`{_shown(value)}` may not stand here"
    if keyword == "pattern" and expected in meanings:
        return f"`{_shown(value)}` is not {meanings[expected]}"
    write = _MESSAGES.get(keyword)
    return write(_shown(value), expected) if write else ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _listed(values: Iterable[Any]) -> str:
    shown = [f"`{value}`" if isinstance(value, str) else _shown(value) for value in values]
    return ", ".join(shown)


_CHOICES = {"oneOf": "exactly", "anyOf": "at least"}
_EMPTY = ("enum", "maxItems", "maxLength", "maxProperties")
"""Keywords by which a field must be empty, or absent, where nothing is expected."""

_MESSAGES: dict[str, Callable[[str, Any], str]] = {
    "type": lambda shown, types: f"`{shown}` is not of type {' or '.join(types)}",
    "enum": lambda shown, values: f"`{shown}` is not one of {_listed(values)}",
    "const": lambda shown, value: f"`{shown}` must be {_listed([value])}",
    "pattern": lambda shown, pattern: f"`{shown}` does not match `{pattern}`",
    "minimum": lambda shown, limit: f"{shown} is less than the least allowed, {limit}",
    "maximum": lambda shown, limit: f"{shown} is more than the most allowed, {limit}",
    "minLength": lambda shown, limit: f"`{shown}` is shorter than {limit} characters",
    "maxLength": lambda shown, limit: f"`{shown}` is longer than {limit} characters",
    "minItems": lambda _, limit: f"fewer than {limit} items",
    "maxItems": lambda _, limit: f"more than {limit} items",
    "minProperties": lambda _, limit: f"fewer than {limit} entries",
    "uniqueItems": lambda shown, _: f"`{shown}` holds an item twice",
    "maxProperties": lambda _, limit: f"more than {limit} entries",
}
