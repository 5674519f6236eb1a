"""Mutate one place of an object as its schema suggests, into invalid or unusual values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from generator.documents.load import Path as Steps
from generator.schemas.json_schema import Schema
from generator.schemas.patterns import CUSTOM_QUANTITY, QUANTITY


class Change(NamedTuple):
    """A change from `cases.CHANGES` with its value, at a key or at the place itself."""

    change: str
    value: Any = None
    key: str | None = None


JUNK: dict[str, tuple[Any, ...]] = {
    "string": ("x", "7", ""),
    "integer": (7, 0),
    "number": (1.5,),
    "boolean": (True, False),
    "array": ([], ["x"]),
    "object": ({}, {"x": "y"}),
}
"""Type → values of it."""
NAMES = ("Upper", "under_score", "dot.ted", "-first", "last-", "", "a b", "a/b", "..", "a" * 64, "a" * 254, "9", "é")
KEYS = ("-", "a b", "a/b/c", "/a", "a/", "Upper.example/a", "a" * 64, "", "é")
VALUES = ("-", "a b", "a/b", "a" * 64, "é", "", "9")
NO_AMOUNTS = ("1.2.3", "10Gb", "1 Gi", "ten", "-1", "1e", "", "1i", "0.0000000001")
AMOUNTS = ("2000m", "2e3", "+2", 2, "2.", "2Ei", "9999999999999999999", " 2")
_LABELLED = ("labels", "matchLabels", "nodeSelector", "nodeLabels")
_QUANTITIES = (QUANTITY, CUSTOM_QUANTITY)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in an object, with its schema.

    Attributes:
        path: path in the object.
        value: value at the path.
        schema: schema of the value, with references resolved.
        is_required: True if the object is invalid without it.
    """

    path: Steps
    value: Any
    schema: Schema
    is_required: bool

    @property
    def types(self) -> tuple[str, ...]:
        """The JSON types that the schema allows."""
        types = self.schema.get("type", ())
        return (types,) if isinstance(types, str) else tuple(types)


def places(value: Any, node: Schema, schema: Schema, path: Steps = (), *, is_required: bool = True) -> Iterator[Place]:
    """Every place of `value` whose demands `node` of `schema` knows, itself first."""
    node = resolved(node, schema)
    yield Place(path, value, node, is_required)
    if isinstance(value, dict):
        others = node.get("additionalProperties")
        for key, child in value.items():
            below = node.get("properties", {}).get(key, others)
            if isinstance(below, dict) and (path or key not in ("apiVersion", "kind")):
                is_needed = key in node.get("required", ())
                yield from places(child, below, schema, (*path, key), is_required=is_needed)
    elif isinstance(value, list) and "items" in node:
        for index, child in enumerate(value):
            yield from places(child, node["items"], schema, (*path, index))


def resolved(node: Schema, schema: Schema) -> Schema:
    """Return the node with its reference resolved; of sibling keywords only local ones count."""
    while pointer := node.get("$ref") or node.get("allOf", [{}])[0].get("$ref"):
        rest = {keyword: value for keyword, value in node.items() if keyword not in ("$ref", "allOf")}
        node = {**schema["definitions"][pointer.rpartition("/")[2]], **rest}
    return node


def _missing(place: Place) -> Iterator[Change]:
    if place.is_required and place.path and isinstance(place.path[-1], str):
        yield Change("remove")


def _left_out(place: Place) -> Iterator[Change]:
    if not place.is_required and place.path != ("metadata",):
        yield Change("remove")


def _unknown(place: Place) -> Iterator[Change]:
    if isinstance(place.value, dict) and place.schema.get("additionalProperties") is False:
        yield Change("set", 1, "unknown")


def _misspelt(place: Place) -> Iterator[Change]:
    key = place.path[-1] if place.path else 0
    if isinstance(key, str) and key not in _LABELLED and key.lower() != key:
        yield Change("rename", key.lower())


def _wrong_type(place: Place) -> Iterator[Change]:
    allowed = {*place.types, *(("integer",) if "number" in place.types else ())}
    for name, values in JUNK.items() if allowed else ():
        if name not in allowed and not (name == "integer" and "number" in allowed):
            yield from (Change("set", value) for value in values)


def _null(place: Place) -> Iterator[Change]:
    if place.path:
        yield Change("set", None)


def _empty(place: Place) -> Iterator[Change]:
    if place.path and place.value and isinstance(place.value, str | list | dict):
        yield Change("set", type(place.value)())


def _not_in_enum(place: Place) -> Iterator[Change]:
    for value in [value for value in place.schema.get("enum", ()) if value]:
        if value.lower() != value:
            yield Change("set", value.lower())
    if "enum" in place.schema:
        yield Change("set", "Sometimes")


def _out_of_range(place: Place) -> Iterator[Change]:
    if type(place.value) is int:
        yield from (Change("set", value) for value in (-1, 0, 70000, 2**31, 2**63, -(2**31) - 1))


def _not_whole(place: Place) -> Iterator[Change]:
    if type(place.value) is int:
        yield Change("set", 1.5)
        yield Change("set", "5")


def _other_number(place: Place) -> Iterator[Change]:
    if type(place.value) is int:
        yield from (Change("yaml", f"{place.value}{text}") for text in (".0", "e0", "_0"))
        yield Change("yaml", f"0x{place.value:x}")


def _bad_quantity(place: Place) -> Iterator[Change]:
    if place.schema.get("pattern") in _QUANTITIES:
        yield from (
            Change("set", value) for value in ("1.2.3", "10Gb", "1 Gi", "ten", "-1", "1e", "", "1i", "0.0000000001")
        )


def _other_quantity(place: Place) -> Iterator[Change]:
    if place.schema.get("pattern") in _QUANTITIES:
        yield from (
            Change("set", value) for value in ("2000m", "2e3", "+2", 2, "2.", "2Ei", "9999999999999999999", " 2")
        )
        yield Change("yaml", "2.0")


def _bad_pattern(place: Place) -> Iterator[Change]:
    if "pattern" in place.schema and place.schema["pattern"] not in _QUANTITIES:
        yield from (Change("set", value) for value in ("Not Fitting!", "-", "a\n"))


def _wrong_size(place: Place) -> Iterator[Change]:
    if 0 < place.schema.get("maxLength", 0) <= 253:
        yield Change("set", "a" * (place.schema["maxLength"] + 1))
    if 0 < place.schema.get("maxItems", 0) <= 8 and place.value:
        yield Change("set", place.value[:1] * (place.schema["maxItems"] + 1))


def _again(place: Place) -> Iterator[Change]:
    if place.path and isinstance(place.path[-1], int):
        yield Change("repeat")


def _key_twice(place: Place) -> Iterator[Change]:
    if place.path and isinstance(place.path[-1], str) and not isinstance(place.value, dict | list):
        text = json.dumps(place.value, ensure_ascii=False)
        yield Change("yaml", f"{text}, {json.dumps(place.path[-1])}: {text}")


def _bad_name(place: Place) -> Iterator[Change]:
    if place.path == ("metadata", "name"):
        yield from (Change("set", value) for value in NAMES)


def _odd_label(place: Place) -> Iterator[Change]:
    if place.path and place.path[-1] in _LABELLED and isinstance(place.value, dict):
        yield from (Change("set", "x", key) for key in KEYS)
        yield from (Change("set", value, "a") for value in VALUES)


def _number_for_text(place: Place) -> Iterator[Change]:
    if isinstance(place.value, str) and "integer" not in place.types:
        yield from (Change("yaml", text) for text in ("7", "yes", "1.5", "2026-01-01"))


def _other_order(place: Place) -> Iterator[Change]:
    if isinstance(place.value, dict) and len(place.value) > 1:
        yield Change("reverse")


Mutation = Callable[[Place], Iterator[Change]]
NAMED = "an odd name"
MUTATIONS: Mapping[str, Mutation] = {
    "a required field is missing": _missing,
    "an optional field is left out": _left_out,
    "an unknown field": _unknown,
    "a field in the wrong case": _misspelt,
    "wrong type": _wrong_type,
    "null": _null,
    "empty": _empty,
    "not in the enum": _not_in_enum,
    "a number at the edge": _out_of_range,
    "no whole number": _not_whole,
    "another way to write a number": _other_number,
    "a bad quantity": _bad_quantity,
    "another quantity": _other_quantity,
    "against the pattern": _bad_pattern,
    "too long or too many": _wrong_size,
    "an item twice": _again,
    "a key twice": _key_twice,
    NAMED: _bad_name,
    "an odd label": _odd_label,
    "text without quotes": _number_for_text,
    "another order of keys": _other_order,
}
"""Name → all changes of that sort at a place."""
