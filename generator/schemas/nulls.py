"""Nulls in custom resources: a create drops them, a server-side apply refuses the object.

A create prunes a null that its field does not allow before it validates (k8s.io/apiextensions-apiserver v0.34.2
pkg/apiserver/schema/defaulting/prunenulls.go); an apply validates with the nulls still there. Observed with
kube-apiserver v1.34.2 (`dryRun=All`). Where the field has a default, both put that in. Metadata is read like that of
built-in kinds, with null as nothing. A field that its definition calls nullable keeps its null, either way.
"""

from __future__ import annotations

from typing import Any

from generator.schemas.formats import Schema

NULLABLE = "nullable"
"""A keyword of OpenAPI alone, kept in our schemas for this module."""
_BUILT_IN = "meta.v1."


def holds_null(value: Any) -> bool:
    """Whether there is a null anywhere in a body."""
    if isinstance(value, dict):
        return any(map(holds_null, value.values()))
    return any(map(holds_null, value)) if isinstance(value, list) else value is None


def without_null(schema: Schema) -> Schema:
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
