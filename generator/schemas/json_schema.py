"""JSON Schema nodes: build them, narrow them, follow their references, and write them.

Two keywords are not part of JSON Schema. The API server rejects repeated items of a list with
`x-kubernetes-list-type: map` or `set`: in custom resources always (k8s.io/apiextensions-apiserver v0.34.2
pkg/apiserver/schema/listtype/validation.go), in built-in kinds on server-side apply
(sigs.k8s.io/structured-merge-diff v6 typed), and often on other requests too. JSON Schema has no keyword for the keys
of a `map`, so the schemas use `uniqueItemsBy`, which only the embedded engine evaluates.

`nullable` comes from OpenAPI. A create request drops a null that its field does not allow, before validation
(pkg/apiserver/schema/defaulting/prunenulls.go). Server-side apply validates the object with its nulls. Observed with
kube-apiserver v1.34.2 (`dryRun=All`). Both replace the null of a field with a default. In metadata, null means
absent, as in built-in kinds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

_DEFINITIONS = "#/definitions/"
_DRAFT = "http://json-schema.org/draft-07/schema#"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind at one version.

    Attributes:
        group: the API group; empty for the core group.
        version: such as `v1beta2`.
        kind: such as `ClusterQueue`.
        plural: the name of the resource, such as `clusterqueues`.
        scope: `Namespaced` or `Cluster`.
        schema: its JSON Schema (draft 7), self-contained.
    """

    group: str
    version: str
    kind: str
    plural: str
    scope: str
    schema: Schema

    @property
    def api_version(self) -> str:
        """Such as `kueue.x-k8s.io/v1beta2`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The file inside its component's folder, as kubeconform's `{{.Group}}` and its siblings spell it."""
        return f"{self.group or self.version}/{self.kind.lower()}_{self.version}.json"


def object_schema(api_version: str, kind: str, struct: Schema, definitions: Schema) -> Schema:
    """The schema of a whole object: who it says it is, what it holds, and nothing else."""
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


def reference(name: str) -> Schema:
    """A pointer to a definition of the same document."""
    return {"$ref": _DEFINITIONS + name}


def resolve(node: Schema, schema: Schema) -> tuple[str, Schema]:
    """Return the name of the definition that a node points to, empty for none, and the node with that definition."""
    name = ""
    if "$ref" not in node and "allOf" not in node:
        return name, node
    while pointer := node.get("$ref") or next((part["$ref"] for part in node.get("allOf", ()) if "$ref" in part), ""):
        name = pointer.removeprefix(_DEFINITIONS)
        rest = {keyword: value for keyword, value in node.items() if keyword not in ("$ref", "allOf")}
        node = {**schema["definitions"][name], **rest}
    return name, node


def find_references(node: Any) -> Iterator[str]:
    """The names of all definitions that a schema points to."""
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
    """JSON text: keys sorted, small, yet one line per definition so that a new release reads as a diff."""
    definitions = ",\n".join(f"{_json(name)}:{_json(body)}" for name, body in sorted(schema["definitions"].items()))
    rest = {key: value for key, value in schema.items() if key != "definitions"}
    return f'{_json(rest)[:-1]},\n"definitions":{{\n{definitions}\n}}}}\n'


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


NON_EMPTY_STRING: Schema = {"type": "string", "minLength": 1}
NON_EMPTY_LIST: Schema = {"type": "array", "minItems": 1}
EMPTY_LIST: Schema = {"type": ["array", "null"], "maxItems": 0}
ABSENT: Schema = {"enum": [None]}
NOT_EMPTY: Schema = {"minLength": 1}
NON_NEGATIVE: Schema = {"minimum": 0}


def narrow(node: Schema, demand: Mapping[str, Any]) -> Schema:
    """What fits both. A demand on the items or values of a container narrows these."""
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
    """An object's schema with a demand of the form that `fields` and its likes give."""
    result = {**struct, **demand}
    properties = {**struct.get("properties", {})}
    for name, child in demand.get("properties", {}).items():
        properties[name] = narrow(properties[name], child)
    result["properties"] = properties
    required = sorted({*struct.get("required", ()), *demand.get("required", ())})
    return {**result, "required": required} if required else result


def fields(*required: str, **demands: Schema) -> Schema:
    """An object with these fields, of which some must be there."""
    return {"properties": demands, **({"required": list(required)} if required else {})}


def when(condition: Schema, then: Schema, otherwise: Schema | None = None) -> Schema:
    """One demand or the other."""
    return {"if": condition, "then": then, **({"else": otherwise} if otherwise else {})}


def is_one_of(field: str, *values: str) -> Schema:
    """The condition that a field has one of these values."""
    return fields(field, **{field: {"enum": list(values)}})


def is_set(field: str) -> Schema:
    """The condition that a field is there: null and an empty list read as its absence."""
    return fields(field, **{field: {"not": {"enum": [None, []]}}})


def exactly_one(*names: str) -> Schema:
    """One of these fields, and no second one."""
    return {"oneOf": [is_set(name) for name in names]}


def all_of(*demands: Schema) -> Schema:
    """Several demands on one object."""
    return {"allOf": list(demands)}


OBSERVED = ".observed"
_SHAPE = ("$ref", "type", "properties", "items", "additionalProperties")


def observed_shape(schema: Schema) -> Schema:
    """Only the shape of a schema: field names and types, or null. What it refers to becomes the `.observed` twin."""
    if "$ref" in schema.get("allOf", [{}])[0]:  # a reference with demands beyond it
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
