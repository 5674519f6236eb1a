"""Custom kinds: CustomResourceDefinitions → one self-contained, strict JSON Schema per served version.

What the API server does with a custom resource, in its order (k8s.io/apiextensions-apiserver v0.34.2, pkg/apiserver):
fields outside the structural schema are unknown (schema/pruning/algorithm.go), nulls that are not `nullable` vanish
from objects (schema/defaulting/prunenulls.go), defaults fill in what is absent (schema/defaulting/algorithm.go), and
only then the values are validated. So a property with a default is never missing, and null is wrong only where it is
the item of a list or stands for a required property.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from generator.errors import EngineError, Problem
from generator.schemas.applied import MAP_TYPE
from generator.schemas.defaulted import as_written
from generator.schemas.formats import Schema, demands
from generator.schemas.kind import Kind, document, reference
from generator.schemas.lists import list_demands
from generator.schemas.names import named
from generator.schemas.nulls import NULLABLE
from generator.schemas.observed import shape
from generator.schemas.openapi import BuiltIns
from generator.schemas.repeats import share_repeats
from generator.schemas.transitions import KEYWORD as TRANSITIONS
from generator.schemas.transitions import transition_rules

_METADATA = "meta.v1.ObjectMeta"
_LIMITS = {"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
_KEPT = _LIMITS | {"default", "enum", NULLABLE}
_CHOICES = {"anyOf", "oneOf"}
_READ = {"type", "format", "pattern", "properties", "required", "items", "additionalProperties", *_CHOICES}
_PROSE = {"description", "title", "example", "externalDocs"}
_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_LISTS = {"x-kubernetes-list-type", "x-kubernetes-list-map-keys"}
# Of the rules in CEL only transition rules are kept.
_ELSEWHERE = {MAP_TYPE, TRANSITIONS}
_KNOWN = _KEPT | _READ | _PROSE | _LISTS | _ELSEWHERE | {_INT_OR_STRING, _PRESERVE}


def custom_kinds(files: Iterable[Path], built_ins: BuiltIns) -> list[Kind]:
    """Every served version of every CustomResourceDefinition in files.

    Raises:
        EngineError: a definition uses a keyword that we do not know.
    """
    found: list[Kind] = []
    for file in files:
        for definition in yaml.load_all(file.read_bytes(), yaml.CSafeLoader):
            if definition["kind"] == "CustomResourceDefinition":
                spec = definition["spec"]
                found += [_kind(spec, version, built_ins) for version in spec["versions"] if version["served"]]
    return found


def _kind(spec: Mapping[str, Any], version: Mapping[str, Any], built_ins: BuiltIns) -> Kind:
    group, names, name = spec["group"], spec["names"], version["name"]
    root = node(as_written(group, names["kind"], version["schema"]["openAPIV3Schema"]))
    required = set(root.get("required", ()))
    if "status" in version.get("subresources", {}):
        root["properties"]["status"] = shape(root["properties"]["status"])
        required.discard("status")
    properties, definitions = share_repeats(root["properties"])
    properties["metadata"] = named(group, names["kind"], reference(_METADATA))
    definitions |= built_ins.definitions(properties["metadata"])
    struct = {
        "properties": properties,
        "required": required,
        **{key: root[key] for key in (TRANSITIONS,) if key in root},
    }
    schema = document(f"{group}/{name}", names["kind"], struct, definitions)
    return Kind(group, name, names["kind"], names["plural"], spec["scope"], schema)


def node(upstream: Schema, *, is_nullable: bool = False) -> Schema:
    """One node of a structural schema as JSON Schema.

    Args:
        upstream: the node, as in a CustomResourceDefinition.
        is_nullable: whether the server takes null here although the node does not say `nullable`.

    Raises:
        EngineError: the node uses a keyword that we do not know.
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
        result |= list_demands(upstream, upstream["items"].get("properties", {}))
    elif "object" in kinds:
        result |= _fields(upstream)
    elif kinds and "array" not in kinds:
        result |= _within(result, demands(kinds[0], upstream.get("format", "")))
    return _typed(result, kinds, is_nullable=is_nullable or upstream.get(NULLABLE, False))


def _fields(upstream: Schema) -> Schema:
    """The fields of an object. One that names none and does not preserve unknown ones has none."""
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
    """Which of several fields must be there: exactly one of them, or at least one."""
    return {
        keyword: [{"required": branch["required"]} for branch in upstream[keyword]]
        for keyword in sorted(_CHOICES & set(upstream))
    }


def _is_choice(branches: list[Schema]) -> bool:
    """Whether each branch says no more than that one field is there."""
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
    """The range of a number's format, narrowed by its own limits; other demands as they are."""
    narrowed = dict(demanded)
    for keyword, narrower in (("minimum", max), ("maximum", min)):
        if keyword in limits and keyword in demanded:
            narrowed[keyword] = narrower(limits[keyword], demanded[keyword])
    return narrowed


def _portable(pattern: str) -> str:
    r"""A Go pattern that means the same to every engine: `(?i)` in mid-pattern and `\PC` are Go's alone.

    One deviation: what `\PC` shuts out are here control characters only, not all that is invisible.
    """
    pattern = pattern.replace(r"\PC", r"[^\x00-\x1f\x7f-\x9f]")
    before, ignore_case, after = pattern.partition("(?i)")
    if not ignore_case:
        return pattern
    if re.search("[a-zA-Z]", after.replace("a-z", "")):
        raise EngineError((Problem(f"the pattern `{pattern}` ignores case", "teach generator/schemas/crd.py"),))
    return before + after.replace("a-z", "a-zA-Z")


def _refuse_unknown(upstream: Schema) -> None:
    unknown = sorted(set(upstream) - _KNOWN)
    if _INT_OR_STRING not in upstream:
        unknown += [keyword for keyword in sorted(_CHOICES & set(upstream)) if not _is_choice(upstream[keyword])]
    if unknown:
        raise EngineError((Problem(f"a CRD uses {', '.join(unknown)}", "teach generator/schemas/crd.py"),))
