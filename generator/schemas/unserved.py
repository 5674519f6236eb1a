"""Kinds that no API server serves: the audit policy, and mpigen's own lock.

kube-apiserver reads the audit policy from a file at startup. k8s.io/apiserver v0.34.2 and v0.33.4:
pkg/apis/audit/v1/types.go has the fields, pkg/apis/audit/validation/validation.go the values. The server only logs a
line for an unknown field (pkg/audit/policy/reader.go).

The lock of a release lies among manifests and is validated like them. An annotation tells kpt and kustomize that
nothing applies it.
"""

from __future__ import annotations

from generator.facts.versions import Component
from generator.schemas.json_schema import Kind, Schema, object_schema, reference
from generator.schemas.openapi import BuiltIns

_METADATA = "meta.v1.ObjectMeta"
_TEXTS: Schema = {"type": ["array", "null"], "items": {"type": "string"}}
_STAGES: Schema = {
    "type": ["array", "null"],
    "items": {"type": "string", "enum": ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"]},
}
_YES_OR_NO: Schema = {"type": ["boolean", "null"]}
_PATH = r"^(\*|/[^*]*\*?)$"
_GROUP = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$"


def _object(required: list[str], **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


_RESOURCES = _object([], group={"type": ["string", "null"], "pattern": _GROUP}, resources=_TEXTS, resourceNames=_TEXTS)
_RULE = _object(
    ["level"],
    level={"type": "string", "enum": ["None", "Metadata", "Request", "RequestResponse"]},
    users=_TEXTS,
    userGroups=_TEXTS,
    verbs=_TEXTS,
    resources={"type": ["array", "null"], "items": _RESOURCES},
    namespaces=_TEXTS,
    nonResourceURLs={"type": ["array", "null"], "items": {"type": "string", "pattern": _PATH}},
    omitStages=_STAGES,
    omitManagedFields=_YES_OR_NO,
)


def file_kinds(built_ins: BuiltIns) -> list[Kind]:
    """`Policy` of `audit.k8s.io/v1`."""
    struct = _object(
        ["rules"],
        metadata=reference(_METADATA),
        rules={"type": "array", "items": _RULE, "minItems": 1},
        omitStages=_STAGES,
        omitManagedFields=_YES_OR_NO,
    )
    definitions = built_ins.definitions(reference(_METADATA))
    schema = object_schema("audit.k8s.io/v1", "Policy", struct, definitions)
    return [Kind("audit.k8s.io", "v1", "Policy", "policies", "Cluster", schema)]


DIGEST = "^sha256:[0-9a-f]{64}$"

OWN = Component(
    name="mpigen",
    minor="1",
    module="mpigen",
    version="v1",
    sum="",
    folder="generator/schemas/unserved.py",
    source="generator/schemas/unserved.py",
)

_TEXT: Schema = {"type": "string", "minLength": 1}
_DIGEST: Schema = {"type": "string", "pattern": DIGEST}


def _record(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def own_kinds() -> list[Kind]:
    """`Release` of `mpigen.dev/v1`, as `generator.release` writes it."""
    metadata = _record(name=_TEXT, annotations=_map(_TEXT))
    spec = _record(platform=_TEXT, version=_TEXT, inputs=_DIGEST, targets=_map(_TEXT), files=_map(_DIGEST))
    schema = object_schema("mpigen.dev/v1", "Release", _record(metadata=metadata, spec=spec), {})
    return [Kind("mpigen.dev", "v1", "Release", "releases", "Cluster", schema)]
