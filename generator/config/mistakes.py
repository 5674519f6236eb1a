"""A mistake in a platform file: its place, its message and its fix; and pydantic's errors as such."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from generator.documents.messages import format_value
from generator.errors import suggest

_EXPECTED = {
    "string_type": ("a text", "write it in quotes"),
    "string_unicode": ("a text", "remove what is no character from it"),
    "bool_type": ("true or false", "write one of them, without quotes"),
    "int_type": ("a whole number", "write one, such as 4"),
    "tuple_type": ("a list", "begin each of its items with `- `"),
    "dict_type": ("a mapping", "write its entries as `key: value`"),
    "model_type": ("a mapping", "write its fields as `key: value`"),
    "model_attributes_type": ("a mapping", "write its fields as `key: value`"),
}
"""Pydantic's kind of error → what belongs there, and how to write it."""
_MARKERS = {"[key]", "[amount]", "[each]"}  # of pydantic's, and of the tags of `tenants.Share`: no steps of the file


@dataclass(frozen=True, slots=True)
class Complaint:
    """One error at one path of the data, as written there: at the value, or at the key that should not be."""

    path: tuple[str | int, ...]
    message: str
    fix: str
    is_of_key: bool = False


_CONTRADICTION = "contradiction"


def contradicted(found: Mistake) -> PydanticCustomError:
    """Return a contradiction as an error of pydantic, which keeps all of it."""
    context = {"message": found.message, "fix": found.fix, "path": found.path, "is_of_key": found.is_of_key}
    return PydanticCustomError(_CONTRADICTION, "{message}", context)


def contradictions_in(error: ValidationError) -> list[Mistake]:
    """Return the contradictions that an error of pydantic holds, with the positions of the sorted platform."""
    contexts = [detail["ctx"] for detail in error.errors(include_url=False) if detail["type"] == _CONTRADICTION]
    return [Mistake(each["path"], each["message"], each["fix"], each["is_of_key"]) for each in contexts]


def complaints(error: ValidationError, model: type[BaseModel], prefix: tuple[str | int, ...] = ()) -> list[Complaint]:
    """Everything that a model refuses, in the order of its fields."""
    details = error.errors(include_url=False)
    above = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
    return [_complaint(detail, model, prefix) for detail in details if not _is_echo(detail, above)]


def _is_echo(detail: ErrorDetails, above: Collection[tuple[str | int, ...]]) -> bool:
    """Pydantic calls a list too short when its items are refused, each with an error of its own."""
    return detail["type"] == "too_short" and detail["loc"] in above


def _complaint(detail: ErrorDetails, model: type[BaseModel], prefix: tuple[str | int, ...]) -> Complaint:
    path = tuple(step for step in detail["loc"] if step not in _MARKERS)
    message, fix = _words(detail, path, model)
    return Complaint((*prefix, *path), message, fix, detail["type"] == "extra_forbidden" or "[key]" in detail["loc"])


def _words(detail: ErrorDetails, path: tuple[str | int, ...], model: type[BaseModel]) -> tuple[str, str]:
    """What is wrong, and what to do."""
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    last = str(path[-1]) if path else ""
    match kind:
        case "refused" | "contradiction":
            words = context["message"], context["fix"]
        case "missing":
            words = f"`{last}` is missing", _described(model, path)
        case "extra_forbidden":
            words = f"there is no field {format_value(last)} here", suggest(last, _fields(_model_at(model, path[:-1])))
        case "literal_error":
            allowed = [word.strip("' ") for word in context["expected"].replace(" or ", ", ").split(",")]
            words = f"{format_value(value)} is not possible here", suggest(str(value), allowed)
        case "greater_than_equal":
            words = f"{format_value(value)} is too small", f"write at least {context['ge']}"
        case "less_than_equal":
            words = f"{format_value(value)} is too large", f"write at most {context['le']}"
        case "too_short":
            words = f"{format_value(last)} is empty", f"put at least {context['min_length']} in"
        case "string_too_short":
            words = f"{format_value(last)} is empty", "write a text"
        case _ if kind in _EXPECTED:
            words = _expected(kind, value, _described(model, path))
        case _:  # a validator or a model of the user's own
            words = f"{format_value(value)}: {detail['msg']}", ""
    return words


def _expected(kind: str, value: object, description: str) -> tuple[str, str]:
    expected, fix = _EXPECTED[kind]
    match kind, value:
        case _, None:
            fix = description
        case "string_type", list() | dict():
            fix = "write one text"
        case "int_type", str() if re.fullmatch("[0-9]{1,10}", value):
            fix = f"write {value} without quotes"
        case "int_type", float():
            fix = "write it without a point or an exponent"
    return f"{format_value(value)} where {expected} belongs", fix


def _fields(model: type[BaseModel] | None) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()] if model else []


def _described(model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    """How to mend a field without a value."""
    parent = _model_at(model, path[:-1])
    for name, info in parent.model_fields.items() if parent else ():
        if path and path[-1] in (name, info.alias):
            if not info.is_required():
                return "write one, or remove the field"
            first = " ".join((info.description or "").split()).split(". ")[0].rstrip(".")
            return f"add it: {first[:1].lower()}{first[1:]}"
    return "write one"


def _model_at(model: type[BaseModel], path: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model that stands at a path: fields lead to their annotation, list positions and keys stay with it."""
    current: type[BaseModel] | None = model
    is_key = False
    for step in path:
        if isinstance(step, int) or is_key or current is None:
            is_key = False
            continue
        found = [info.annotation for name, info in current.model_fields.items() if step in (name, info.alias)]
        current = _model_in(found[0]) if found else None
        is_key = bool(found) and _is_of_keys(found[0])
    return current


def _is_of_keys(annotation: Any) -> bool:
    """Whether a key of the user's own comes before what the model describes."""
    return get_origin(annotation) is dict or any(_is_of_keys(part) for part in get_args(annotation))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((inner for part in get_args(annotation) if (inner := _model_in(part)) is not None), None)


@dataclass(frozen=True, slots=True)
class Mistake:
    """Two places of the platform that cannot both be meant; this one is a value, or the key that should not be."""

    path: tuple[str | int, ...]
    message: str
    fix: str
    is_of_key: bool = False
