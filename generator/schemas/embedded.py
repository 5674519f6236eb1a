"""The embedded engine: validates objects in this process, and explains each violation.

Its catalog has the bundled schemas, and the schemas of the user's repository, which take precedence.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from generator.documents.messages import format_names
from generator.documents.scalars import resolve
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
from generator.schemas.rules import VALIDATIONS, Rule, find_rules

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator, ValidationError


class Engine:
    """The embedded validation engine. It compiles the schema of a kind on first use."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._judges: dict[tuple[str, str], _Judge | None] = {}
        self._faults: dict[tuple[str, str], str] = {}

    @property
    def targets(self) -> Mapping[str, str]:
        """Component → minor version of the schemas."""
        return self.catalog.targets

    def has_schema(self, api_version: str, kind: str) -> bool:
        """Return True if a kind of the target versions has a schema."""
        return self.catalog.has(api_version, kind)

    def kinds(self, api_version: str) -> Sequence[str]:
        """Return the kinds of an API version of the target versions; empty for an unknown version."""
        return sorted(kind for version, kind in self.catalog.entries if version == api_version)

    def component(self, api_version: str, kind: str) -> str:
        """Return the component that defines a kind, such as `kueue`; empty for a kind without a bundled schema."""
        entry = self.catalog.entries.get((api_version, kind))
        return entry.path.partition("/")[0] if entry else ""

    def explain_unusable(self, api_version: str, kind: str) -> str:
        """Return why mpigen cannot use the user's CustomResourceDefinition or JSON Schema of a kind.

        The result is empty if mpigen can use it, or if the user has none.
        """
        return self._faults.get((api_version, kind)) or self.catalog.explain_unusable(api_version, kind)

    def violations(self, body: dict[str, Any]) -> list[Violation] | None:
        """Return the violations of the schema of an object's kind; None if its kind has no schema.

        Raises:
            ValueError: the object contains a value that JSON lacks, so it did not come from a manifest.
        """
        judge = self._judge(body)
        return judge.violations(body) if judge else None

    def nulls(self, body: dict[str, Any]) -> list[Violation]:
        """Return a violation for each null in a custom resource that a server-side apply would reject.

        A create request drops these nulls instead. The list is empty for built-in kinds.
        """
        judge = self._judge(body)
        return judge.nulls(body) if judge and judge.is_custom and contains_null(body) else []

    def rules(self, body: dict[str, Any]) -> list[Rule]:
        """Return the CEL rules of a custom resource, except transition rules, which read `oldSelf`.

        The list is empty for built-in kinds and for kinds without a schema.
        """
        judge = self._judge(body)
        return judge.rules(body) if judge and judge.is_custom else []

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
        if not isinstance(api_version, str) or not isinstance(kind, str):
            return None
        from jsonschema_rs import ValidationError

        text = self.catalog.read(api_version, kind)
        try:
            return _Judge(text, is_custom=self.catalog.is_custom(api_version, kind)) if text else None
        except ValidationError as error:  # a schema of the user breaks the rules of JSON Schema
            self._faults[api_version, kind] = error.message
            return None


class _Judge:
    """The compiled schema of a kind."""

    def __init__(self, text: str, *, is_custom: bool) -> None:
        self.is_custom = is_custom
        self._text = text
        self._validator = _compiled(text)

    def violations(self, body: dict[str, Any]) -> list[Violation]:
        """Return the violations for which the API server would reject a create request with this object."""
        if self._validator.is_valid(body):
            return []
        return explain(self._validator.iter_errors(body), self._schema, body)

    def nulls(self, body: dict[str, Any]) -> list[Violation]:
        """Return a violation for each field whose null a server-side apply rejects."""
        schema, validator = self._strict
        violations = explain(validator.iter_errors(body), schema, body)
        return [violation for violation in violations if violation.value is None and violation.keyword == "type"]

    def rules(self, body: dict[str, Any]) -> list[Rule]:
        """Return the CEL rules of the schema at each place of an object, except transition rules."""
        return find_rules(body, self._schema) if VALIDATIONS in self._text else []

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
    """A value or key of an object that breaks a keyword of the schema.

    Attributes:
        path: the path of the value; for an unknown field it ends with the name of the field, for a missing field it is
            the path of the object without the field.
        keyword: the JSON Schema keyword: `additionalProperties` for an unknown field, `required` for a missing one,
            `uniqueItemsBy` for an item with the keys of an earlier item,
            `propertyNames` for a key that a mapping does not allow, `oneOf` for a choice of exactly one field,
            `anyOf` for a choice of at least one field,
            `type`, `enum`, `const`, `pattern`, `minimum`, …
        message: the sentence for the user.
        value: the value at the path; the key itself, if a mapping does not allow the key.
        expected: the value of the keyword: the missing name, the allowed types, values or fields, the pattern, the
            limit; None for an unknown field.
        candidates: for an unknown or missing field, the fields that the schema of the object has; else empty.
        meaning: the strings that a pattern accepts, in words; empty for other keywords and unknown patterns.
    """

    path: tuple[str | int, ...]
    keyword: str
    message: str
    value: Any
    expected: Any
    candidates: tuple[str, ...] = ()
    meaning: str = ""

    @property
    def is_superfluous(self) -> bool:
        """Return True if the schema allows no value at this place, so the fix is to remove the value."""
        return self.keyword in _EMPTY and not self.expected

    @property
    def fix(self) -> str:
        """Return the change to make, in the imperative, or a question: did you mean `spec`?"""
        match self.keyword:
            case "additionalProperties":
                return _suggest(self.path[-1], self.candidates) or "remove the field"
            case "required":
                return "add the field"
            case "uniqueItems" | "uniqueItemsBy":
                return "keep one of the two items"
            case "type":
                is_unquoted = isinstance(self.value, bool | int | float) and "string" in self.expected
                types = list_types(self.expected).replace("a boolean", "true or false")
                return "put the value in quotes" if is_unquoted else f"write {types}"
        if self.is_superfluous:
            return "remove the value"
        if isinstance(self.expected, tuple):
            allowed = [str(value) for value in self.expected]
            return _suggest(self.value, allowed) or f"write one of: {', '.join(map(_quoted, self.expected))}"
        if self.keyword == "propertyNames":
            return f"rename the key to {self.meaning}" if self.meaning else "correct the key"
        write = _FIXES.get(self.keyword)
        return f"write {self.meaning}" if self.meaning else write(self.expected) if write else "correct the value"


def _quoted(value: object) -> str:
    """Return a value as YAML: in quotes if it is a string that YAML reads as another type without quotes."""
    return value if isinstance(value, str) and value and resolve(value) == value else json.dumps(value)


def _suggest(word: object, candidates: Sequence[str]) -> str:
    close = similar(str(word), candidates)
    return f"did you mean `{close}`?" if close else ""


def similar(word: str, candidates: Sequence[str]) -> str:
    """Return the candidate that a word is most likely a misspelling of; empty if there is none."""
    return next(iter(difflib.get_close_matches(word, candidates, n=1)), "")


def explain(
    errors: Iterable[ValidationError], schema: Schema, body: Any, meanings: Mapping[str, str] | None = None
) -> list[Violation]:
    """Convert the errors of jsonschema-rs into violations: one per unknown field, and one per place and keyword.

    Args:
        errors: the errors of jsonschema-rs about `body`.
        schema: the schema of `body`.
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
    return _without_effects([*violations.values()])


def _without_effects(violations: Sequence[Violation]) -> list[Violation]:
    """Leave out the effects of other violations: of a value that is not listed, or of a misspelt name of a field."""
    listed = {item.path for item in violations if item.keyword in ("const", "enum")}
    lacking = {item.path for item in violations if item.keyword == "required"}
    misspelt = {
        (item.path[:-1], similar(str(item.path[-1]), item.candidates))
        for item in violations
        if item.keyword == "additionalProperties" and item.path[:-1] in lacking
    }

    def is_effect(item: Violation) -> bool:
        if item.keyword == "required":
            return (item.path, item.expected) in misspelt
        return item.keyword == "type" and item.value is not None and item.path in listed

    return [item for item in violations if not is_effect(item)]


def _violations(
    error: ValidationError, schema: Schema, path: tuple[str | int, ...], value: Any, meanings: Mapping[str, str]
) -> Iterator[Violation]:
    keyword, details = error.kind.name, error.kind.as_dict()
    if keyword == "additionalProperties":
        yield from _unknown_fields(path, value, details["unexpected"], _fields(error, schema))
    elif keyword == "falseSchema" and isinstance(value, dict):  # the schema of the object declares no field
        yield from _unknown_fields(path, value, value, ())
    elif keyword == "required":
        name = details["property"]
        yield Violation(path, keyword, f"`{name}` is missing", value, name, _fields(error, schema))
    elif keyword == "propertyNames":
        about, name = details["error"].kind, details["error"].instance
        expected = next(iter(about.as_dict().values()))
        message = _message(about.name, "the key", name, expected, meanings) or details["error"].message
        meaning = meanings.get(expected, "") if about.name == "pattern" else ""
        yield Violation((*path, name), keyword, message, name, expected, meaning=meaning)
    elif keyword == UNIQUE_ITEMS_BY:
        yield from _repeated_items(path, value, _at(schema, error.schema_path))
    elif choice := _required_choice(error, schema):
        yield Violation(path, keyword, f"{_CHOICES[keyword]} one of {_listed(choice)} is required", value, choice)
    else:
        # jsonschema-rs gives no detail about `contains`
        demand = (
            _at(schema, error.schema_path).get("enum") if keyword == "contains" else next(iter(details.values()), None)
        )
        expected = _expected(demand)
        message = _message(keyword, _subject(path), value, expected, meanings) or error.message
        meaning = meanings.get(expected, "") if keyword == "pattern" else ""
        yield Violation(path, keyword, message, value, expected, meaning=meaning)


def _unknown_fields(
    path: tuple[str | int, ...], value: Mapping[str, Any], names: Iterable[str], known: tuple[str, ...]
) -> Iterator[Violation]:
    for name in names:
        yield Violation((*path, name), "additionalProperties", f"unknown field `{name}`", value[name], None, known)


def _required_choice(error: ValidationError, schema: Schema) -> tuple[str, ...]:
    """Return the fields of which `oneOf` or `anyOf` requires one; empty for any other keyword or choice."""
    branches = _at(schema, error.schema_path) if error.kind.name in _CHOICES else ()
    branches = [branch for branch in branches if branch != {"type": "null"}]
    is_choice = all("required" in branch for branch in branches)
    return tuple(name for branch in branches for name in branch["required"]) if is_choice else ()


def _repeated_items(path: tuple[str | int, ...], items: Any, keys: Mapping[str, Any]) -> Iterator[Violation]:
    alike = format_names(keys)
    for index, before in find_repeated_items(items, keys):
        message = f"item [{index}] has the same {alike} as item [{before}]"
        yield Violation((*path, index), UNIQUE_ITEMS_BY, message, items[index], tuple(keys))


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
    """Return the value that a keyword of the schema demands, for a message.

    Lists, such as the values of `enum` and `type`, become tuples without null, 'null' and ''. Kubernetes lists these
    only so that a field may be absent. Any other value stays as it is.
    """
    if isinstance(demand, list):
        return tuple(item for item in demand if item not in (None, "", "null"))
    return demand


def _subject(path: tuple[str | int, ...]) -> str:
    """Return the subject of a message about a place: `the object`, a key in backticks, or `item [2]`."""
    if not path:
        return "the object"
    return f"item [{path[-1]}]" if isinstance(path[-1], int) else f"`{path[-1]}`"


def _message(keyword: str, subject: str, value: Any, expected: Any, meanings: Mapping[str, str]) -> str:
    """Return the message for a failed keyword; empty if there is none, so the caller uses the engine's message."""
    if keyword in _EMPTY and not expected:
        return f"`{_format(value)}` is not allowed here"
    if keyword == "type":
        return f"{subject} must be {list_types(expected)}, not {_typed(value)}"
    if keyword == "pattern" and expected in meanings:
        return f"`{_format(value)}` is not {meanings[expected]}"
    if keyword == "not" and isinstance(expected, dict) and expected.get("pattern") in meanings:
        return f"`{_format(value)}` is {meanings[expected['pattern']]}"
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
    "contains": lambda text, values: f"`{text}` has none of {_listed(values)}",
    "maxProperties": lambda _, limit: f"the mapping has more than {limit} key{_plural(limit)}",
}
_FIXES: dict[str, Callable[[Any], str]] = {
    "minimum": lambda limit: f"write a number of at least {limit}",
    "maximum": lambda limit: f"write a number of at most {limit}",
    "minLength": lambda limit: f"write at least {limit} character{_plural(limit)}",
    "maxLength": lambda limit: f"write at most {limit} character{_plural(limit)}",
    "minItems": lambda limit: f"list at least {limit} item{_plural(limit)}",
    "maxItems": lambda limit: f"list at most {limit} item{_plural(limit)}",
    "minProperties": lambda limit: f"write at least {limit} key{_plural(limit)}",
    "maxProperties": lambda limit: f"write at most {limit} key{_plural(limit)}",
    "uniqueItems": lambda _: "list each item once",
    "not": lambda _: "write another value",
}
