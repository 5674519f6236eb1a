"""Built-in kinds: compile OpenAPI v3 documents of Kubernetes into one strict JSON Schema per kind.

The API server reads built-in kinds with Go's strict JSON decoder (sigs.k8s.io/json): a field that the Go struct lacks
is an error, and null reads as the zero value, so null is accepted wherever the zero value is.

The documents have no enums, because hack/update-openapi-spec.sh of k8s.io/kubernetes writes them with
`OpenAPIEnums=false`. API servers since 1.24 publish them (apiserver v0.34.2
pkg/features/kube_features.go OpenAPIEnums); the generated Go source has
the values.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from generator.errors import EngineError, Problem
from generator.facts.api_versions import is_reached
from generator.schemas import patterns
from generator.schemas.json_schema import (
    OBSERVED,
    Kind,
    Schema,
    add_demands,
    find_references,
    list_keywords,
    object_schema,
    observed_shape,
    reference,
)
from generator.schemas.patterns import MICRO_TIME, QUANTITY, TIME, add_name_rules, format_keywords

_SOURCE = "pkg/generated/openapi/zz_generated.openapi.go"
_IMPORT = re.compile(r'\t(\w+) +"([^"]+)"')
_TYPE = re.compile(r'\t\t(?:"([^"]+)"|(\w+)\.(\w+)\{\}\.OpenAPIModelName\(\)): +(schema_\w+)\(ref\),')
"""The name of a type and its function: a text up to 1.34, and a call of the type's method since 1.35."""
_FUNCTION = re.compile(r"func (schema_\w+)\(ref ")
_PROPERTY = re.compile(r'\t{5}"([^"]+)": \{')
_ENUM = re.compile(r"\t+Enum: +\[\]interface\{\}\{(.*)\},")

_SERVED_AS = "x-kubernetes-group-version-kind"
"""The kinds that a document serves of a type. Since 1.37, each document lists only its own ones."""

Enums = dict[tuple[str, str], list[str]]


def read_enums(module: Path) -> Enums:
    """Return (OpenAPI type, property) → allowed values of the property, or of its items if it is a list."""
    with (module / _SOURCE).open(encoding="utf-8") as lines:
        return _parse(lines)


def _parse(lines: Iterable[str]) -> Enums:
    names: dict[str, str] = {}
    packages: dict[str, str] = {}
    enums: Enums = {}
    function = field = ""
    for line in lines:
        if match := _IMPORT.match(line):
            packages[match[1]] = match[2]
        elif match := _TYPE.match(line):
            names[match[4]] = _openapi_name(match[1] or f"{packages[match[2]]}.{match[3]}")
        elif match := _FUNCTION.match(line):
            function = match[1]
        elif match := _PROPERTY.match(line):
            field = match[1]
        elif match := _ENUM.match(line):
            enums[names[function], field] = list(ast.literal_eval(f"[{match[1]}]"))
    return enums


def _openapi_name(go_name: str) -> str:
    """Convert `k8s.io/api/core/v1.Pod` to `io.k8s.api.core.v1.Pod`, as kube-openapi pkg/util `ToRESTFriendlyName`."""
    host, _, rest = go_name.partition("/")
    return ".".join([*reversed(host.split(".")), rest.replace("/", ".")])


# Types with their own `UnmarshalJSON`, and the values that they accept. Fields below a JSONSchemaPropsOr… are not read
# strictly: apiextensions-apiserver v0.34.2 pkg/apis/apiextensions/v1/marshal.go.
_CUSTOM_JSON: dict[str, Schema] = {
    "api.resource.Quantity": {"type": ["string", "number", "null"], "pattern": QUANTITY},
    "util.intstr.IntOrString": {"type": ["integer", "string", "null"], **format_keywords("integer", "int32")},
    "meta.v1.Time": {"type": ["string", "null"], "pattern": TIME},
    "meta.v1.MicroTime": {"type": ["string", "null"], "pattern": MICRO_TIME},
    "meta.v1.FieldsV1": {"type": ["object", "null"]},
    "pkg.runtime.RawExtension": {"type": ["object", "null"]},
    "apiextensions.v1.JSON": {},
    "apiextensions.v1.JSONSchemaPropsOrArray": {"type": ["object", "array", "null"]},
    "apiextensions.v1.JSONSchemaPropsOrBool": {"type": ["object", "boolean", "null"]},
    "apiextensions.v1.JSONSchemaPropsOrStringArray": {"type": ["object", "array", "null"]},
}


class EnforcedRules(NamedTuple):
    """The rules of enforced.yaml.

    Attributes:
        types: OpenAPI type → (first minor, schema to add to it from this minor on); the minor is empty for all.
        kinds: (group, kind) → the schema to add to it.
        optional: (OpenAPI type, field) of each field that the documents require, but the API server does not.
    """

    types: dict[str, tuple[tuple[str, Schema], ...]]
    kinds: dict[tuple[str, str], Schema]
    optional: frozenset[tuple[str, str]]


@cache
def read_enforced_rules() -> EnforcedRules:
    """Read the differences between the OpenAPI documents and the objects that the API server accepts."""
    table = yaml.load(Path(__file__).with_name("enforced.yaml").read_bytes(), yaml.CSafeLoader)
    types: dict[str, tuple[tuple[str, Schema], ...]] = {}
    for row in table["types"]:
        for name in row["types"]:
            types[name] = (*types.get(name, ()), (row.get("since", ""), _expand(row["schema"])))
    return EnforcedRules(
        types,
        {(row["group"], row["kind"]): _expand(row["schema"]) for row in table["kinds"]},
        frozenset((name, field) for row in table["optional"] for name in row["types"] for field in row["fields"]),
    )


def _expand(node: Any) -> Any:
    """Replace the shorthands of enforced.yaml by JSON Schema."""
    match node:
        case list():
            return [_expand(item) for item in node]
        case {"isSet": field}:
            return {"properties": {field: {"not": {"enum": [None, []]}}}, "required": [field]}
        case {"isOneOf": {**values}}:
            return {"properties": {field: {"enum": values[field]} for field in values}, "required": list(values)}
        case {"exactlyOne": fields, **rest}:
            choices = [{"type": "object", **_expand({"isSet": field})} for field in fields]
            return {"oneOf": [*choices, {"type": "null"}], **_expand(rest)}
        case {"pattern": str(name), **rest} if name.startswith("$"):
            return {"pattern": getattr(patterns, name[1:]), **_expand(rest)}
        case dict():
            return {key: _expand(value) for key, value in node.items()}
    return node


class BuiltIns:
    """The built-in kinds of one Kubernetes release."""

    def __init__(self, module: Path, folder: str, minor: str) -> None:
        """Read the OpenAPI documents of `folder`, and the enums of the Go source.

        Args:
            module: the folder of the Go module k8s.io/kubernetes.
            folder: the folder of the documents in the module.
            minor: the version, such as `1.36`.

        Raises:
            EngineError: two documents define the types of one name differently.
        """
        self._minor = minor
        self._types: dict[str, Schema] = {}
        self._paths: dict[str, Any] = {}
        self._served: dict[str, list[dict[str, str]]] = {}
        for file in sorted((module / folder).glob("api*__*_openapi.json")):
            read = json.loads(file.read_bytes())
            self._paths.update(read["paths"])
            for name, described in read["components"]["schemas"].items():
                schema = {key: value for key, value in described.items() if key != _SERVED_AS}
                self._served.setdefault(_short(name), []).extend(described.get(_SERVED_AS, ()))
                if self._types.setdefault(_short(name), schema) != schema:
                    raise EngineError((Problem(f"{file.name} defines {name} differently from an earlier file"),))
        self._enums = {(_short(name), field): values for (name, field), values in read_enums(module).items()}

    def kinds(self) -> list[Kind]:
        """Return every kind that clients can create, in all versions."""
        tops = {
            (gvk["group"], gvk["version"], gvk["kind"]): name for name, gvks in self._served.items() for gvk in gvks
        }
        return [self._kind(tops, path, create) for path, create in self._creations()]

    def definitions(self, node: Schema) -> Schema:
        """Return all definitions that a schema references, directly or indirectly."""
        definitions: Schema = {}
        names = list(find_references(node))
        while names:
            name = names.pop()
            if name not in definitions:
                definitions[name] = self._definition(name)
                names.extend(find_references(definitions[name]))
        return definitions

    def _creations(self) -> Iterator[tuple[str, Any]]:
        """Yield (path, operation) for each URL path that creates an object.

        Skip subresources, such as `pods/{name}/eviction`: their paths contain `{name}`.
        """
        for path, operations in sorted(self._paths.items()):
            if "post" in operations and "{name}" not in path:
                yield path, operations["post"]

    def _kind(self, tops: dict[tuple[str, str, str], str], path: str, create: Any) -> Kind:
        gvk = create[_SERVED_AS]
        group, version, name = gvk["group"], gvk["version"], gvk["kind"]
        struct = add_demands(
            self._struct(tops[group, version, name]), read_enforced_rules().kinds.get((group, name), {})
        )
        properties = struct["properties"]
        if "status" in properties:
            properties["status"] = observed_shape(properties["status"])
        if "metadata" in properties:
            properties["metadata"] = add_name_rules(group, name, properties["metadata"], self._minor)
        struct["required"] = set(struct.get("required", ())) - {"status"}
        schema = object_schema(f"{group}/{version}" if group else version, name, struct, self.definitions(properties))
        scope = "Namespaced" if "{namespace}" in path else "Cluster"
        return Kind(group, version, name, path.rpartition("/")[2], scope, schema)

    def _definition(self, name: str) -> Schema:
        if name.endswith(OBSERVED):
            return observed_shape(self._definition(name.removesuffix(OBSERVED)))
        if name in _CUSTOM_JSON:
            return _CUSTOM_JSON[name]
        return {**self._struct(name), "type": ["object", "null"]}

    def _struct(self, name: str) -> Schema:
        upstream = self._types[name]
        required = self._required(name)
        properties = {
            field: self._field(name, field, schema, is_optional=field not in required)
            for field, schema in upstream.get("properties", {}).items()
        }
        struct: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            struct["required"] = required
        for demand in self._demands(name):
            struct = add_demands(struct, demand)
        return struct

    def _demands(self, name: str) -> Iterator[Schema]:
        """Yield the schemas to add to a type in this minor."""
        for since, demand in read_enforced_rules().types.get(name, ()):
            if not since or is_reached(self._minor, since):
                yield demand

    def _field(self, name: str, field: str, schema: Schema, *, is_optional: bool) -> Schema:
        node = self._node(schema, is_nullable=is_optional)
        values = self._enums.get((name, field))
        if values and "items" in node:
            node["items"] = {"type": "string", "enum": values}
        elif values:
            # Go reads an absent value as the empty string, which means the default or "unset".
            node["enum"] = list(dict.fromkeys([*values, "", None])) if is_optional else values
        if schema.get("default"):  # kube-openapi writes the zero value of every Go type: ignore it
            node["default"] = schema["default"]
        return node

    def _node(self, schema: Schema, *, is_nullable: bool) -> Schema:
        target = _target(schema)
        if target:
            return reference(target) if is_nullable else self._not_null(target)
        kind = schema["type"]
        node: Schema = {"type": [kind, "null"] if is_nullable else kind}
        if kind not in ("array", "object"):
            node |= format_keywords(kind, schema.get("format", ""))
        for keyword in ("items", "additionalProperties"):
            if keyword in schema:
                node[keyword] = self._node(schema[keyword], is_nullable=self._may_be_zero(schema[keyword]))
        if "items" in schema:
            node |= list_keywords(schema, self._types.get(_target(schema["items"]), {}).get("properties", {}))
        return node

    def _may_be_zero(self, schema: Schema) -> bool:
        target = _target(schema)
        enforced = any("required" in demand for demand in self._demands(target))
        return not target or target in _CUSTOM_JSON or not (self._required(target) or enforced)

    def _required(self, name: str) -> list[str]:
        optional = read_enforced_rules().optional
        return sorted(field for field in self._types[name].get("required", ()) if (name, field) not in optional)

    def _not_null(self, target: str) -> Schema:
        types = _CUSTOM_JSON.get(target, {"type": ["object"]}).get("type", [])
        kept = [kind for kind in types if kind != "null"]
        return {"allOf": [reference(target)], "type": kept if len(kept) > 1 else kept[0]} if kept else reference(target)


def _target(schema: Schema) -> str:
    """Return the type that a schema references; OpenAPI 3.0 wraps a reference with siblings in `allOf`."""
    pointer = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ())), "")
    return _short(pointer.rpartition("/")[2]) if pointer else ""


def _short(name: str) -> str:
    """Shorten `io.k8s.api.core.v1.Pod` to `core.v1.Pod`, which is unique within a release."""
    return ".".join(name.split(".")[-3:])
