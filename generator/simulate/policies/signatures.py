"""Functions that Kubernetes adds to CEL: declared as there, and run on what Google's CEL for Python can hand over.

A value of a type that CEL does not know, such as a quantity, is a mapping with the name of its type while an expression
runs: cel-expr-python takes no other value back from a function of ours. What an expression may do with it is
checked before, against the true types.
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
IS = "__is_"
"""The prefix of functions that return their argument if it has the type in their name."""
_OPAQUE = {
    *(QUANTITY, URL, IP, CIDR, SEMVER, FORMAT),
    *(AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION),
}
_KINDS: Mapping[str, Any] = {
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "uint": cel.Type.UINT,
    "double": cel.Type.DOUBLE,
    "string": cel.Type.STRING,
    "bytes": cel.Type.BYTES,
    "duration": cel.Type.DURATION,
    "timestamp": cel.Type.TIMESTAMP,
    "list": cel.Type.List(cel.Type.DYN),
    "map": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
}
_PARTS = re.compile(r"(?P<name>[~\w.]+)(?:<(?P<inner>.*)>)?")


CHECKED = ("bool", "int", "uint", "double", "string", "list", "map")
"""Types that can be checked during evaluation."""


@dataclass(frozen=True, slots=True)
class Function:
    """An overload of a function.

    Attributes:
        name: such as `isGreaterThan`.
        parameters: their types, that of the receiver first; `~A` is any type, everywhere the same.
        returns: the type of its result.
        run: what it does; None for what is not done here. It raises ValueError where the original is an error.
        since: the minor version of Kubernetes that has it.
        is_member: whether it is called on its first parameter.
        is_added: whether CEL, or a library of Google's, has a function of this name.
    """

    name: str
    parameters: tuple[str, ...]
    returns: str
    run: Callable[..., Any] | None
    since: int = 0
    is_member: bool = True
    is_added: bool = False

    @property
    def key(self) -> str:
        """Unique key of the overload."""
        return f"{self.name}({','.join(self.parameters)})"


def opaque(kind: str, text: str) -> dict[str, str]:
    """Return a value of a type that CEL does not have."""
    return {kind: text}


def declarations(functions: Iterable[Function]) -> list[dict[str, Any]]:
    """Return `functions` of the YAML of an environment, for functions with new names."""
    named: dict[str, list[dict[str, Any]]] = {}
    for each in functions:
        if not each.is_added:
            named.setdefault(each.name, []).append(_declared(each))
    return [{"name": name, "overloads": overloads} for name, overloads in named.items()]


def _declared(function: Function) -> dict[str, Any]:
    types = [_described(each) for each in function.parameters]
    receiver = {"target": types.pop(0)} if function.is_member else {}
    return {"id": function.key, **receiver, "args": types, "return": _described(function.returns)}


def _described(type_: str) -> dict[str, Any]:
    if type_ == ANY:
        return {"type_name": "A", "is_type_param": True}
    name, inner = _parts(type_)
    return {"type_name": name, "params": [_described(each) for each in inner]} if inner else {"type_name": name}


def _parts(type_: str) -> tuple[str, list[str]]:
    """Split `map<string,list<int>>` into `map` and its parameters."""
    match = _PARTS.fullmatch(type_)
    if match is None:
        raise ValueError(f"no type: {type_}")
    return match["name"], re.findall(r"[~\w.]+(?:<[^>]*>+)?", match["inner"] or "")


def additions(functions: Iterable[Function]) -> Any:
    """Return declarations of overloads of existing functions."""
    found = [
        cel.FunctionDecl(
            each.name,
            [cel.Overload(each.key, cel.Type(each.returns), [_type(one) for one in each.parameters], each.is_member)],
        )
        for each in functions
        if each.is_added
    ]
    return cel.CelExtension("kubernetes.added", found)


def _type(type_: str) -> Any:
    return cel.Type(type_.replace(ANY, "dyn"))


def implementations(functions: Iterable[Function]) -> Any:
    """Return implementations. CEL selects by the kinds of arguments, so overloads of equal kinds share one."""
    alike: dict[tuple[str, bool, tuple[str, ...]], list[Function]] = {}
    for each in functions:
        for kinds in _kinds(each) if each.run else ():
            alike.setdefault((each.name, each.is_member, kinds), []).append(each)
    found = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"{name}({','.join(kinds)})",
                    cel.Type.DYN,
                    [_KINDS[kind] for kind in kinds],
                    is_member,
                    impl=_chosen(shared),
                )
            ],
        )
        for (name, is_member, kinds), shared in alike.items()
    ]
    found += [cel.FunctionDecl(f"{IS}{kind}", [_identity(kind)]) for kind in CHECKED]
    return cel.CelExtension("kubernetes", found)


def _identity(kind: str) -> Any:
    return cel.Overload(f"{IS}{kind}", _KINDS[kind], [_KINDS[kind]], impl=lambda value: value)


def _kinds(function: Function) -> list[tuple[str, ...]]:
    """Return the kinds of arguments: one tuple, or one for each type that `~A` can be."""
    kinds = tuple("map" if each in _OPAQUE else _parts(each)[0] for each in function.parameters)
    return [tuple(any_ if kind == ANY else kind for kind in kinds) for any_ in (_KINDS if ANY in kinds else [""])]


def _chosen(functions: list[Function]) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        for each in functions:
            if each.run and all(map(_fits, each.parameters, arguments)):
                return each.run(*arguments)
        raise ValueError("no such overload")

    return run


def _fits(type_: str, argument: Any) -> bool:
    return type_ not in _OPAQUE or type_ in argument
