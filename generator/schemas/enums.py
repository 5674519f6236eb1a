"""Allowed values of built-in fields, which the checked-in OpenAPI leaves out but every API server publishes.

hack/update-openapi-spec.sh of k8s.io/kubernetes writes the specification with `OpenAPIEnums=false`; the feature is on
in every release since 1.24 (pkg/features/kube_features.go). The generated Go source has the values.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

_SOURCE = "pkg/generated/openapi/zz_generated.openapi.go"
_TYPE = re.compile(r'\t\t"([^"]+)": +(schema_\w+)\(ref\),')
_FUNCTION = re.compile(r"func (schema_\w+)\(ref ")
_PROPERTY = re.compile(r'\t{5}"([^"]+)": \{')
_ENUM = re.compile(r"\t+Enum: +\[\]interface\{\}\{(.*)\},")

Enums = dict[tuple[str, str], list[str]]


def read_enums(module: Path) -> Enums:
    """(OpenAPI type name, property) → allowed values; of a list, those of its items."""
    with (module / _SOURCE).open(encoding="utf-8") as lines:
        return _parse(lines)


def _parse(lines: Iterable[str]) -> Enums:
    names: dict[str, str] = {}
    found: Enums = {}
    function = field = ""
    for line in lines:
        if match := _TYPE.match(line):
            names[match[2]] = _openapi_name(match[1])
        elif match := _FUNCTION.match(line):
            function = match[1]
        elif match := _PROPERTY.match(line):
            field = match[1]
        elif match := _ENUM.match(line):
            found[names[function], field] = list(ast.literal_eval(f"[{match[1]}]"))
    return found


def _openapi_name(go_name: str) -> str:
    """`k8s.io/api/core/v1.Pod` → `io.k8s.api.core.v1.Pod`, as kube-openapi pkg/util `ToRESTFriendlyName`."""
    host, _, rest = go_name.partition("/")
    return ".".join([*reversed(host.split(".")), rest.replace("/", ".")])
