"""Pydantic's errors, in our words: what is wrong with which value, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from generator.config.draft import suggestion

_EXPECTED = {
    "string_type": "a string",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


@dataclass(frozen=True, slots=True)
class Complaint:
    """One error at one path of the data, as written there."""

    path: tuple[str | int, ...]
    message: str
    fix: str


def complaints(error: ValidationError, model: type[BaseModel], prefix: tuple[str | int, ...] = ()) -> list[Complaint]:
    """Everything that a model refuses, in the order of its fields."""
    return [_complaint(detail, model, prefix) for detail in error.errors(include_url=False)]


def _complaint(detail: ErrorDetails, model: type[BaseModel], prefix: tuple[str | int, ...]) -> Complaint:
    path = tuple(step for step in detail["loc"] if step != "[key]")
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    message, fix = _words(kind, path, value, context, model)
    return Complaint((*prefix, *path), message, fix)


def _words(
    kind: str, path: tuple[str | int, ...], value: object, context: dict[str, Any], model: type[BaseModel]
) -> tuple[str, str]:
    """What is wrong, and what to do."""
    last = str(path[-1]) if path else ""
    match kind:
        case "refused":
            words = context["message"], context["fix"]
        case "missing":
            words = f"`{last}` is missing", _described(model, path)
        case "extra_forbidden":
            words = f"there is no field `{last}` here", suggestion(last, _fields(_model_at(model, path[:-1])))
        case "literal_error":
            allowed = [word.strip("' ") for word in context["expected"].replace(" or ", ", ").split(",")]
            words = f"{shown(value)} is not possible here", suggestion(str(value), allowed)
        case "greater_than_equal":
            words = f"{shown(value)} is too small", f"write at least {context['ge']}"
        case "less_than_equal":
            words = f"{shown(value)} is too large", f"write at most {context['le']}"
        case "too_short":
            words = f"`{last}` is empty", f"put at least {context['min_length']} in"
        case _:
            quote = kind == "string_type" and isinstance(value, int | float | bool)
            expected = _EXPECTED.get(kind, f"something else ({kind.replace('_', ' ')})")
            words = f"{shown(value)} where {expected} belongs", "write it in quotes" if quote else ""
    return words


def shown(value: object) -> str:
    """A value as its writer would recognise it, in a few words."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"  # noqa: PLR2004 - one line of a terminal


def _fields(model: type[BaseModel] | None) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()] if model else []


def _described(model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    parent = _model_at(model, path[:-1])
    for name, info in parent.model_fields.items() if parent else ():
        if path and path[-1] in (name, info.alias) and info.description:
            first = " ".join(info.description.split()).split(". ")[0].rstrip(".")
            return f"add it: {first[0].lower()}{first[1:]}"
    return "add it"


def _model_at(model: type[BaseModel], path: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model that stands at a path: fields lead to their annotation, list positions stay with it."""
    current: type[BaseModel] | None = model
    for step in path:
        if isinstance(step, int) or current is None:
            continue
        found = [info for name, info in current.model_fields.items() if step in (name, info.alias)]
        current = _model_in(found[0].annotation) if found else None
    return current


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((inner for part in get_args(annotation) if (inner := _model_in(part)) is not None), None)
