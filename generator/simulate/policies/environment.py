"""The variables and functions of expressions in policies.

An expression is compiled twice: against the types that Kubernetes declares, and against the types that
cel-expr-python can evaluate.

Source: k8s.io/apiserver v0.34.2 pkg/admission/plugin/cel/compile.go `BuildRequestType`, `BuildNamespaceType`,
`createEnvForOpts`; pkg/cel/environment/base.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.simulate.policies import authorizer, library
from generator.simulate.policies.library import OPTIONS
from generator.simulate.policies.signatures import (
    AUTHORIZER,
    RESOURCE_CHECK,
    Function,
    additions,
    declarations,
    implementations,
)

FUNCTIONS: tuple[Function, ...] = (
    *library.QUANTITY_FUNCTIONS,
    *library.LIST_FUNCTIONS,
    *library.REGEX_FUNCTIONS,
    *library.ADDRESS_FUNCTIONS,
    *library.VERSION_FUNCTIONS,
    *library.FORMAT_FUNCTIONS,
    *library.URL_FUNCTIONS,
    *authorizer.FUNCTIONS,
)


Fields = Mapping[str, Any]
"""Field → its type, or its own fields."""

_REMEMBERED = 64  # environments: the expressions of a policy share a few
EVERYTHING = 99
"""A minor version of Kubernetes with all functions."""
_LIBRARIES = (
    (28, {"name": "optional"}),
    (29, {"name": "strings", "version": 2}),
    (29, {"name": "sets"}),
    (32, {"name": "two-var-comprehensions"}),
    (34, {"name": "lists", "version": 2}),
)
"""Minor version of Kubernetes → the CEL library that it adds."""
_GROUP_KIND = {"group": "string", "version": "string", "kind": "string"}
_GROUP_RESOURCE = {"group": "string", "version": "string", "resource": "string"}
_LABELS = "map<string,string>"
TYPED: Fields = {
    "request": {
        "kind": _GROUP_KIND,
        "resource": _GROUP_RESOURCE,
        "subResource": "string",
        "requestKind": _GROUP_KIND,
        "requestResource": _GROUP_RESOURCE,
        "requestSubResource": "string",
        "name": "string",
        "namespace": "string",
        "operation": "string",
        "userInfo": {
            "username": "string",
            "uid": "string",
            "groups": "list<string>",
            "extra": "map<string,list<string>>",
        },
        "dryRun": "bool",
        "options": "dyn",
    },
    "namespaceObject": {
        "metadata": {
            **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), "string"),
            **dict.fromkeys(("labels", "annotations"), _LABELS),
            **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), "timestamp"),
            **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), "int"),
            "finalizers": "list<string>",
        },
        "spec": {"finalizers": "list<string>"},
        "status": {"conditions": "list<dyn>", "phase": "string"},
    },
    "authorizer": {"requestResource": RESOURCE_CHECK},
}
"""Variables with known fields."""
_NUMBERS = ("int", "uint", "double")
_COMPARISONS = tuple(
    Function(f"_{sign}_", (one, other), "bool", None, 28, is_member=False, is_added=True)
    for sign in ("<", "<=", ">", ">=", "==", "!=")
    for one in _NUMBERS
    for other in _NUMBERS
    if one != other and sign[0] in "<>"
)
"""Comparisons of numbers of different types, which CEL for Python has for dynamic types only."""


def flat_name(path: tuple[str, ...]) -> str:
    """What a field of a known type is called while its expression is compiled: `request.userInfo.groups`."""
    return "__".join(("", *path))


def typed_fields(fields: Fields = TYPED, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the fields with known types."""
    for name, found in fields.items():
        if isinstance(found, str):
            yield (*path, name), found
        else:
            yield from typed_fields(found, (*path, name))


@lru_cache(_REMEMBERED)
def check_environment(
    minor: int, variables: tuple[tuple[str, str], ...], *, has_params: bool, has_authorizer: bool
) -> Any:
    """Return the environment that checks expressions against the types of Kubernetes.

    Args:
        minor: the version of Kubernetes whose functions there are.
        variables: those of the policy: the name that `named` gives, and the text of the type.
        has_params: whether the policy has a paramKind.
        has_authorizer: whether the authorizer may be asked.
    """
    fields = {root: each for root, each in TYPED.items() if root != "authorizer" or has_authorizer}
    known = {flat_name(path): cel.Type(type_) for path, type_ in typed_fields(fields)}
    roots = ("object", "oldObject", "request", "namespaceObject", *(("params",) if has_params else ()))
    config, added = _checked(minor)
    asked = {"authorizer": cel.Type(AUTHORIZER)} if has_authorizer else {}
    dynamic = dict.fromkeys(roots, cel.Type.DYN)
    own = {name: cel.Type(type_) for name, type_ in variables}
    return cel.NewEnv(config=config, variables={**dynamic, **asked, **known, **own}, extensions=[added])


@cache
def _checked(minor: int) -> tuple[Any, Any]:
    functions = [each for each in (*FUNCTIONS, *_COMPARISONS) if each.since <= minor]
    return _config(minor, declarations(functions)), additions(functions)


@cache
def evaluation_environment(names: tuple[str, ...]) -> Any:
    """Return the environment that evaluates expressions, with the flat names of the policy's variables."""
    return _running(names, *_run())


def evaluation_environment_with(functions: Iterable[Function], names: tuple[str, ...]) -> Any:
    """Return the evaluation environment with functions of one expression."""
    config, _ = _run()
    return _running(names, config, implementations((*FUNCTIONS, *OPTIONS, *functions)))


def _running(names: tuple[str, ...], config: Any, library: Any) -> Any:
    roots = ("object", "oldObject", "request", "namespaceObject", "params", "authorizer", *names)
    return cel.NewEnv(config=config, variables=dict.fromkeys(roots, cel.Type.DYN), extensions=[library])


@cache
def _run() -> tuple[Any, Any]:
    return _config(EVERYTHING, []), implementations((*FUNCTIONS, *OPTIONS))


def _config(minor: int, functions: list[dict[str, Any]]) -> Any:
    libraries = [library for since, library in _LIBRARIES if since <= minor]
    described = {"name": "kubernetes", "extensions": libraries, "functions": functions}
    return cel.NewEnvConfigFromYaml(json.dumps(described))
