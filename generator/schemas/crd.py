"""Custom kinds: compile the structural schemas of CustomResourceDefinitions into JSON Schemas.

The API server processes a custom resource in this order: it
rejects fields outside the structural schema (apiextensions-apiserver v0.34.2
pkg/apiserver/schema/pruning/algorithm.go), drops nulls of fields that are not
`nullable` (apiextensions-apiserver v0.34.2 pkg/apiserver/schema/defaulting/prunenulls.go), sets defaults
(apiextensions-apiserver v0.34.2
pkg/apiserver/schema/defaulting/algorithm.go), and then validates. So a
property with a default is never missing, and null is wrong only as a list item or as the value of a required property.

Mutating webhooks run before validation, so an object may omit a required field that a webhook sets. But no webhook
sets fields of an object inside another object, such as the JobSet template of a training runtime.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from generator.documents.load import load
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
from generator.schemas.patterns import add_name_rules, format_keywords
from generator.schemas.rules import VALIDATIONS, keep_rules
from generator.schemas.updates import MAP_TYPE

_FILLED_IN: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    # jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.Default; jobset v0.11.1 pkg/webhooks/jobset_webhook.go
    # jobSetWebhook.Default: `failurePolicyRule` and the rule's number
    ("jobset.x-k8s.io", "JobSet"): (("spec", "failurePolicy", "rules", "[]", "name"),),
}
"""(group, kind) → paths of required fields that a mutating webhook sets; `[]` is each item of a list."""


def relax_defaulted_fields(group: str, kind: str, upstream: Schema) -> Schema:
    """Return the structural schema of a kind, in which the fields that mutating webhooks set are optional."""
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
    """Replace long repeated subtrees of `properties` by references. Return the new properties and the definitions."""
    sharer = _Sharer()
    for name, schema in properties.items():
        sharer.count(name, schema)
    return {name: sharer.shared(name, schema) for name, schema in properties.items()}, sharer.definitions


class _Sharer:
    """Counts the parents of each schema, and moves long schemas with several parents to `definitions`.

    Equal schemas count as one, so a schema inside a repeated schema has a single parent and is not moved as well.
    """

    def __init__(self) -> None:
        self.definitions: Schema = {}
        self._uses: Counter[str] = Counter()
        self._names: dict[str, str] = {}

    def count(self, name: str, schema: Schema) -> None:
        """Count one more parent of a schema. At its first parent, count the schemas inside it as well."""
        text = _canonical(schema)
        self._uses[text] += 1
        if self._uses[text] == 1:
            for _, child, _ in _children(schema, name):
                self.count(name, child)

    def shared(self, name: str, schema: Schema) -> Schema:
        """Return a reference to the definition of a long schema with several parents; any other schema itself."""
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
_JUNCTIONS = {"allOf", *_CHOICES, "not"}
_NUMBERS = {"multipleOf", "exclusiveMinimum", "exclusiveMaximum"}
_READ = {"type", "format", "pattern", "properties", "required", "items", "additionalProperties", "uniqueItems"}
_PROSE = {"description", "title", "example", "externalDocs"}
_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_LISTS = {"x-kubernetes-list-type", "x-kubernetes-list-map-keys"}
_HANDLED = {MAP_TYPE, VALIDATIONS}
_KNOWN = _KEPT | _READ | _PROSE | _LISTS | _HANDLED | _JUNCTIONS | _NUMBERS | {_INT_OR_STRING, _PRESERVE, _EMBEDDED}

Definitions = Callable[[Schema], Schema]
"""A function that returns the definitions of built-in types, such as ObjectMeta, that a schema references."""


def custom_kinds(files: Iterable[Path], definitions: Definitions) -> list[Kind]:
    """Return every served version of every CustomResourceDefinition in files.

    Raises:
        EngineError: the schema of a definition has a keyword that mpigen does not know.
    """
    kinds: list[Kind] = []
    for file in files:
        for document in load(file.read_bytes()):
            if document.data and document.data["kind"] == "CustomResourceDefinition":
                spec = document.data["spec"]
                kinds += [compile_kind(spec, version, definitions) for version in spec["versions"] if version["served"]]
    return kinds


def compile_kind(spec: Mapping[str, Any], version: Mapping[str, Any], definitions_of: Definitions) -> Kind:
    """Compile one version of a CustomResourceDefinition.

    Args:
        spec: the `spec` of the definition.
        version: the item of `spec.versions`.
        definitions_of: returns the definitions of built-in types.

    Raises:
        EngineError: the schema has a keyword that mpigen does not know.
    """
    group, names, name = spec["group"], spec["names"], version["name"]
    root = node(relax_defaulted_fields(group, names["kind"], version["schema"]["openAPIV3Schema"]))
    required = set(root.get("required", ()))
    declared = root.get("properties", {})
    if "status" in version.get("subresources", {}) and "status" in declared:
        declared["status"] = observed_shape(declared["status"])
        required.discard("status")
    properties, definitions = share_repeats(declared)
    properties["metadata"] = add_name_rules(group, names["kind"], reference(_METADATA))
    definitions |= definitions_of(properties["metadata"])
    struct = {
        "properties": properties,
        "required": required,
        **{key: root[key] for key in (VALIDATIONS, *sorted(_JUNCTIONS)) if key in root},
    }
    schema = object_schema(f"{group}/{name}", names["kind"], struct, definitions)
    if "additionalProperties" not in root:  # the kind preserves unknown fields
        del schema["additionalProperties"]
    return Kind(group, name, names["kind"], names["plural"], spec["scope"], schema)


def node(upstream: Schema, *, is_nullable: bool = False) -> Schema:
    """Convert a node of a structural schema to JSON Schema.

    Args:
        upstream: the node, as in a CustomResourceDefinition.
        is_nullable: True to accept a null although the node is not `nullable`, because the API server drops it here.

    Raises:
        EngineError: the node uses an unknown keyword.
    """
    _refuse_unknown(upstream)
    kinds = [upstream["type"]] if "type" in upstream else []
    if upstream.get(_INT_OR_STRING):
        kinds = ["integer", "string"]
    result = {keyword: upstream[keyword] for keyword in _KEPT if keyword in upstream}
    if rules := keep_rules(upstream):
        result[VALIDATIONS] = rules
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
    if _INT_OR_STRING not in upstream:
        result |= _junctions(upstream)
    result |= _number_limits(upstream)
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
    if upstream.get(_EMBEDDED):
        result["properties"] = {**_OBJECT_FIELDS, **result.get("properties", {})}
        result["required"] = sorted({*result.get("required", ()), "apiVersion", "kind"})
    others = upstream.get("additionalProperties", upstream.get(_PRESERVE, False))
    if others is not True:
        result["additionalProperties"] = others and node(others, is_nullable=True)
    return result


_OBJECT_FIELDS: Schema = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
"""Fields that an object inside a custom resource has without a declaration."""


def _junctions(upstream: Schema) -> Schema:
    """Convert `allOf`, `anyOf`, `oneOf` and `not`, whose branches only restrict values of declared fields."""
    result: Schema = {}
    for keyword in sorted(_JUNCTIONS & set(upstream)):
        branches = upstream[keyword]
        restrictions = [_restriction(branch, upstream) for branch in ([branches] if keyword == "not" else branches)]
        result[keyword] = restrictions[0] if keyword == "not" else restrictions
    return result


def _restriction(upstream: Schema, declared: Schema) -> Schema:
    """Convert a branch of a junction: the keywords that restrict values, at any depth, without types and defaults.

    Args:
        upstream: the branch.
        declared: the schema of the same value with its properties. A property with a default is never missing.

    Source: apiextensions-apiserver v0.34.2 pkg/apiserver/schema/structural.go NestedValueValidation

    Raises:
        EngineError: the branch uses an unknown keyword.
    """
    _refuse_unknown(upstream)
    result = {keyword: upstream[keyword] for keyword in (*_LIMITS, "enum") if upstream.get(keyword)}
    result |= {keyword: 0 for keyword in _LIMITS if upstream.get(keyword) == 0}
    if "pattern" in upstream:
        result["pattern"] = _portable(upstream["pattern"])
    if kinds := upstream.get("type"):  # int-or-string only: `anyOf: [{type: integer}, {type: string}]`
        result["type"] = kinds
    fields = declared.get("properties", {})
    if required := [name for name in upstream.get("required", ()) if "default" not in fields.get(name, {})]:
        result["required"] = required
    properties = {
        name: _restriction(schema, fields.get(name, {})) for name, schema in upstream.get("properties", {}).items()
    }
    if any(properties.values()):
        result["properties"] = {name: schema for name, schema in properties.items() if schema}
    for keyword in ("items", "additionalProperties"):
        if isinstance(upstream.get(keyword), dict):
            below = declared.get(keyword)
            result[keyword] = _restriction(upstream[keyword], below if isinstance(below, dict) else {})
    return result | _junctions(upstream) | _number_limits(upstream)


def _number_limits(upstream: Schema) -> Schema:
    """Convert `multipleOf`, and the boolean `exclusiveMinimum` and `exclusiveMaximum` of OpenAPI 3.0."""
    result = {"multipleOf": upstream["multipleOf"]} if "multipleOf" in upstream else {}
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if upstream.get(exclusive) and limit in upstream:
            result[exclusive] = upstream[limit]
    return result


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
    r"""Return a Go pattern in a form that Python and JavaScript also support, without `(?i)` and `\PC`.

    One deviation: `\PC` also excludes format and private-use characters, and its replacement only control characters.

    Raises:
        EngineError: the pattern ignores case, and a character class has letters in other forms than `a-z`.
    """
    pattern = pattern.replace(r"\PC", r"[^\x00-\x1f\x7f-\x9f]")
    before, ignores_case, after = pattern.partition("(?i)")
    return before + _TOKEN.sub(_both_cases, after.replace("a-z", "a-zA-Z")) if ignores_case else pattern


_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|[a-zA-Z]")
"""An escape, a character class, or a letter."""


def _both_cases(match: re.Match[str]) -> str:
    """Return a token of a pattern that accepts both cases of a letter.

    Raises:
        EngineError: a character class has letters in other forms than `a-z`.
    """
    token = match[0]
    if len(token) == 1:
        return f"[{token.lower()}{token.upper()}]"
    if token.startswith("[") and re.search("[a-zA-Z]", token.replace("a-zA-Z", "")):
        raise EngineError((Problem(f"the pattern `{token}` ignores case", "support it in generator/schemas/crd.py"),))
    return token


def _refuse_unknown(upstream: Schema) -> None:
    unknown = sorted(set(upstream) - _KNOWN)
    if unknown:
        raise EngineError((Problem(f"a CRD uses {', '.join(unknown)}", "support them in generator/schemas/crd.py"),))
