"""Custom kinds: compile the structural schemas of CustomResourceDefinitions into JSON Schemas.

The API server processes a custom resource in this order (k8s.io/apiextensions-apiserver v0.34.2, pkg/apiserver): it
rejects fields outside the structural schema (schema/pruning/algorithm.go), drops nulls of fields that are not
`nullable` (schema/defaulting/prunenulls.go), sets defaults (schema/defaulting/algorithm.go), and then validates. So a
property with a default is never missing, and null is wrong only as a list item or as the value of a required property.

Mutating webhooks run before validation, so an object may omit a required field that a webhook sets. But no webhook
sets fields of an object inside another object, such as the JobSet template of a training runtime.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from generator.errors import EngineError, Problem
from generator.schemas.json_schema import (
    NULLABLE,
    Kind,
    Schema,
    list_keywords,
    object_schema,
    observed_shape,
    reference,
)
from generator.schemas.openapi import BuiltIns
from generator.schemas.patterns import add_name_rules, format_keywords
from generator.schemas.updates import MAP_TYPE, transition_rules
from generator.schemas.updates import VALIDATIONS as TRANSITIONS

_FILLED_IN: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    # jobset v0.12.0 and v0.11.1 pkg/webhooks/jobset_webhook.go Default: `failurePolicyRule` and the rule's number
    ("jobset.x-k8s.io", "JobSet"): (("spec", "failurePolicy", "rules", "[]", "name"),),
}
"""Group and kind → paths of fields; `[]` is each item of a list."""


def relax_defaulted_fields(group: str, kind: str, upstream: Schema) -> Schema:
    """Return a kind's structural schema, which no longer requires the fields that mutating webhooks set."""
    paths = _FILLED_IN.get((group, kind), ())
    schema = deepcopy(upstream) if paths else upstream
    for *parents, field in paths:
        node: Any = schema
        for step in parents:
            node = node["items"] if step == "[]" else node["properties"][step]
        node["required"].remove(field)
    return schema


_WORTH_SHARING = 160  # characters; a reference costs about 40


def share_repeats(properties: Schema) -> tuple[Schema, Schema]:
    """Replace repeated subtrees of `properties` by references; return the new properties and the definitions."""
    sharer = _Sharer()
    for name, schema in properties.items():
        sharer.count(name, schema)
    return {name: sharer.shared(name, schema) for name, schema in properties.items()}, sharer.definitions


class _Sharer:
    """A counter of the parents of each schema, which shares a repeated schema, but not each schema inside it."""

    def __init__(self) -> None:
        self.definitions: Schema = {}
        self._uses: Counter[str] = Counter()
        self._names: dict[str, str] = {}

    def count(self, name: str, schema: Schema) -> None:
        text = _canonical(schema)
        self._uses[text] += 1
        if self._uses[text] == 1:
            for _, child, _ in _children(schema, name):
                self.count(name, child)

    def shared(self, name: str, schema: Schema) -> Schema:
        text = _canonical(schema)
        if self._uses[text] < 2 or len(text) < _WORTH_SHARING:  # noqa: PLR2004
            return self._with_shared_children(name, schema)
        if text not in self._names:
            self._names[text] = self._free_name(name)
            self.definitions[self._names[text]] = {}  # reserves the name before the children get theirs
            self.definitions[self._names[text]] = self._with_shared_children(name, schema)
        return reference(self._names[text])

    def _with_shared_children(self, name: str, schema: Schema) -> Schema:
        result = {**schema, **({"properties": dict(schema["properties"])} if "properties" in schema else {})}
        for keyword, child, child_name in _children(schema, name):
            holder = result["properties"] if keyword == "properties" else result
            holder[child_name if keyword == "properties" else keyword] = self.shared(child_name, child)
        return result

    def _free_name(self, name: str) -> str:
        number = 2
        free = name
        while free in self.definitions:
            free, number = f"{name}.{number}", number + 1
        return free


def _children(schema: Schema, name: str) -> Iterator[tuple[str, Schema, str]]:
    """Yield (keyword, child, name) for each schema inside a schema. The items of a list get the name of the list."""
    for child_name, child in sorted(schema.get("properties", {}).items()):
        yield "properties", child, child_name
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield keyword, schema[keyword], name


def _canonical(schema: Schema) -> str:
    return json.dumps(schema, sort_keys=True, separators=(",", ":"))


_METADATA = "meta.v1.ObjectMeta"
_LIMITS = {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
_KEPT = _LIMITS | {"default", "enum", NULLABLE}
_CHOICES = {"anyOf", "oneOf"}
_READ = {"type", "format", "pattern", "properties", "required", "items", "additionalProperties", *_CHOICES}
_PROSE = {"description", "title", "example", "externalDocs"}
_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_LISTS = {"x-kubernetes-list-type", "x-kubernetes-list-map-keys"}
# Of the CEL rules, only transition rules are kept.
_HANDLED = {MAP_TYPE, TRANSITIONS}
_KNOWN = _KEPT | _READ | _PROSE | _LISTS | _HANDLED | {_INT_OR_STRING, _PRESERVE}


def custom_kinds(files: Iterable[Path], built_ins: BuiltIns) -> list[Kind]:
    """Return every served version of every CustomResourceDefinition in files.

    Raises:
        EngineError: a definition uses an unknown keyword.
    """
    kinds: list[Kind] = []
    for file in files:
        for definition in yaml.load_all(file.read_bytes(), yaml.CSafeLoader):
            if definition["kind"] == "CustomResourceDefinition":
                spec = definition["spec"]
                kinds += [_kind(spec, version, built_ins) for version in spec["versions"] if version["served"]]
    return kinds


def _kind(spec: Mapping[str, Any], version: Mapping[str, Any], built_ins: BuiltIns) -> Kind:
    group, names, name = spec["group"], spec["names"], version["name"]
    root = node(relax_defaulted_fields(group, names["kind"], version["schema"]["openAPIV3Schema"]))
    required = set(root.get("required", ()))
    if "status" in version.get("subresources", {}):
        root["properties"]["status"] = observed_shape(root["properties"]["status"])
        required.discard("status")
    properties, definitions = share_repeats(root["properties"])
    properties["metadata"] = add_name_rules(group, names["kind"], reference(_METADATA))
    definitions |= built_ins.definitions(properties["metadata"])
    struct = {
        "properties": properties,
        "required": required,
        **{key: root[key] for key in (TRANSITIONS,) if key in root},
    }
    schema = object_schema(f"{group}/{name}", names["kind"], struct, definitions)
    return Kind(group, name, names["kind"], names["plural"], spec["scope"], schema)


def node(upstream: Schema, *, is_nullable: bool = False) -> Schema:
    """Convert a node of a structural schema to JSON Schema.

    Args:
        upstream: the node, as in a CustomResourceDefinition.
        is_nullable: True if the API server drops a null at this place although the node is not `nullable`.

    Raises:
        EngineError: the node uses an unknown keyword.
    """
    _refuse_unknown(upstream)
    kinds = [upstream["type"]] if "type" in upstream else []
    if upstream.get(_INT_OR_STRING):
        kinds = ["integer", "string"]
    result = {keyword: upstream[keyword] for keyword in _KEPT if keyword in upstream}
    if rules := transition_rules(upstream):
        result[TRANSITIONS] = rules
    if upstream.get(MAP_TYPE) == "atomic":  # a mapping that is replaced as a whole
        result[MAP_TYPE] = upstream[MAP_TYPE]
    if "pattern" in upstream:
        result["pattern"] = _portable(upstream["pattern"])
    if "items" in upstream:
        result["items"] = node(upstream["items"], is_nullable="default" in upstream["items"])
        result |= list_keywords(upstream, upstream["items"].get("properties", {}))
    elif "object" in kinds:
        result |= _fields(upstream)
    elif kinds and "array" not in kinds:
        result |= _within(result, format_keywords(kinds[0], upstream.get("format", "")))
    return _typed(result, kinds, is_nullable=is_nullable or upstream.get(NULLABLE, False))


def _fields(upstream: Schema) -> Schema:
    """Convert the fields of an object. Unknown fields are an error unless the object preserves them."""
    properties = upstream.get("properties", {})
    required = [name for name in upstream.get("required", ()) if "default" not in properties.get(name, {})]
    result: Schema = {"required": sorted(required)} if required else {}
    if properties:
        result["properties"] = {
            name: node(schema, is_nullable=name not in required) for name, schema in properties.items()
        }
    others = upstream.get("additionalProperties", upstream.get(_PRESERVE, False))
    if others is not True:
        result["additionalProperties"] = others and node(others, is_nullable=True)
    return result | _choices(upstream)


def _choices(upstream: Schema) -> Schema:
    """Convert `oneOf` or `anyOf` over required fields: exactly one of these fields, or at least one."""
    return {
        keyword: [{"required": branch["required"]} for branch in upstream[keyword]]
        for keyword in sorted(_CHOICES & set(upstream))
    }


def _is_choice(branches: list[Schema]) -> bool:
    """Return True if each branch only requires fields."""
    return all(
        branch == {"properties": {name: {} for name in branch.get("required", ())}, "required": branch.get("required")}
        for branch in branches
    )


def _typed(result: Schema, kinds: list[str], *, is_nullable: bool) -> Schema:
    if kinds:
        allowed = [*kinds, "null"] if is_nullable else kinds
        result["type"] = allowed if len(allowed) > 1 else allowed[0]
    if is_nullable and "enum" in result:
        result["enum"] = [*result["enum"], None]
    return result


def _within(limits: Schema, demanded: Schema) -> Schema:
    """Narrow the range of a number's format by the `minimum` and `maximum` of the node."""
    narrowed = dict(demanded)
    for keyword, narrower in (("minimum", max), ("maximum", min)):
        if keyword in limits and keyword in demanded:
            narrowed[keyword] = narrower(limits[keyword], demanded[keyword])
    return narrowed


def _portable(pattern: str) -> str:
    r"""Return a Go pattern in a form that all engines support: only Go supports `(?i)` in mid-pattern and `\PC`.

    One deviation: `\PC` excludes all invisible characters, and its replacement only control characters.
    """
    pattern = pattern.replace(r"\PC", r"[^\x00-\x1f\x7f-\x9f]")
    before, ignore_case, after = pattern.partition("(?i)")
    if not ignore_case:
        return pattern
    if re.search("[a-zA-Z]", after.replace("a-z", "")):
        raise EngineError((Problem(f"the pattern `{pattern}` ignores case", "support it in generator/schemas/crd.py"),))
    return before + after.replace("a-z", "a-zA-Z")


def _refuse_unknown(upstream: Schema) -> None:
    unknown = sorted(set(upstream) - _KNOWN)
    if _INT_OR_STRING not in upstream:
        unknown += [keyword for keyword in sorted(_CHOICES & set(upstream)) if not _is_choice(upstream[keyword])]
    if unknown:
        raise EngineError((Problem(f"a CRD uses {', '.join(unknown)}", "support them in generator/schemas/crd.py"),))
