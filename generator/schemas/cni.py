"""Configurations of CNI plugins and device plugins, which stand as JSON in a text of a manifest: schemas of ours.

No upstream publishes schemas of the plugins; each file of cni_schemas says in `$comment` what it was read from. They
are strict: a plugin ignores a key that it does not know, so nobody reads it. Go reads keys in upper or lower case
alike, and null as nothing (encoding/json Unmarshal), and so do these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.schemas.cni_shapes import DEFINITIONS, MEANINGS, OF_PLUGINS
from generator.schemas.violations import Violation, explain

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator

    from generator.schemas.formats import Schema

FOLDER = Path(__file__).parent / "cni_schemas"
"""<sort>/<name>.json: `plugin` and `ipam` by the `type` that is configured, `whole` by what the text is."""
_TYPED: Mapping[str, Mapping[str, Schema]] = {"plugin": OF_PLUGINS, "ipam": {}}
_TYPE: Schema = {"type": "string", "minLength": 1}


def violations(sort: str, name: str, body: object) -> list[Violation] | None:
    """Every place where a configuration says what nobody reads, or what its reader refuses.

    Args:
        sort: `plugin`, `ipam` or `whole`.
        name: of the plugin, such as `sriov`; of what is whole `list`, `capabilities`, `rdmaSharedDevicePlugin` or
            `sriovDevicePlugin`.
        body: what the JSON says.

    Returns:
        None if there is no schema for it.
    """
    if (sort, name) not in _names():
        return None
    schema, validator = _compiled(sort, name)
    read = as_read(body, schema)
    return [] if validator.is_valid(read) else explain(validator.iter_errors(read), schema, read, MEANINGS)


def as_read(value: Any, schema: Schema) -> Any:
    """A value as Go fills a struct from it: its keys spelled as the schema does, and without null."""
    schema = DEFINITIONS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        spelling = {name.lower(): name for name in fields}
        spelled = {spelling.get(key.lower(), key): child for key, child in value.items() if child is not None}
        return {key: as_read(child, fields.get(key, {})) for key, child in spelled.items()}
    if isinstance(value, list):
        return [as_read(child, schema.get("items", {})) for child in value]
    return value


@cache
def _names() -> frozenset[tuple[str, str]]:
    return frozenset((file.parent.name, file.stem) for file in FOLDER.glob("*/*.json"))


@cache
def _compiled(sort: str, name: str) -> tuple[Schema, Draft7Validator]:
    from jsonschema_rs import Draft7Validator, RegexOptions  # costs 30 ms, as in generator.schemas.embedded

    schema: Schema = json.loads((FOLDER / sort / f"{name}.json").read_bytes())
    if sort in _TYPED:
        schema["properties"] = {"type": _TYPE, **_TYPED[sort], **schema["properties"]}
        schema["required"] = ["type", *schema.get("required", ())]
    schema["definitions"] = DEFINITIONS
    return schema, Draft7Validator(json.dumps(schema), pattern_options=RegexOptions(), offline=True)
