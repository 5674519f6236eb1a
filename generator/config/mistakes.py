"""Mistakes in a user's file, each with a path, a message and a fix, and the translation of pydantic's errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake
from pydantic_core import ErrorDetails

from generator.documents.load import Document
from generator.documents.locate import locate_all
from generator.documents.messages import format_path, format_value
from generator.documents.written import explain_null, find_number, find_swallowed, keep_form
from generator.errors import Problem, suggest

Steps = tuple[str | int, ...]
"""A path in a platform file: keys, and positions in lists."""
OF_KEY = "[key]"
"""The last step of a path to a key of a mapping. Pydantic adds the same step to its errors about keys."""
RULE_BROKEN = "contradiction"
"""The type of pydantic's error for a mistake that a rule between sections finds."""
_TYPES = {
    "string_type": ("a string", "put the value in quotes"),
    "string_unicode": ("a string", "remove the bytes that are not characters"),
    "bool_type": ("true or false", "write `true` or `false`, without quotes"),
    "int_type": ("an integer", "write an integer without a unit, such as 8"),
    "tuple_type": ("a list", "write a list, and begin each item with `- `"),
    "dict_type": ("a mapping", "write each entry as `key: value`"),
    "model_type": ("a mapping", "write each field as `key: value`"),
    "model_attributes_type": ("a mapping", "write each field as `key: value`"),
}
"""The type of pydantic's error → the expected type, and the fix."""
_MARKERS = {OF_KEY, "[amount]", "[each]"}  # pydantic and the tags of `quotas.Share` add them to paths


@dataclass(frozen=True, slots=True)
class Mistake:
    """An invalid value or key of a file.

    Attributes:
        path: the path of the value.
        message: the problem.
        fix: the change to make, in the imperative.
        is_of_key: True if the key is invalid, so that the problem has the position of the key.
        reads: the paths of other values that contradict the value. If one of them is invalid, the mistake is uncertain.
    """

    path: Steps
    message: str
    fix: str
    is_of_key: bool = False
    reads: tuple[Steps, ...] = ()


def place_mistakes(mistakes: Collection[Mistake], text: bytes, document: Document, file: Path) -> tuple[Problem, ...]:
    """Return the mistakes as problems with line and column, in the order of the file."""
    places = locate_all(text, document.index, [mistake.path for mistake in mistakes])
    lines = text.decode(errors="replace").splitlines()
    problems = []
    for mistake in mistakes:
        place = places[mistake.path]
        line, column = place.key if mistake.is_of_key else place.node
        message, fix = mistake.message, mistake.fix
        value = _value_at(document.data, mistake.path)
        if value is None and not mistake.is_of_key and (swallowed := find_swallowed(lines, *place.key)):
            reason, fix = explain_null(swallowed)
            message = f"{message}: {reason}"
        elif isinstance(value, int | float) and not isinstance(value, bool):
            message = keep_form(message, value, find_number(lines, *place.node))
        problems.append(Problem(message, fix, str(file), line, column, format_path(mistake.path)))
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))


def _value_at(data: Any, path: Steps) -> Any:
    """Return the value at a path; the empty text if there is none."""
    for step in path:
        try:
            data = data[step]
        except (LookupError, TypeError):
            return ""
    return data


def mistakes_in(
    error: ValidationError, model: type[BaseModel], prefix: Steps = (), *, by_name: bool = False
) -> list[Mistake]:
    """Translate every error that pydantic reports for a model.

    Args:
        error: pydantic's error.
        model: the model that rejects the data.
        prefix: the path of the data in the file.
        by_name: True if the fields have their names in Python, such as `per_node`; else they have their names in YAML.
    """
    details = error.errors(include_url=False)
    parents = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
    # Pydantic reports a list as too short if its items are invalid, in addition to the error of each item.
    reported = [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in parents]
    return [_translate(detail, model, prefix, by_name=by_name) for detail in reported]


def _translate(detail: ErrorDetails, model: type[BaseModel], prefix: Steps, *, by_name: bool) -> Mistake:
    path = tuple(step for step in detail["loc"] if step not in _MARKERS)
    message, fix = _describe(detail, path, model)
    if by_name and detail["type"] == "extra_forbidden" and (parent := _model_at(model, path[:-1])):
        _, fix = _removed(parent, str(path[-1])) or ("", suggest(str(path[-1]), parent.model_fields))
    context = detail.get("ctx", {})
    section = (*prefix, *path[: len(path) - context.get("depth", 0)])
    reads = tuple((*section, field) for field in context.get("reads", ()))
    is_of_key = detail["type"] == "extra_forbidden" or OF_KEY in detail["loc"]
    return Mistake((*prefix, *path), message, fix, is_of_key, reads)


def _describe(detail: ErrorDetails, path: Steps, model: type[BaseModel]) -> tuple[str, str]:
    """Return the message and the fix of an error."""
    kind, value = detail["type"], format_value(detail["input"])
    if kind in _TEXTS:
        name = format_value(str(path[-1]) if path else "")
        message, fix = (text.format(value=value, name=name, **detail.get("ctx", {})) for text in _TEXTS[kind])
        return message, fix
    if kind in _DESCRIPTIONS:
        return _DESCRIPTIONS[kind](detail, path, model)
    return f"{value}: {detail['msg']}", ""  # of a validator or a model that the user wrote


_TEXTS = {
    "invalid": ("{message}", "{fix}"),
    RULE_BROKEN: ("{message}", "{fix}"),
    "greater_than_equal": ("{value} is too small", "write at least {ge}"),
    "less_than_equal": ("{value} is too large", "write at most {le}"),
    "too_short": ("{name} is empty", "add at least {min_length} entry"),
    "too_long": ("{name} has more than {max_length} entries", "keep at most {max_length} entries"),
    "string_too_short": ("{name} is empty", "write at least one character"),
    "frozen_instance": (
        "{name} cannot be changed, because sections are immutable",
        "build a copy by `replace`, such as `platform.replace(release=...)`",
    ),
    "json_invalid": ("{value} is not JSON: {error}", "write one JSON object"),
    "string_too_long": ("{name} is longer than {max_length} characters", "write at most {max_length} characters"),
}
"""The type of pydantic's error → the message and the fix, with the context of the error as fields."""


def _describe_missing(_: ErrorDetails, path: Steps, model: type[BaseModel]) -> tuple[str, str]:
    return f"`{path[-1]}` is missing", _describe_field(model, path)


def _describe_unknown(_: ErrorDetails, path: Steps, model: type[BaseModel]) -> tuple[str, str]:
    parent = _model_at(model, path[:-1])
    if parent and (removed := _removed(parent, str(path[-1]))):
        return removed
    fields = [info.alias or name for name, info in parent.model_fields.items()] if parent else []
    return f"there is no field {format_value(str(path[-1]))} here", suggest(str(path[-1]), fields)


def _removed(parent: type[BaseModel], name: str) -> tuple[str, str] | None:
    """Return the message and the fix for a field of earlier releases, in YAML or in Python; None for other names."""
    removed: Mapping[str, tuple[str, str]] = getattr(parent, "removed_fields", {})
    return next((texts for field, texts in removed.items() if name in (field, to_snake(field))), None)


def _describe_choice(detail: ErrorDetails, path: Steps, _: type[BaseModel]) -> tuple[str, str]:
    is_of_key = OF_KEY in detail["loc"]
    allowed = [word.strip("' ") for word in detail["ctx"]["expected"].replace(" or ", ", ").split(",")]
    field = next((step for step in reversed(path[:-1] if is_of_key else path) if isinstance(step, str)), "")
    message = f"{format_value(detail['input'])} is not a valid {'key' if is_of_key else 'value'} of `{field}`"
    return message, suggest(str(detail["input"]), allowed)


def _describe_type(detail: ErrorDetails, path: Steps, model: type[BaseModel]) -> tuple[str, str]:
    """Return the message and the fix of a value of the wrong type."""
    value = detail["input"]
    expected, fix = _TYPES[detail["type"]]
    match detail["type"], value:
        case "tuple_type", BaseModel():
            return f"a {type(value).__name__} is not a tuple", "write a comma after a single item, such as `(item,)`"
        case "string_type", BaseModel():
            return f"a {type(value).__name__} is not a string", "write its name, such as `item.name`"
        case _, None:
            name = format_value(str(path[-1]) if path else "")
            return f"{name} has no value, but must be {expected}", _describe_field(model, path)
        case "string_type", bool():
            return f"{format_value(value)} is a boolean, but must be a string", fix
        case "string_type", int() | float():
            return f"{format_value(value)} is a number, but must be a string", fix
        case "string_type", list() | dict():
            fix = "write one string"
        case "int_type", str() if re.fullmatch("[0-9]{1,10}", value):
            return f'`"{value}"` is a string, but must be an integer', f"write {value} without quotes"
        case "int_type", float():
            fix = "write a whole number, without a decimal point and without an exponent"
    return f"{format_value(value)} is not {expected}", fix


_DESCRIPTIONS: Mapping[str, Callable[[ErrorDetails, Steps, type[BaseModel]], tuple[str, str]]] = {
    "missing": _describe_missing,
    "extra_forbidden": _describe_unknown,
    "literal_error": _describe_choice,
    **dict.fromkeys(_TYPES, _describe_type),
}
"""The type of pydantic's error → the function that returns its message and its fix."""


def _describe_field(model: type[BaseModel], path: Steps) -> str:
    """Return a fix for a field without a value. For a required field, the fix has its description."""
    parent = _model_at(model, path[:-1])
    for name, info in parent.model_fields.items() if parent else ():
        if path and path[-1] in (name, info.alias):
            if not info.is_required():
                return "write a value, or remove the field"
            first = " ".join((info.description or "").split()).split(". ")[0].rstrip(".")
            return f"add it: {first[:1].lower()}{first[1:]}"
    return "write a value"


def _model_at(model: type[BaseModel], path: Steps) -> type[BaseModel] | None:
    """Return the model of the value at a path; None if a path leads outside the models."""
    current: type[BaseModel] | None = model
    is_free_key = False
    for step in path:
        if isinstance(step, int) or is_free_key or current is None:
            is_free_key = False
            continue
        annotations = [info.annotation for name, info in current.model_fields.items() if step in (name, info.alias)]
        current = _model_in(annotations[0]) if annotations else None
        is_free_key = bool(annotations) and _is_mapping(annotations[0])
    return current


def _is_mapping(annotation: Any) -> bool:
    """Return True if a field holds a mapping whose keys the user chooses."""
    return get_origin(annotation) is dict or any(_is_mapping(part) for part in get_args(annotation))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((inner for part in get_args(annotation) if (inner := _model_in(part)) is not None), None)
