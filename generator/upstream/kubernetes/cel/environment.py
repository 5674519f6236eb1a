"""The CEL environments of policies: the variables and functions that their expressions can use.

An expression is compiled twice: against the types that Kubernetes declares, and against the types that
cel-expr-python can evaluate. cel-expr-python has no types with fields. So each typed field, such as
`request.userInfo.groups`, becomes a variable with a flat name, such as `__request__userInfo__groups`.

The first compilation in an environment takes 50 times as long as the next ones. So expressions share environments: the
variables of a policy get names that do not depend on the policy.

Source: apiserver v0.34.2 pkg/admission/plugin/cel/compile.go createEnvForOpts; apiserver v0.34.2
pkg/cel/environment/base.go baseOptsWithoutStrictCost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.facts.table import read_table
from generator.upstream.kubernetes.cel import authorizer, library
from generator.upstream.kubernetes.cel.signatures import AUTHORIZER, Function, additions, declarations, implementations

_CACHED = 64  # environments
_ALL = 99  # a minor version of Kubernetes that is newer than all functions
_FUNCTIONS = (*library.FUNCTIONS, *authorizer.FUNCTIONS)
_RUNNABLE = (*_FUNCTIONS, *library.OPTIONAL_FUNCTIONS)
_COMPARISONS = tuple(
    Function(f"_{sign}_", (left, right), "bool", None, 28, is_member=False, is_overload=True)
    for sign in ("<", "<=", ">", ">=")
    for left in ("int", "uint", "double")
    for right in ("int", "uint", "double")
    if left != right
)
"""Comparisons of numbers of different types, which cel-expr-python supports for dynamic types only."""
_VARIABLES = ("object", "oldObject", "request", "namespaceObject")
_OF_RULES = ("self", "oldSelf")
"""The variables of the rules of CustomResourceDefinitions."""

_BASIC = ("dyn", "bool", "int", "uint", "double", "string", "bytes", "duration", "timestamp", "null_type")
_COMMON = (
    *_BASIC,
    *(form.replace("$", type_) for form in ("list<$>", "list<list<$>>", "map<string,$>") for type_ in _BASIC),
)
"""Types that every environment has a variable of."""
_FEW = 8
"""An environment has a multiple of this number of variables, so that expressions with fewer variables share it."""

TYPED: Mapping[str, Any] = {row["name"]: row["fields"] for row in read_table("cel")["variables"]}
"""Variable with typed fields → field → its type, or a mapping of its own fields."""


def flat_name(path: tuple[str, ...]) -> str:
    """Return the flat name of a field: `request.userInfo.groups` → `__request__userInfo__groups`."""
    return "__".join(("", *path))


def typed_name(type_: str) -> str:
    """Return the name that stands for each policy variable of a type, when the type of an expression is inferred."""
    return flat_name(("variables", re.sub(r"\W", "_", type_)))


def numbered_name(number: int) -> str:
    """Return the name of the policy variable with a number in its expression: `__variables__0`."""
    return flat_name(("variables", str(number)))


def element_name(number: int) -> str:
    """Return the name of a variable of a comprehension around an expression, whose type is unknown: `__element__0`."""
    return flat_name(("element", str(number)))


_ELEMENTS = tuple(map(element_name, range(_FEW)))


def _round_up(number: int) -> int:
    return max(_FEW, -(-number // _FEW) * _FEW)


def _typed_fields(fields: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield (flat name, type) of each typed field below a path."""
    for name, type_ in fields.items():
        if isinstance(type_, str):
            yield flat_name((*path, name)), type_
        else:
            yield from _typed_fields(type_, (*path, name))


def check_environment(
    minor: int, types: Iterable[str], elements: Iterable[str], *, has_params: bool, has_authorizer: bool
) -> Any:
    """Return the environment that checks the types of expressions, as Kubernetes does.

    Args:
        minor: the minor version of Kubernetes whose functions are declared.
        types: the types of the variables of the policy, each with the name `typed_name`.
        elements: the names of further variables, whose types are unknown.
        has_params: True if the policy has a `paramKind`.
        has_authorizer: True if the expression can use the authorizer.
    """
    rare = tuple(sorted({*types} - {*_COMMON}))
    others = tuple(sorted({*elements} - {*_ELEMENTS}))
    return _check_environment(minor, rare, others, has_params=has_params, has_authorizer=has_authorizer)


@lru_cache(_CACHED)
def _check_environment(
    minor: int, rare: tuple[str, ...], others: tuple[str, ...], *, has_params: bool, has_authorizer: bool
) -> Any:
    roots = (*_VARIABLES, *(("params",) if has_params else ()))
    types = {
        **dict.fromkeys(roots, "dyn"),
        **({"authorizer": AUTHORIZER} if has_authorizer else {}),
        **dict(_typed_fields({root: TYPED[root] for root in TYPED if root != "authorizer" or has_authorizer})),
        **{typed_name(type_): type_ for type_ in (*_COMMON, *rare)},
        **dict.fromkeys((*_ELEMENTS, *others), "dyn"),
    }
    config, added = declare(minor)
    return cel.NewEnv(
        config=config, variables={name: cel.Type(type_) for name, type_ in types.items()}, extensions=[added]
    )


@cache
def declare(minor: int, *libraries: str) -> tuple[Any, Any]:
    """Return the configuration and the extension with the functions of a minor version of Kubernetes.

    Args:
        minor: the minor version.
        libraries: further libraries of Google's CEL.
    """
    functions = [function for function in (*_FUNCTIONS, *_COMPARISONS) if function.since <= minor]
    return _configure(minor, declarations(functions), libraries), additions(functions)


def evaluation_environment(variables: int) -> Any:
    """Return the environment that evaluates expressions with this number of the policy's variables, or fewer."""
    return _evaluation_environment(_round_up(variables))


@cache
def _evaluation_environment(variables: int) -> Any:
    return _create(variables, *_implement())


def evaluation_environment_with(functions: Iterable[Function], variables: int) -> Any:
    """Return the environment that evaluates one expression, with functions that only this expression has."""
    return _create(variables, _implement()[0], implementations((*_RUNNABLE, *functions)))


def _create(variables: int, config: Any, extension: Any) -> Any:
    roots = (*_VARIABLES, *_OF_RULES, "params", "authorizer", *map(numbered_name, range(variables)))
    return cel.NewEnv(config=config, variables=dict.fromkeys(roots, cel.Type.DYN), extensions=[extension])


@cache
def _implement() -> tuple[Any, Any]:
    return _configure(_ALL, []), implementations(_RUNNABLE)


def _configure(minor: int, functions: list[dict[str, Any]], further: Iterable[str] = ()) -> Any:
    libraries = [
        {key: value for key, value in row.items() if key in ("name", "version")}
        for row in read_table("cel")["libraries"]
        if row["since"] <= minor
    ]
    libraries += [{"name": name} for name in further]
    config = {"name": "kubernetes", "extensions": libraries, "functions": functions}
    return cel.NewEnvConfigFromYaml(json.dumps(config))
