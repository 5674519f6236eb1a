"""Kubernetes' own kinds: OpenAPI v3 documents → one self-contained, strict JSON Schema per kind.

The API server reads built-in kinds with Go's strict JSON decoder (sigs.k8s.io/json): a field that the Go struct lacks
is an error, and null reads as the zero value, so it is accepted wherever the zero value is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generator.errors import EngineError, Problem
from generator.schemas.enforced import KINDS, TYPES
from generator.schemas.enums import read_enums
from generator.schemas.formats import MICRO_TIME, QUANTITY, TIME, Schema, demands
from generator.schemas.kind import Kind, document, reference, references
from generator.schemas.lenient import NOT_ENFORCED
from generator.schemas.lists import list_demands
from generator.schemas.names import named
from generator.schemas.narrow import obeying
from generator.schemas.observed import SUFFIX, shape

# Types that read themselves (`UnmarshalJSON`), and what they take. What lies below a JSONSchemaPropsOr… is read without
# strictness: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/marshal.go.
_SELF_READING: dict[str, Schema] = {
    "api.resource.Quantity": {"type": ["string", "number", "null"], "pattern": QUANTITY},
    "util.intstr.IntOrString": {"type": ["integer", "string", "null"], **demands("integer", "int32")},
    "meta.v1.Time": {"type": ["string", "null"], "pattern": TIME},
    "meta.v1.MicroTime": {"type": ["string", "null"], "pattern": MICRO_TIME},
    "meta.v1.FieldsV1": {"type": ["object", "null"]},
    "pkg.runtime.RawExtension": {"type": ["object", "null"]},
    "apiextensions.v1.JSON": {},
    "apiextensions.v1.JSONSchemaPropsOrArray": {"type": ["object", "array", "null"]},
    "apiextensions.v1.JSONSchemaPropsOrBool": {"type": ["object", "boolean", "null"]},
    "apiextensions.v1.JSONSchemaPropsOrStringArray": {"type": ["object", "array", "null"]},
}


class BuiltIns:
    """The kinds of one Kubernetes release."""

    def __init__(self, module: Path, folder: str) -> None:
        """Read the documents of `folder` and the allowed values beside them.

        Raises:
            EngineError: two types go by one name.
        """
        self._types: dict[str, Schema] = {}
        self._paths: dict[str, Any] = {}
        for file in sorted((module / folder).glob("api*__*_openapi.json")):
            read = json.loads(file.read_bytes())
            self._paths.update(read["paths"])
            for name, schema in read["components"]["schemas"].items():
                if self._types.setdefault(_short(name), schema) != schema:
                    raise EngineError((Problem(f"{file.name} has another {name} than the files before it"),))
        self._enums = {(_short(name), field): values for (name, field), values in read_enums(module).items()}

    def kinds(self) -> list[Kind]:
        """Every kind that can be created, in all its versions."""
        tops = {
            (gvk["group"], gvk["version"], gvk["kind"]): name
            for name, schema in self._types.items()
            for gvk in schema.get("x-kubernetes-group-version-kind", ())
        }
        return [self._kind(tops, path, create) for path, create in self._creations()]

    def definitions(self, node: Schema) -> Schema:
        """All definitions that a schema needs, and that these need in turn."""
        found: Schema = {}
        wanted = list(references(node))
        while wanted:
            name = wanted.pop()
            if name not in found:
                found[name] = self._definition(name)
                wanted.extend(references(found[name]))
        return found

    def _creations(self) -> Iterator[tuple[str, Any]]:
        """The paths at which whole objects are created (subresources lie below a name), and the operations."""
        for path, operations in sorted(self._paths.items()):
            if "post" in operations and "{name}" not in path:
                yield path, operations["post"]

    def _kind(self, tops: dict[tuple[str, str, str], str], path: str, create: Any) -> Kind:
        gvk = create["x-kubernetes-group-version-kind"]
        group, version, name = gvk["group"], gvk["version"], gvk["kind"]
        struct = obeying(self._struct(tops[group, version, name]), KINDS.get((group, name), {}))
        properties = struct["properties"]
        if "status" in properties:
            properties["status"] = shape(properties["status"])
        if "metadata" in properties:
            properties["metadata"] = named(group, name, properties["metadata"])
        struct["required"] = set(struct.get("required", ())) - {"status"}
        schema = document(f"{group}/{version}" if group else version, name, struct, self.definitions(properties))
        scope = "Namespaced" if "{namespace}" in path else "Cluster"
        return Kind(group, version, name, path.rpartition("/")[2], scope, schema)

    def _definition(self, name: str) -> Schema:
        if name.endswith(SUFFIX):
            return shape(self._definition(name.removesuffix(SUFFIX)))
        if name in _SELF_READING:
            return _SELF_READING[name]
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
        return obeying(struct, TYPES.get(name, {}))

    def _field(self, name: str, field: str, schema: Schema, *, is_optional: bool) -> Schema:
        node = self._node(schema, is_nullable=is_optional)
        values = self._enums.get((name, field))
        if values and "items" in node:
            node["items"] = {"type": "string", "enum": values}
        elif values:
            # An absent value reads as the empty string, which the server replaces by the default or takes for "unset".
            node["enum"] = list(dict.fromkeys([*values, "", None])) if is_optional else values
        if schema.get("default"):  # kube-openapi writes the zero value wherever Go has one: those say nothing
            node["default"] = schema["default"]
        return node

    def _node(self, schema: Schema, *, is_nullable: bool) -> Schema:
        target = _target(schema)
        if target:
            return reference(target) if is_nullable else self._not_null(target)
        kind = schema["type"]
        node: Schema = {"type": [kind, "null"] if is_nullable else kind}
        if kind not in ("array", "object"):
            node |= demands(kind, schema.get("format", ""))
        for keyword in ("items", "additionalProperties"):
            if keyword in schema:
                node[keyword] = self._node(schema[keyword], is_nullable=self._may_be_zero(schema[keyword]))
        if "items" in schema:
            node |= list_demands(schema, self._types.get(_target(schema["items"]), {}).get("properties", {}))
        return node

    def _may_be_zero(self, schema: Schema) -> bool:
        target = _target(schema)
        return not target or target in _SELF_READING or not self._required(target)

    def _required(self, name: str) -> list[str]:
        return sorted(field for field in self._types[name].get("required", ()) if (name, field) not in NOT_ENFORCED)

    def _not_null(self, target: str) -> Schema:
        types = _SELF_READING.get(target, {"type": ["object"]}).get("type", [])
        kept = [kind for kind in types if kind != "null"]
        return {"allOf": [reference(target)], "type": kept if len(kept) > 1 else kept[0]} if kept else reference(target)


def _target(schema: Schema) -> str:
    """The type that a schema points to: OpenAPI 3.0 wraps a reference in `allOf` to give it siblings."""
    pointer = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ())), "")
    return _short(pointer.rpartition("/")[2]) if pointer else ""


def _short(name: str) -> str:
    """`io.k8s.api.core.v1.Pod` → `core.v1.Pod`: unique within a release, and half as long."""
    return ".".join(name.split(".")[-3:])
