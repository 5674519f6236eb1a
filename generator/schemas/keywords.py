"""Keywords beyond JSON Schema that the schemas keep: keys of list items, and fields that may hold null.

The API server rejects repeated items of a list with `x-kubernetes-list-type: map` or `set`: in custom resources always
(k8s.io/apiextensions-apiserver v0.34.2 pkg/apiserver/schema/listtype/validation.go), in built-in kinds on server-side
apply (sigs.k8s.io/structured-merge-diff v6 typed), and often on other requests too. JSON Schema has no keyword for the
keys of a `map`, so the schemas use `uniqueItemsBy`, which only the embedded engine evaluates.

A create request prunes a null that its field does not allow, before validation (pkg/apiserver/schema/defaulting/
prunenulls.go). Server-side apply validates the object with its nulls. Observed with kube-apiserver v1.34.2
(`dryRun=All`). Both replace the null of a field with a default. In metadata, null means absent, as in built-in kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from generator.schemas.json_schema import Schema

UNIQUE_ITEMS_BY = "uniqueItemsBy"
"""Its value: each key with the default of a missing one."""


def list_keywords(upstream: Schema, fields: Schema) -> Schema:
    """What an upstream list demands beyond its items, of which `fields` are the upstream fields."""
    match upstream.get("x-kubernetes-list-type"):
        case "map":
            keys = upstream["x-kubernetes-list-map-keys"]
            return {UNIQUE_ITEMS_BY: {key: fields.get(key, {}).get("default") for key in keys}}
        case "set":
            return {"uniqueItems": True}
    return {}


def find_repeated_items(items: Any, keys: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """The index of each item that has the keys of one before it, and the index of that one."""
    first: dict[tuple[Any, ...], int] = {}
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            values = tuple(item.get(key, default) for key, default in keys.items())
            if not any(isinstance(value, dict | list) for value in values):
                before = first.setdefault(values, index)
                if before != index:
                    yield index, before


class UniqueItemsBy:
    """The keyword, as jsonschema-rs calls it."""

    def __init__(self, _parent: Any, keys: Mapping[str, Any], _path: Any) -> None:
        self._keys = keys

    def validate(self, items: Any) -> None:
        """Raises: ValueError: two items are alike; `repeats` tells which."""
        if any(True for _ in find_repeated_items(items, self._keys)):
            raise ValueError(UNIQUE_ITEMS_BY)


NULLABLE = "nullable"
"""A keyword of OpenAPI alone, kept in our schemas for this module."""
_BUILT_IN = "meta.v1."


def contains_null(value: Any) -> bool:
    """Whether there is a null anywhere in a body."""
    if isinstance(value, dict):
        return any(map(contains_null, value.values()))
    return any(map(contains_null, value)) if isinstance(value, list) else value is None


def reject_nulls(schema: Schema) -> Schema:
    """The schema of a custom kind as a server-side apply reads it."""
    kept = {name: schema["properties"][name] for name in ("metadata", "status") if name in schema["properties"]}
    strict = _strict(schema)
    definitions = {
        name: node if name.startswith(_BUILT_IN) else _strict(node) for name, node in schema["definitions"].items()
    }
    return {**strict, "properties": {**strict["properties"], **kept}, "definitions": definitions}


def _strict(node: Schema) -> Schema:
    result = dict(node)
    for keyword in ("type", "enum"):
        if isinstance(node.get(keyword), list) and not {"default", NULLABLE} & node.keys():
            result[keyword] = [value for value in node[keyword] if value not in (None, "null")]
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), dict):
            result[keyword] = _strict(node[keyword])
    if "properties" in node:
        result["properties"] = {name: _strict(child) for name, child in node["properties"].items()}
    return result
