"""Status: what the server observes and writes. Of a status in a manifest only the shape is judged, never the values.

On create the server empties it before it validates: for custom resources with a status subresource
k8s.io/apiextensions-apiserver pkg/registry/customresource/strategy.go `PrepareForCreate`, for built-in kinds theirs.
"""

from __future__ import annotations

from typing import Any

from generator.schemas.formats import Schema

SUFFIX = ".observed"
_SHAPE = ("$ref", "type", "properties", "items", "additionalProperties")


def shape(schema: Schema) -> Schema:
    """Only the shape of a schema: field names and types, or null. What it refers to becomes the `.observed` twin."""
    if "$ref" in schema.get("allOf", [{}])[0]:  # a reference with demands beyond it
        return shape(schema["allOf"][0])
    return {keyword: _shape_of(keyword, schema[keyword]) for keyword in _SHAPE if keyword in schema}


def _shape_of(keyword: str, value: Any) -> Any:
    if keyword == "$ref":
        return value + SUFFIX
    if keyword == "type":
        return [*([value] if isinstance(value, str) else value), *([] if "null" in value else ["null"])]
    if keyword == "properties":
        return {name: shape(child) for name, child in value.items()}
    return shape(value) if isinstance(value, dict) else value
