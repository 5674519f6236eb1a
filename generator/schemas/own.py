"""The one kind of our own: the lock of a release, which lies among manifests and is judged like them.

Nothing is meant to apply it: it carries the annotation by which kpt and kustomize know an object for a local one.
"""

from __future__ import annotations

from generator.facts.versions import Component
from generator.schemas.formats import Schema
from generator.schemas.kind import Kind, document

DIGEST = "^sha256:[0-9a-f]{64}$"

OWN = Component(
    name="mpigen",
    minor="1",
    module="mpigen",
    version="v1",
    sum="",
    folder="generator/schemas/own.py",
    source="generator/schemas/own.py",
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
    schema = document("mpigen.dev/v1", "Release", _record(metadata=metadata, spec=spec), {})
    return [Kind("mpigen.dev", "v1", "Release", "releases", "Cluster", schema)]
