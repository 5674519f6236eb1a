"""Narrow: a schema with what is demanded beyond it, and the forms in which demands are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generator.schemas.formats import Schema

TEXT: Schema = {"type": "string", "minLength": 1}
SOME: Schema = {"type": "array", "minItems": 1}
NONE: Schema = {"type": ["array", "null"], "maxItems": 0}
ABSENT: Schema = {"enum": [None]}
NOT_EMPTY: Schema = {"minLength": 1}
COUNT: Schema = {"minimum": 0}


def narrowed(node: Schema, demand: Mapping[str, Any]) -> Schema:
    """What fits both. A demand on the items or values of a container narrows these."""
    if "$ref" in node:
        return {"allOf": [node, dict(demand)]}
    if "allOf" in node:
        return {**node, "allOf": [*node["allOf"], dict(demand)]}
    result = {**node, **demand}
    for keyword in ("items", "additionalProperties"):
        if keyword in demand and isinstance(node.get(keyword), dict):
            result[keyword] = narrowed(node[keyword], demand[keyword])
    return result


def obeying(struct: Schema, demand: Schema) -> Schema:
    """An object's schema with a demand of the form that `fields` and its likes give."""
    result = {**struct, **demand}
    properties = {**struct.get("properties", {})}
    for name, child in demand.get("properties", {}).items():
        properties[name] = narrowed(properties[name], child)
    result["properties"] = properties
    required = sorted({*struct.get("required", ()), *demand.get("required", ())})
    return {**result, "required": required} if required else result


def fields(*required: str, **demands: Schema) -> Schema:
    """An object with these fields, of which some must be there."""
    return {"properties": demands, **({"required": list(required)} if required else {})}


def when(condition: Schema, then: Schema, otherwise: Schema | None = None) -> Schema:
    """One demand or the other."""
    return {"if": condition, "then": then, **({"else": otherwise} if otherwise else {})}


def says(field: str, *values: str) -> Schema:
    """The condition that a field has one of these values."""
    return fields(field, **{field: {"enum": list(values)}})


def has(field: str) -> Schema:
    """The condition that a field is there: null and an empty list read as its absence."""
    return fields(field, **{field: {"not": {"enum": [None, []]}}})


def exactly_one(*names: str) -> Schema:
    """One of these fields, and no second one."""
    return {"oneOf": [has(name) for name in names]}


def all_of(*demands: Schema) -> Schema:
    """Several demands on one object."""
    return {"allOf": list(demands)}
