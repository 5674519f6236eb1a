"""What the API server demands of a scalar beyond its JSON type, in keywords on which every engine agrees.

No `format` is ever written: engines differ on which formats they assert, and kubeconform panics on some.
"""

from __future__ import annotations

from typing import Any

from generator.errors import EngineError, Problem
from generator.schemas.patterns import NETWORK

Schema = dict[str, Any]

# k8s.io/apimachinery pkg/api/resource/quantity.go `UnmarshalJSON` (trims blanks), `parseQuantityString`, suffix.go
# `interpret`. One deviation: the server reads a text without any digit, such as `m`, as zero; we demand a digit.
QUANTITY = r"^ *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)? *$"
# k8s.io/apimachinery pkg/apis/meta/v1/{time,micro_time}.go `UnmarshalJSON`: RFC 3339, the second with six decimals.
_DAY_AND_TIME = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
)
_ZONE = r"(Z|[+-]([01][0-9]|2[0-4]):[0-5][0-9])$"
TIME = rf"{_DAY_AND_TIME}([.,][0-9]+)?{_ZONE}"
MICRO_TIME = rf"{_DAY_AND_TIME}[.,][0-9]{{6}}{_ZONE}"
# Go's encoding/json reads []byte with base64.StdEncoding, which passes over line ends.
BASE64 = (
    r"^[\r\n]*(([A-Za-z0-9+/][\r\n]*){4})*"
    r"(([A-Za-z0-9+/][\r\n]*){2}=[\r\n]*=[\r\n]*|([A-Za-z0-9+/][\r\n]*){3}=[\r\n]*)?$"
)

# What controller-gen writes for a quantity.
CUSTOM_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

MEANINGS = {
    QUANTITY: "a quantity such as 500m, 2 or 16Gi",
    CUSTOM_QUANTITY: "a quantity such as 500m, 2 or 16Gi",
    TIME: "a time such as 2026-01-31T12:00:00Z",
    MICRO_TIME: "a time such as 2026-01-31T12:00:00.000000Z",
    BASE64: "base64",
}

# Of custom resources the server ignores int32 (pkg/apiserver/validation/formats.go), but their controllers, written in
# Go, cannot read what does not fit: we demand it there too.
_RANGES = {
    ("integer", "int32"): {"minimum": -(2**31), "maximum": 2**31 - 1},
    ("integer", "int64"): {"minimum": -(2**63), "maximum": 2**63 - 1},
    # kube-openapi pkg/validation/validate/values.go `IsValueValidAgainstRange`: int64, unless the format says less.
    ("integer", ""): {"minimum": -(2**63), "maximum": 2**63 - 1},
}
# k8s.io/kube-openapi pkg/validation/strfmt/default.go `isCIDR`: as the networks of built-in kinds.
_PATTERNS = {("string", "date-time"): TIME, ("string", "byte"): BASE64, ("string", "cidr"): NETWORK}
_UNCHECKED = {("number", ""), ("number", "double"), ("string", ""), ("string", "password"), ("boolean", "")}
# Of custom resources the server ignores what pkg/apiserver/validation/formats.go does not list.
_UNCHECKED |= {("string", "idn-hostname")}


def demands(kind: str, name: str) -> Schema:
    """The keywords that a `format` of an upstream schema stands for.

    Raises:
        EngineError: a format that we have not yet looked up: the schemas would be laxer than the server.
    """
    if (kind, name) in _RANGES:
        return dict(_RANGES[kind, name])
    if (kind, name) in _PATTERNS:
        return {"pattern": _PATTERNS[kind, name]}
    if (kind, name) in _UNCHECKED:
        return {}
    raise EngineError((Problem(f"upstream uses the format `{name}` of {kind}", "teach generator/schemas/formats.py"),))
