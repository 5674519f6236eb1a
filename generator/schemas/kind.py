"""Kind: one kind at one version with its JSON Schema, and how that schema is laid out and written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from generator.schemas.formats import Schema

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


def document(api_version: str, kind: str, struct: Schema, definitions: Schema) -> Schema:
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


def resolved(node: Schema, schema: Schema) -> tuple[str, Schema]:
    """Return the name of the definition that a node points to, empty for none, and the node with that definition."""
    name = ""
    if "$ref" not in node and "allOf" not in node:
        return name, node
    while pointer := node.get("$ref") or next((part["$ref"] for part in node.get("allOf", ()) if "$ref" in part), ""):
        name = pointer.removeprefix(_DEFINITIONS)
        rest = {keyword: value for keyword, value in node.items() if keyword not in ("$ref", "allOf")}
        node = {**schema["definitions"][name], **rest}
    return name, node


def references(node: Any) -> Iterator[str]:
    """The names of all definitions that a schema points to."""
    if isinstance(node, dict):
        target = node.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(_DEFINITIONS)
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def write_schema(schema: Schema) -> str:
    """JSON text: keys sorted, small, yet one line per definition so that a new release reads as a diff."""
    definitions = ",\n".join(f"{_json(name)}:{_json(body)}" for name, body in sorted(schema["definitions"].items()))
    rest = {key: value for key, value in schema.items() if key != "definitions"}
    return f'{_json(rest)[:-1]},\n"definitions":{{\n{definitions}\n}}}}\n'


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
