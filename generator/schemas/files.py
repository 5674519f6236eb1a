"""Kinds that no API server serves, but that it reads from a file when it starts: what it logs.

k8s.io/apiserver v0.34.2 and v0.33.4: pkg/apis/audit/v1/types.go for the fields, pkg/apis/audit/validation/validation.go
for their values, and pkg/audit/policy/reader.go, which says no more than a line in a log of a field that it does not
know.
"""

from __future__ import annotations

from generator.schemas.formats import Schema
from generator.schemas.kind import Kind, document, reference
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
    schema = document("audit.k8s.io/v1", "Policy", struct, definitions)
    return [Kind("audit.k8s.io", "v1", "Policy", "policies", "Cluster", schema)]
