"""The fields of platform.yaml, from its JSON Schema, each with an example that the schema accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from generator.config.platform import platform_schema
from tests.conftest import ROOT
from tests.regulated import regulated
from tests.update_runtimes import OPTIONS

EXAMPLES = ROOT / "tests" / "docs" / "examples.yaml"
"""A part of a platform with the fields that no platform of the repository sets."""


@dataclass(frozen=True)
class Field:
    """A field of platform.yaml.

    Attributes:
        path: where it stands, such as `tenants[].quota`.
        schema: its schema, with references resolved at the top.
        required: True if its object is invalid without it.
        example: a value from a platform, or None if there is none.
    """

    path: str
    schema: dict[str, Any]
    required: bool
    example: Any

    @property
    def key(self) -> str:
        """The key that a user writes."""
        return self.path.rpartition(".")[2].removesuffix("[]").removesuffix("[*]")


@dataclass(frozen=True)
class Section:
    """An object of platform.yaml with its fields; its path is empty at the top of the file. `model` is its class."""

    path: str
    model: str
    description: str
    fields: tuple[Field, ...]


def schema() -> dict[str, Any]:
    """Return the JSON Schema of platform.yaml."""
    data: dict[str, Any] = json.loads(platform_schema())
    return data


@cache
def sections() -> tuple[Section, ...]:
    """Return the objects of platform.yaml, each before the objects in it."""
    whole = schema()
    return tuple(_sections(whole, whole, "", _examples()))


def _sections(
    whole: dict[str, Any], part: dict[str, Any], path: str, examples: dict[str, list[Any]]
) -> Iterator[Section]:
    required = part.get("required", ())
    children = [(f"{path}.{key}".lstrip("."), key, value) for key, value in part["properties"].items()]
    yield Section(
        path,
        next(
            (model for model, found in whole["$defs"].items() if part in (found, *found.get("anyOf", ()))), "Platform"
        ),
        part.get("description", ""),
        tuple(
            Field(where, value, key in required, _valid(whole, value, examples.get(where, [])))
            for where, key, value in children
        ),
    )
    for where, _, value in children:
        for suffix, below in _objects(whole, value) if where != "environments" else ():  # the same fields again
            yield from _sections(whole, below, where + suffix, examples)


def _objects(whole: dict[str, Any], value: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (`` or `[]` or `[*]`, schema) of the objects in a field."""
    if "$ref" in value:
        target = whole["$defs"][value["$ref"].rpartition("/")[2]]
        yield from [("", target)] if "properties" in target else _objects(whole, target)
    elif "properties" in value:
        yield "", value
    for choice in value.get("anyOf", ()):
        yield from _objects(whole, choice)
    for suffix, items in (("[]", value.get("items")), ("[*]", values_of(value))):
        if isinstance(items, dict):
            yield from ((suffix + more, target) for more, target in _objects(whole, items))


def values_of(mapping: dict[str, Any]) -> Any:
    """Return the schema of the values of a mapping; None if it has none. Keys may have to match a pattern."""
    return next(iter(mapping.get("patternProperties", {}).values()), mapping.get("additionalProperties"))


def _examples() -> dict[str, list[Any]]:
    """Return path → values, from the file of examples and platforms of the repository."""
    found: dict[str, list[Any]] = {}
    platforms = [_load(file) for file in sorted(ROOT.glob("examples/*/platform.yaml"))]
    options = [{"runtimes": [{key: value}]} for key, value in OPTIONS.items()]
    for platform in [_load(EXAMPLES), *platforms, regulated(), *options]:
        _collect(platform, "", found)
    return found


def _load(file: Path) -> Any:
    """Read a platform, with dates as the strings that JSON has for them."""
    return json.loads(json.dumps(yaml.safe_load(file.read_text("utf-8")), default=str))


def _valid(whole: dict[str, Any], part: dict[str, Any], values: list[Any]) -> Any:
    """Return the first of these examples that the schema accepts, else the schema's own."""
    validator = jsonschema.Draft202012Validator({**part, "$defs": whole["$defs"]})
    return next((value for value in [*values, *part.get("examples", ())] if validator.is_valid(value)), None)


def _collect(value: Any, path: str, found: dict[str, list[Any]]) -> None:
    if isinstance(value, dict):
        for key, below in value.items():
            _collect(below, f"{path}.{key}".lstrip("."), found)
            _collect(below, f"{path}[*]", found)
    elif isinstance(value, list):
        for item in value:
            _collect(item, f"{path}[]", found)
    if path and value not in (None, [], {}):
        found.setdefault(path, []).append(value)
