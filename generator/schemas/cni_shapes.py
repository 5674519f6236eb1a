"""What the configurations of CNI plugins have in common: their keys, and the values that have a form, with its name.

github.com/containernetworking/cni v1.3.0: pkg/types/types.go (PluginConf, DNS, route), pkg/utils/utils.go
ValidateNetworkName; addresses as net.ParseIP and net.ParseCIDR read them. Others where a schema says.
"""

from __future__ import annotations

from generator.schemas.formats import Schema
from generator.schemas.patterns import NETWORK

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
        "the name of a resource: letters, digits and inner `-`, `_`, `.`",
    ),
    "resource-name-without-hyphen": (
        "^([A-Za-z0-9][A-Za-z0-9_.]*)?[A-Za-z0-9]$",
        "the name of a resource of this plugin: letters, digits and inner `_`, `.`, and no hyphen",
    ),
}
MEANINGS = dict(_FORMS.values())
"""Pattern → what fits it."""

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
"""What the schemas refer to."""

OF_PLUGINS: dict[str, Schema] = {
    "cniVersion": {"$ref": "#/definitions/version"},
    "name": {"$ref": "#/definitions/name"},
    "capabilities": {"type": "object", "additionalProperties": {"type": "boolean"}},
    "dns": {"$ref": "#/definitions/dns"},
    **dict.fromkeys(("ipam", "args", "runtimeConfig", "prevResult"), _ANYTHING),
}
"""The keys that every plugin may have, besides `type`."""
