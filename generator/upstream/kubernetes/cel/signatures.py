"""CEL functions that Kubernetes adds: their declarations, and their implementations for cel-expr-python.

cel-expr-python accepts only values of the standard CEL types from a Python function. So during evaluation, a value such
as a quantity is a mapping whose key is the name of its type. The check before the evaluation uses the true types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

QUANTITY, URL, IP, CIDR, SEMVER, FORMAT = (
    "kubernetes.Quantity",
    "kubernetes.URL",
    "net.IP",
    "net.CIDR",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
)
AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION = (
    f"kubernetes.authorization.{name}"
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
ANY = "~A"
"""A type parameter: any type, the same in all places of a signature."""
IS = "__is_"
"""Prefix of functions such as `__is_int(x)`, which return `x` if it has this type, and fail if it does not."""
_OPAQUE = {
    *(QUANTITY, URL, IP, CIDR, SEMVER, FORMAT),
    *(AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION),
}
_KINDS: Mapping[str, Any] = {
    **{name: getattr(cel.Type, name.upper()) for name in ("bool", "int", "uint", "double", "string", "bytes")},
    "duration": cel.Type.DURATION,
    "timestamp": cel.Type.TIMESTAMP,
    "list": cel.Type.List(cel.Type.DYN),
    "map": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
}
CHECKED = ("bool", "int", "uint", "double", "string", "list", "map")
"""Types with a function such as `__is_int` (see `IS`)."""
_TYPE = re.compile(r"(?P<name>[~\w.]+)(?:<(?P<parameters>.*)>)?")


@dataclass(frozen=True, slots=True)
class Function:
    """An overload of a CEL function.

    Attributes:
        name: such as `isGreaterThan`.
        parameters: the types of the parameters, for a method starting with the receiver.
        returns: the type of the result.
        run: the implementation, which raises ValueError for a CEL error; None if mpigen does not evaluate the function.
        since: the first minor version of Kubernetes with the function.
        is_member: True for a method: `x.f(y)` instead of `f(x, y)`.
        is_overload: True if CEL or one of its standard libraries has a function of this name.
    """

    name: str
    parameters: tuple[str, ...]
    returns: str
    run: Callable[..., Any] | None
    since: int = 0
    is_member: bool = True
    is_overload: bool = False

    @property
    def key(self) -> str:
        """Unique key of the overload."""
        return f"{self.name}({','.join(self.parameters)})"


def opaque(type_: str, text: str) -> dict[str, str]:
    """Return the value of a type that CEL lacks, such as a quantity, as a mapping from type to text."""
    return {type_: text}


def declarations(functions: Iterable[Function]) -> list[dict[str, Any]]:
    """Return the declarations of functions whose names CEL lacks: the value of `functions` in an environment's YAML."""
    overloads: dict[str, list[dict[str, Any]]] = {}
    for function in functions:
        if not function.is_overload:
            types = list(map(_describe_type, function.parameters))
            target = {"target": types.pop(0)} if function.is_member else {}
            overload = {"id": function.key, **target, "args": types, "return": _describe_type(function.returns)}
            overloads.setdefault(function.name, []).append(overload)
    return [{"name": name, "overloads": rows} for name, rows in overloads.items()]


def _describe_type(type_: str) -> dict[str, Any]:
    if type_ == ANY:
        return {"type_name": "A", "is_type_param": True}
    match = _match_type(type_)
    parameters = re.findall(r"[~\w.]+(?:<[^>]*>+)?", match["parameters"] or "")
    return {"type_name": match["name"], **({"params": list(map(_describe_type, parameters))} if parameters else {})}


def _match_type(type_: str) -> re.Match[str]:
    match = _TYPE.fullmatch(type_)
    if match is None:
        raise ValueError(f"not a type: {type_}")
    return match


def additions(functions: Iterable[Function]) -> Any:
    """Return a CEL extension that declares overloads of functions that CEL has (`is_overload`), such as `indexOf`."""
    added = [
        cel.FunctionDecl(
            function.name,
            [
                cel.Overload(
                    function.key,
                    cel.Type(function.returns),
                    [cel.Type(type_.replace(ANY, "dyn")) for type_ in function.parameters],
                    function.is_member,
                )
            ],
        )
        for function in functions
        if function.is_overload
    ]
    return cel.CelExtension("kubernetes.added", added)


def implementations(functions: Iterable[Function]) -> Any:
    """Return a CEL extension with the implementations of functions.

    CEL selects an implementation by the kinds of the arguments, so overloads with equal kinds share one.
    """
    overloads: dict[tuple[str, bool, tuple[str, ...]], list[Function]] = {}
    for function in functions:
        for kinds in _argument_kinds(function) if function.run else ():
            overloads.setdefault((function.name, function.is_member, kinds), []).append(function)
    implemented = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"{name}({','.join(kinds)})",
                    cel.Type.DYN,
                    [_KINDS[kind] for kind in kinds],
                    is_member,
                    impl=_dispatch(shared),
                )
            ],
        )
        for (name, is_member, kinds), shared in overloads.items()
    ]
    for kind in CHECKED:
        identity = cel.Overload(f"{IS}{kind}", _KINDS[kind], [_KINDS[kind]], impl=lambda value: value)
        implemented.append(cel.FunctionDecl(f"{IS}{kind}", [identity]))
    return cel.CelExtension("kubernetes", implemented)


def _argument_kinds(function: Function) -> list[tuple[str, ...]]:
    """Return the kinds (keys of `_KINDS`) of a function's arguments; with a type parameter, once for each kind."""
    kinds = ["map" if type_ in _OPAQUE else _match_type(type_)["name"] for type_ in function.parameters]
    return [tuple(any_ if kind == ANY else kind for kind in kinds) for any_ in (_KINDS if ANY in kinds else [""])]


def _dispatch(functions: list[Function]) -> Callable[..., Any]:
    """Return a function that calls the first overload whose parameter types match the arguments."""

    def run(*arguments: Any) -> Any:
        """Call the first overload whose parameter types match the arguments.

        Raises:
            ValueError: no overload matches.
        """
        for function in functions:
            pairs = zip(function.parameters, arguments, strict=True)
            if function.run and all(type_ not in _OPAQUE or type_ in argument for type_, argument in pairs):
                return function.run(*arguments)
        raise ValueError("no such overload")

    return run
