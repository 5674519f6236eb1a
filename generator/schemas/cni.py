"""JSON Schemas for the configurations of CNI plugins and device plugins, which manifests contain as JSON strings.

No upstream publishes schemas of the plugins; `$comment` in each file of cni_schemas names its source. The schemas are
strict, because a plugin ignores unknown keys. Go matches keys without regard to case and treats null as absent
(encoding/json Unmarshal); so does `read_like_go`.

Shared keys and values: containernetworking/cni v1.3.0 pkg/types/types.go (PluginConf, DNS, route),
containernetworking/cni v1.3.0 pkg/utils/utils.go ValidateNetworkName; addresses as net.ParseIP and net.ParseCIDR read
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.schemas.embedded import Violation, explain
from generator.schemas.json_schema import Schema
from generator.schemas.patterns import NETWORK

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


_OCTET = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_ADDRESS = rf"({_OCTET}\.){{3}}{_OCTET}|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*"
_INNER_NETWORK = NETWORK.removeprefix("^").removesuffix("$")
_FORMS = {
    "address": (f"^({_ADDRESS})?$", "an address such as 192.168.0.1"),
    "network": (NETWORK, "a network such as 10.20.0.0/16 or fd00::/8"),
    "excluded": (f"^({_INNER_NETWORK}|{_ADDRESS})$", "a network such as 192.168.0.0/30, or an address"),
    "range": (
        f"^(({_ADDRESS})-)?{_INNER_NETWORK}$",
        "a network such as 192.168.0.0/24, or a part of one such as 192.168.0.10-192.168.0.90/24",
    ),
    "mac": ("^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$", "a MAC address"),
    "name": ("^[A-Za-z0-9][A-Za-z0-9_.-]*$", "the name of a network: letters, digits and inner `_`, `.`, `-`"),
    "version": (r"^[0-9]+\.[0-9]+\.[0-9]+$", "a version such as 1.0.0"),
    "partition": ("^0[xX][0-9a-fA-F]{1,4}$", "a partition key such as 0x6"),
    "vlan-protocol": (r"^802\.1([qQ]|[aA][dD])$", "802.1q or 802.1ad"),
    "pools": ("^([^,]+(,[^,]+)?)?$", "one pool, or two with a comma between"),
    "pool-type": ("^(([iI][pP]|[cC][iI][dD][rR])[pP][oO][oO][lL])?$", "ippool or cidrpool"),
    "resource-name": (
        "^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$",
        "a resource name: letters, digits and inner `-`, `_` and `.`",
    ),
    "resource-name-without-hyphen": (
        "^([A-Za-z0-9][A-Za-z0-9_.]*)?[A-Za-z0-9]$",
        "a resource name for this plugin: letters, digits and inner `_` and `.`, but no hyphen",
    ),
}
MEANINGS = dict(_FORMS.values())
"""Pattern → the meaning of a string that matches it."""

_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_AMOUNT: Schema = {"type": "integer", "minimum": 0}
_ANYTHING: Schema = {"type": "object"}
_ROUTE: Schema = {
    "type": "object",
    "required": ["dst"],
    "properties": {
        "dst": {"$ref": "#/definitions/network"},
        "gw": {"$ref": "#/definitions/address"},
        **dict.fromkeys(("mtu", "advmss", "priority"), _AMOUNT),
        **{key: {"type": "integer"} for key in ("table", "scope")},
    },
    "additionalProperties": False,
}
_DNS: Schema = {
    "type": "object",
    "properties": {"domain": {"type": "string"}, **dict.fromkeys(("nameservers", "search", "options"), _TEXTS)},
    "additionalProperties": False,
}

DEFINITIONS: dict[str, Schema] = {
    **{name: {"type": "string", "pattern": pattern} for name, (pattern, _) in _FORMS.items()},
    "routes": {"type": "array", "items": _ROUTE},
    "dns": _DNS,
}
"""The definitions that the schemas reference."""

OF_PLUGINS: dict[str, Schema] = {
    "cniVersion": {"$ref": "#/definitions/version"},
    "name": {"$ref": "#/definitions/name"},
    "capabilities": {"type": "object", "additionalProperties": {"type": "boolean"}},
    "dns": {"$ref": "#/definitions/dns"},
    **dict.fromkeys(("ipam", "args", "runtimeConfig", "prevResult"), _ANYTHING),
}
"""The keys that every plugin accepts, besides `type`."""


FOLDER = Path(__file__).parent / "cni_schemas"
"""<sort>/<name>.json. NAME is the `type` of a plugin for the sorts `plugin` and `ipam`, and a document for `whole`."""
_TYPED: Mapping[str, Mapping[str, Schema]] = {"plugin": OF_PLUGINS, "ipam": {}}
_TYPE: Schema = {"type": "string", "minLength": 1}


def find_violations(sort: str, name: str, body: object) -> list[Violation] | None:
    """Return the unknown keys, invalid values and missing keys of a configuration; None if it has no schema.

    Args:
        sort: `plugin`, `ipam` or `whole`.
        name: the plugin, such as `sriov`. For the sort `whole`, the name is `list`, `capabilities`,
            `rdmaSharedDevicePlugin` or `sriovDevicePlugin`.
        body: the value of the JSON text.
    """
    if (sort, name) not in _names():
        return None
    schema, validator = _compiled(sort, name)
    read = read_like_go(body, schema)
    return [] if validator.is_valid(read) else explain(validator.iter_errors(read), schema, read, MEANINGS)


def read_like_go(value: Any, schema: Schema) -> Any:
    """Return a value as Go reads it into a struct: with keys as the schema spells them, and without keys of null."""
    schema = DEFINITIONS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        spelling = {name.lower(): name for name in fields}
        spelled = {spelling.get(key.lower(), key): child for key, child in value.items() if child is not None}
        return {key: read_like_go(child, fields.get(key, {})) for key, child in spelled.items()}
    if isinstance(value, list):
        return [read_like_go(child, schema.get("items", {})) for child in value]
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
