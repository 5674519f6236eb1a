"""JSON Schema nodes: build them, narrow them, follow their references, and write them.

Two keywords are not part of JSON Schema: `uniqueItemsBy` and `nullable`.

The API server rejects repeated items of a list with `x-kubernetes-list-type: map` or `set`: in custom resources on
every request (apiextensions-apiserver v0.34.2 pkg/apiserver/schema/listtype/validation.go), in built-in kinds on
server-side apply (sigs.k8s.io/structured-merge-diff v6 typed), and often on other requests. JSON Schema has no keyword
for the keys of a `map`, so the schemas use `uniqueItemsBy`, which only the embedded engine evaluates.

`nullable` comes from OpenAPI. A create request drops a null that its field does not allow, before validation
(apiextensions-apiserver v0.34.2 pkg/apiserver/schema/defaulting/prunenulls.go). Server-side apply validates the object
with its nulls. Both requests
replace the null of a field that has a default. Observed with kube-apiserver v1.34.2 (`dryRun=All`). In metadata, null
means absent, as in built-in kinds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from generator.documents.load import Path


Schema = dict[str, Any]

_DEFINITIONS = "#/definitions/"
_DRAFT = "http://json-schema.org/draft-07/schema#"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind at one version: `group` is empty for the core group, `schema` a self-contained JSON Schema (draft 7)."""

    group: str
    version: str
    kind: str
    plural: str
    scope: str
    schema: Schema

    @property
    def api_version(self) -> str:
        """The apiVersion, such as `kueue.x-k8s.io/v1beta2`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The path of the schema in the folder of its component, in the layout of kubeconform (`{{.Group}}/…`)."""
        return f"{self.group or self.version}/{self.kind.lower()}_{self.version}.json"


def object_schema(api_version: str, kind: str, struct: Schema, definitions: Schema) -> Schema:
    """Return the schema of a whole object that has apiVersion, kind and the fields of `struct`, and no others."""
    identity = {"apiVersion": {"type": "string", "const": api_version}, "kind": {"type": "string", "const": kind}}
    return {
        **struct,
        "$schema": _DRAFT,
        "type": "object",
        "properties": {**struct["properties"], **identity},
        "required": sorted({"apiVersion", "kind", *struct.get("required", ())}),
        "additionalProperties": False,
        "definitions": definitions,
    }


def node_of_key(node: Schema, key: str) -> Schema:
    """Return the schema of one key of an object; empty if the schema of the object does not restrict the key."""
    if key in (properties := node.get("properties", {})):
        below: Schema = properties[key]
        return below
    others = node.get("additionalProperties")
    return others if isinstance(others, dict) else {}


def has_field(schema: Schema, path: Path) -> bool:
    """Return True if a schema accepts a field at a path: it names the field, or does not restrict the keys there."""
    node = schema
    for step in path:
        _, node = resolve(node, schema)
        if isinstance(step, int):
            node = node.get("items", {})
        elif step not in node.get("properties", {}) and node.get("additionalProperties") is False:
            return False
        else:
            node = node_of_key(node, step)
    return True


def reference(name: str) -> Schema:
    """Return a reference to a definition of the same document."""
    return {"$ref": _DEFINITIONS + name}


def resolve(node: Schema, schema: Schema) -> tuple[str, Schema]:
    """Return the name of the definition that a node references, or an empty string, and the resolved node."""
    name = ""
    if "$ref" not in node and "allOf" not in node:
        return name, node
    while pointer := node.get("$ref") or next((part["$ref"] for part in node.get("allOf", ()) if "$ref" in part), ""):
        name = pointer.removeprefix(_DEFINITIONS)
        rest = {keyword: value for keyword, value in node.items() if keyword not in ("$ref", "allOf")}
        node = {**schema["definitions"][name], **rest}
    return name, node


def find_references(node: Any) -> Iterator[str]:
    """Yield the names of all definitions that a schema references."""
    if isinstance(node, dict):
        target = node.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(_DEFINITIONS)
        for child in node.values():
            yield from find_references(child)
    elif isinstance(node, list):
        for child in node:
            yield from find_references(child)


def write_schema(schema: Schema) -> str:
    """Return a schema as compact JSON with sorted keys and one line per definition, for readable diffs."""
    definitions = ",\n".join(f"{_json(name)}:{_json(body)}" for name, body in sorted(schema["definitions"].items()))
    rest = {key: value for key, value in schema.items() if key != "definitions"}
    return f'{_json(rest)[:-1]},\n"definitions":{{\n{definitions}\n}}}}\n'


def write_difference(difference: Mapping[str, Any]) -> str:
    """Return the difference of two schemas as compact JSON with sorted keys."""
    return f"{_json(difference)}\n"


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def narrow(node: Schema, demand: Mapping[str, Any]) -> Schema:
    """Add keywords to a schema node. Keywords inside `items` or `additionalProperties` narrow the schema there."""
    if "$ref" in node:
        return {"allOf": [node, dict(demand)]}
    if "allOf" in node:
        return {**node, "allOf": [*node["allOf"], dict(demand)]}
    result = {**node, **demand}
    for keyword in ("items", "additionalProperties"):
        if keyword in demand and isinstance(node.get(keyword), dict):
            result[keyword] = narrow(node[keyword], demand[keyword])
    return result


def add_demands(struct: Schema, demand: Schema) -> Schema:
    """Add keywords to the schema of an object: more required fields, and narrower schemas for its fields."""
    result = {**struct, **demand}
    properties = {**struct.get("properties", {})}
    for name, child in demand.get("properties", {}).items():
        properties[name] = narrow(properties[name], child)
    result["properties"] = properties
    required = sorted({*struct.get("required", ()), *demand.get("required", ())})
    return {**result, "required": required} if required else result


OBSERVED = ".observed"
_SHAPE = ("$ref", "type", "properties", "items", "additionalProperties")


def observed_shape(schema: Schema) -> Schema:
    """Reduce a schema to field names and types, all nullable. References point to the `.observed` copy."""
    if "$ref" in schema.get("allOf", [{}])[0]:  # a reference with keywords beside it
        return observed_shape(schema["allOf"][0])
    return {keyword: _shape_of(keyword, schema[keyword]) for keyword in _SHAPE if keyword in schema}


def _shape_of(keyword: str, value: Any) -> Any:
    if keyword == "$ref":
        return value + OBSERVED
    if keyword == "type":
        return [*([value] if isinstance(value, str) else value), *([] if "null" in value else ["null"])]
    if keyword == "properties":
        return {name: observed_shape(child) for name, child in value.items()}
    return observed_shape(value) if isinstance(value, dict) else value


UNIQUE_ITEMS_BY = "uniqueItemsBy"
"""Keyword of a list → its value: each key field of the items → the default of that field."""


def list_keywords(upstream: Schema, fields: Schema) -> Schema:
    """Return the keywords that forbid repeated items in an upstream list, whose items have these `fields`."""
    match upstream.get("x-kubernetes-list-type"):
        case "map":
            keys = upstream["x-kubernetes-list-map-keys"]
            return {UNIQUE_ITEMS_BY: {key: fields.get(key, {}).get("default") for key in keys}}
        case "set":
            return {"uniqueItems": True}
    return {}


def find_repeated_items(items: Any, keys: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield (index, first index) of each item with the same keys as an earlier item.

    `keys` has each key field with its default. Items with a list or mapping in a key field are ignored.
    """
    first: dict[tuple[Any, ...], int] = {}
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            values = tuple(item.get(key, default) for key, default in keys.items())
            if not any(isinstance(value, dict | list) for value in values):
                before = first.setdefault(values, index)
                if before != index:
                    yield index, before


class UniqueItemsBy:
    """The validator of `uniqueItemsBy` for jsonschema-rs."""

    def __init__(self, _parent: Any, keys: Mapping[str, Any], _path: Any) -> None:
        self._keys = keys

    def validate(self, items: Any) -> None:
        """Raise a `ValueError` if two items have the same keys; `find_repeated_items` finds them."""
        if any(True for _ in find_repeated_items(items, self._keys)):
            raise ValueError(UNIQUE_ITEMS_BY)


NULLABLE = "nullable"
"""A keyword of OpenAPI: True if a field may be null. The schemas keep it for `reject_nulls`."""
_BUILT_IN = "meta.v1."


def contains_null(value: Any) -> bool:
    """Return True if a body contains a null."""
    if isinstance(value, dict):
        return any(map(contains_null, value.values()))
    return any(map(contains_null, value)) if isinstance(value, list) else value is None


def reject_nulls(schema: Schema) -> Schema:
    """Return the schema of a custom kind for server-side apply.

    It rejects null in fields without a default that are not `nullable`, except in `metadata` and `status`.
    """
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
