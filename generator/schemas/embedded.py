"""The embedded engine: validates objects in this process against the bundled schemas, and explains each violation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.schemas.catalog import Catalog
from generator.schemas.json_schema import (
    UNIQUE_ITEMS_BY,
    Schema,
    UniqueItemsBy,
    contains_null,
    find_repeated_items,
    reject_nulls,
)
from generator.schemas.patterns import MEANINGS

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator, ValidationError


class Engine:
    """An engine that compiles the schema of each kind once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._judges: dict[tuple[str, str], _Judge | None] = {}

    @property
    def targets(self) -> Mapping[str, str]:
        """Component → minor version of the schemas."""
        return self._catalog.targets

    def violations(self, body: dict[str, Any]) -> list[Violation] | None:
        """Return the violations of the schema of an object's kind; None if its kind has no schema.

        Raises:
            ValueError: the object contains a value that JSON lacks, so it did not come from a manifest.
        """
        judge = self._judge(body)
        return judge.violations(body) if judge else None

    def nulls(self, body: dict[str, Any]) -> list[Violation]:
        """Return every null of a custom resource that a create request drops and a server-side apply rejects."""
        judge = self._judge(body)
        return judge.nulls(body) if judge and judge.is_custom and contains_null(body) else []

    def _judge(self, body: dict[str, Any]) -> _Judge | None:
        identity = body.get("apiVersion"), body.get("kind")
        try:
            return self._judges[identity]  # type: ignore[index]
        except KeyError:
            judge = self._judges[identity] = self._compile(*identity)  # type: ignore[index]
            return judge
        except TypeError:  # not a string
            return None

    def _compile(self, api_version: Any, kind: Any) -> _Judge | None:
        file = self._catalog.find(api_version, kind)
        return _Judge(file, is_custom=self._catalog.is_custom(api_version, kind)) if file else None


class _Judge:
    """A compiled schema."""

    def __init__(self, file: Path, *, is_custom: bool) -> None:
        self.is_custom = is_custom
        self._text = file.read_text(encoding="utf-8")
        self._validator = _compiled(self._text)

    def violations(self, body: dict[str, Any]) -> list[Violation]:
        if self._validator.is_valid(body):
            return []
        return explain(self._validator.iter_errors(body), self._schema, body)

    def nulls(self, body: dict[str, Any]) -> list[Violation]:
        schema, validator = self._strict
        violations = explain(validator.iter_errors(body), schema, body)
        return [violation for violation in violations if violation.value is None and violation.keyword == "type"]

    @cached_property
    def _schema(self) -> Schema:
        schema: Schema = json.loads(self._text)
        return schema

    @cached_property
    def _strict(self) -> tuple[Schema, Draft7Validator]:
        schema = reject_nulls(self._schema)
        return schema, _compiled(json.dumps(schema))


def _compiled(text: str) -> Draft7Validator:
    # Imported here because it costs 30 ms, which only validation needs.
    from jsonschema_rs import Draft7Validator, RegexOptions

    # The patterns of Rust run in linear time, as in Go.
    return Draft7Validator(
        text, pattern_options=RegexOptions(), offline=True, keywords={UNIQUE_ITEMS_BY: UniqueItemsBy}
    )


_MAX_VALUE = 60  # characters of an invalid value


@dataclass(frozen=True, slots=True)
class Violation:
    """A place that breaks a keyword of the schema.

    Attributes:
        path: the place in the object. It ends with the name of an unknown field, but without that of a missing field.
        keyword: the JSON Schema keyword: `additionalProperties` for an unknown field, `required` for a missing one,
            `uniqueItemsBy` for an item with the keys of an earlier item,
            `propertyNames` for a key that a mapping does not allow, `oneOf` for a choice of exactly one field,
            `anyOf` for a choice of at least one field,
            `type`, `enum`, `const`, `pattern`, `minimum`, …
        message: the sentence for the user.
        value: the value at the place; for a missing field the object that lacks it, for a key the key.
        expected: the value of the keyword: the missing name, the allowed types, values or fields, the pattern, the
            limit; None for an unknown field.
        candidates: the fields of the object's schema, for an unknown or missing field; else empty.
    """

    path: tuple[str | int, ...]
    keyword: str
    message: str
    value: Any
    expected: Any
    candidates: tuple[str, ...] = ()

    @property
    def is_superfluous(self) -> bool:
        """Return True if the fix is to remove the value."""
        return self.keyword in _EMPTY and not self.expected


def explain(
    errors: Iterable[ValidationError], schema: Schema, body: Any, meanings: Mapping[str, str] | None = None
) -> list[Violation]:
    """Return the engine's errors about `body` as violations: one per unknown field, and one per place and keyword.

    Args:
        errors: the errors of the engine.
        schema: the schema that it judged by.
        body: the object.
        meanings: pattern → its meaning in words, in addition to the patterns of Kubernetes.
    """
    meanings = {**MEANINGS, **(meanings or {})}
    violations: dict[tuple[object, ...], Violation] = {}
    for error in errors:
        path = _steps(body, error.instance_path)
        value = _at(body, path)  # the engine's own copy has null for values that JSON lacks, such as .nan
        for violation in _violations(error, schema, path, value, meanings):
            # The engine reports a field that must not be null twice: for its place and for its shared definition.
            key = (violation.path, violation.keyword, violation.expected if violation.keyword == "required" else None)
            violations.setdefault(key, violation)
    return list(violations.values())


def _violations(
    error: ValidationError, schema: Schema, path: tuple[str | int, ...], value: Any, meanings: Mapping[str, str]
) -> Iterator[Violation]:
    keyword, details = error.kind.name, error.kind.as_dict()
    if keyword == "additionalProperties":
        known = _fields(error, schema)
        for name in details["unexpected"]:
            yield Violation((*path, name), keyword, f"unknown field `{name}`", value[name], None, known)
    elif keyword == "falseSchema" and isinstance(value, dict):  # fields of an object whose schema has none
        for name in value:
            yield Violation((*path, name), "additionalProperties", f"unknown field `{name}`", value[name], None)
    elif keyword == "required":
        name = details["property"]
        yield Violation(path, keyword, f"`{name}` is missing", value, name, _fields(error, schema))
    elif keyword == "propertyNames":
        about, name = details["error"].kind, details["error"].instance
        expected = next(iter(about.as_dict().values()))
        message = _message(about.name, "the key", name, expected, meanings) or details["error"].message
        yield Violation((*path, name), keyword, message, name, expected)
    elif keyword == UNIQUE_ITEMS_BY:
        keys = _at(schema, error.schema_path)
        for index, before in find_repeated_items(value, keys):
            alike = " and ".join(f"`{key}`" for key in keys)
            yield Violation(
                (*path, index),
                keyword,
                f"item [{index}] has the same {alike} as item [{before}]",
                value[index],
                tuple(keys),
            )
    elif keyword in _CHOICES and all("required" in branch for branch in _at(schema, error.schema_path)):
        choice = tuple(name for branch in _at(schema, error.schema_path) for name in branch["required"])
        yield Violation(path, keyword, f"{_CHOICES[keyword]} one of {_listed(choice)} is required", value, choice)
    else:
        expected = _expected(next(iter(details.values()), None))
        message = _message(keyword, _subject(path), value, expected, meanings) or error.message
        yield Violation(path, keyword, message, value, expected)


def _fields(error: ValidationError, schema: Schema) -> tuple[str, ...]:
    """Return the names of the fields that the schema node around the failed keyword declares."""
    return tuple(sorted(_at(schema, error.schema_path[:-1]).get("properties", ())))


def _at(node: Any, path: Sequence[str | int]) -> Any:
    for step in _steps(node, path):
        node = node[step]
    return node


def _steps(node: Any, path: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return the path with numeric keys of mappings as strings, such as a label with the key `0`."""
    steps: list[str | int] = []
    for step in path:
        steps.append(str(step) if isinstance(node, dict) else step)
        node = node[steps[-1]]
    return tuple(steps)


def _expected(demand: Any) -> Any:
    """Return a list of allowed values as a tuple without null and '', which only stand for an absent field."""
    if isinstance(demand, list):
        return tuple(item for item in demand if item not in (None, "", "null"))
    return demand


def _subject(path: tuple[str | int, ...]) -> str:
    """Return the subject of a message about a place: `the object`, a key in backticks, or `item [2]`."""
    if not path:
        return "the object"
    return f"item [{path[-1]}]" if isinstance(path[-1], int) else f"`{path[-1]}`"


def _message(keyword: str, subject: str, value: Any, expected: Any, meanings: Mapping[str, str]) -> str:
    """Return the message for a failed keyword; empty if the message of the engine must do."""
    if keyword in _EMPTY and not expected:
        return f"`{_format(value)}` is not allowed here"
    if keyword == "type":
        return f"{subject} must be {list_types(expected)}, not {_typed(value)}"
    if keyword == "pattern" and expected in meanings:
        return f"`{_format(value)}` is not {meanings[expected]}"
    write = _MESSAGES.get(keyword)
    return write(_format(value), expected) if write else ""


def list_types(expected: object) -> str:
    """Return JSON types with their articles: `('integer', 'string')` → `an integer or a string`."""
    names = expected if isinstance(expected, tuple) else (expected,)
    return " or ".join(_TYPES.get(str(name), str(name)) for name in names)


def _typed(value: Any) -> str:
    """Return a value with its type, such as `the string "22"`."""
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean `{_format(value)}`"
        case str():
            return f"the string `{_format(value)}`"
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return f"the number `{_format(value)}`"


def _format(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"


def _listed(values: Iterable[Any]) -> str:
    text = [f"`{value}`" if isinstance(value, str) else _format(value) for value in values]
    return ", ".join(text)


_CHOICES = {"oneOf": "exactly", "anyOf": "at least"}
_EMPTY = ("enum", "maxItems", "maxLength", "maxProperties")
"""Keywords that allow no value at all if their own value is empty or 0."""
_TYPES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}
"""JSON type → its name in messages."""


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


_MESSAGES: dict[str, Callable[[str, Any], str]] = {
    "enum": lambda text, values: f"`{text}` is not one of {_listed(values)}",
    "const": lambda text, value: f"`{text}` must be {_listed([value])}",
    "pattern": lambda text, pattern: f"`{text}` does not match `{pattern}`",
    "minimum": lambda text, limit: f"{text} is less than the minimum of {limit}",
    "maximum": lambda text, limit: f"{text} is greater than the maximum of {limit}",
    "minLength": lambda text, limit: f"`{text}` has fewer than {limit} character{_plural(limit)}",
    "maxLength": lambda text, limit: f"`{text}` has more than {limit} character{_plural(limit)}",
    "minItems": lambda _, limit: f"the list needs at least {limit} item{_plural(limit)}",
    "maxItems": lambda _, limit: f"the list has more than {limit} item{_plural(limit)}",
    "minProperties": lambda _, limit: f"the mapping needs at least {limit} key{_plural(limit)}",
    "uniqueItems": lambda text, _: f"`{text}` contains an item twice",
    "maxProperties": lambda _, limit: f"the mapping has more than {limit} key{_plural(limit)}",
}
