"""JSON Schemas of Kueue's configuration, which a ConfigMap contains as YAML. No upstream publishes them.

Source: kueue v0.19.2 pkg/config/config.go fromFile: the decoder is strict, and distinguishes the case of keys
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from generator.schemas.embedded import Violation, explain
from generator.schemas.json_schema import Schema
from generator.schemas.patterns import QUANTITY

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator

GROUP = "config.kueue.x-k8s.io"
VERSIONS = ("v1beta1", "v1beta2")
_DURATION = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
_MEANINGS = {_DURATION: "a duration of Go, such as 30m or 1h30m"}
_TYPES: dict[str, Schema] = {
    "duration": {"type": ["string", "null"], "pattern": _DURATION},
    "quantity": {"type": ["string", "number", "null"], "pattern": QUANTITY},
    "+integer": {"type": ["integer", "null"], "minimum": 0},
}


def find_violations(version: str, body: object) -> list[Violation]:
    """Return the unknown fields and invalid values of a configuration.

    Args:
        version: one of `VERSIONS`.
        body: the document in the ConfigMap.
    """
    schema, validator = _compile(version)
    return [] if validator.is_valid(body) else explain(validator.iter_errors(body), schema, body, _MEANINGS)


@cache
def _compile(version: str) -> tuple[Schema, Draft7Validator]:
    from jsonschema_rs import Draft7Validator, RegexOptions  # costs 30 ms, as in generator.schemas.embedded

    fields = yaml.load(Path(__file__).with_name("kueue_configuration.yaml").read_bytes(), yaml.CSafeLoader)
    schema = _expand(fields, version)
    return schema, Draft7Validator(json.dumps(schema), pattern_options=RegexOptions(), offline=True)


def _expand(node: Any, version: str) -> Schema:
    """Return the JSON Schema of a field. Null counts as absent."""
    match node:
        case [item]:
            return {"type": ["array", "null"], "items": _expand(item, version)}
        case {"*": value}:
            return {"type": ["object", "null"], "additionalProperties": _expand(value, version)}
        case dict():
            rows = [(str(name).partition("@"), child) for name, child in node.items()]
            properties = {name: _expand(child, version) for (name, _, only), child in rows if only in ("", version)}
            return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
    if node in _TYPES:
        return _TYPES[node]
    if "|" in node or node[0].isupper():
        return {"enum": [*node.split("|"), None]}
    return {"type": [node, "null"]}
