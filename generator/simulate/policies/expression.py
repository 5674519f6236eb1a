"""One expression of a policy, compiled: what is wrong with it before anybody asks.

k8s.io/apiserver v0.34.2 pkg/admission/plugin/cel/compile.go
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from generator.errors import Problem
from generator.simulate.access import Access
from generator.simulate.policies.authorizer import ANSWERS, Authorizer
from generator.simulate.policies.compiled import Expression
from generator.simulate.policies.environment import TYPED, checking, named, running, running_with
from generator.simulate.policies.errors import all_words, words
from generator.simulate.policies.rewriting import checkable, evaluable
from generator.simulate.policies.signatures import CHECKED
from generator.simulate.policies.tokens import Reading, conversions, readings, tokens

_VALIDATES = re.compile(r"\.\s*validate\s*\(.*\.\s*(?:or|orValue|optMap|optFlatMap)\s*\(", re.DOTALL)
_COMPARES_NUMBERS = re.compile(r"found no matching overload for '_(?:[<>]=?|[!=]=)_' applied to '\((?:\w+, \w+)\)'")
_HERE_ONLY = re.compile(r"found no matching overload for 'string' applied to '\(net\.(?:IP|CIDR)\)'")
_ROOTS = ("object", "oldObject", "request", "namespaceObject", "params", "variables", "authorizer")
_WORDS = (
    "true",
    "false",
    "null",
    "in",
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may use.

    Attributes:
        minor: the version of Kubernetes whose functions there are.
        has_params: whether the policy has a paramKind.
        variables: those of the policy's own variables that come before.
        has_authorizer: whether the authorizer may be asked.
        access: who may do what; None where nobody says.
    """

    minor: int
    has_params: bool
    variables: Mapping[str, Expression] = field(default_factory=dict)
    has_authorizer: bool = True
    access: Access | None = None


def compile_expression(text: str, scope: Scope, returns: Collection[str] = ()) -> Expression:
    """Compile an expression.

    Args:
        text: what was written.
        scope: what it may use.
        returns: the types that its result may have; any if there are none.
    """
    found = list(readings(text))
    reads = tuple(dict.fromkeys(each.fields[0] for each in found if each.root == "variables" and each.fields))
    if _VALIDATES.search(text):
        return Expression(text, "", "", "of what `validate` gives, mpigen knows `hasValue` and `value` alone", reads)
    if problem := next(_unknown_fields(found), ""):
        return Expression(text, "", problem, reads=reads)
    try:
        type_ = _type(text, found, scope)
    except RuntimeError as error:
        problem = words(error)
        lacking = "it writes an address as text, which mpigen does not" if _HERE_ONLY.fullmatch(problem) else ""
        return Expression(text, "", "" if lacking else problem, lacking, reads)
    if returns and type_ not in returns:
        expected = next(iter(returns)) if len(returns) == 1 else f"one of [{' '.join(returns)}]"
        return Expression(text, type_, f"must evaluate to {expected} but got {type_}", reads=reads)
    forms = {name: each.reading for name, each in scope.variables.items()}
    changed = evaluable(text, found, forms, _converted(text, scope))
    return _runnable(Expression(text, type_, reads=reads), changed, scope.access)


def _type(text: str, found: list[Reading], scope: Scope, others: Collection[str] = ()) -> str:
    """The type of a text, with other names that may have any."""
    types = {named(("variables", name)): each.declared for name, each in scope.variables.items()}
    env = checking(
        scope.minor,
        tuple(sorted({**types, **dict.fromkeys(others, "dyn")}.items())),
        has_params=scope.has_params,
        has_authorizer=scope.has_authorizer,
    )
    written = str(env.compile(checkable(text, found, scope.variables)).return_type())
    return re.sub(r"\b[A-Z_]+\b", lambda word: word[0].lower(), written)


def _converted(text: str, scope: Scope) -> list[tuple[int, int, str]]:
    """What is converted, and the type for which it is taken, where that is one and not any."""
    converted = []
    for start, end in conversions(text):
        found = list(readings(text[start:end]))
        others = {each.root for each in found} - {*_ROOTS, *_WORDS}
        try:
            type_ = _type(text[start:end], found, scope, others).partition("<")[0]
        except RuntimeError:  # it does not stand by itself, and so nothing is known of it
            continue
        if type_ in CHECKED:
            converted.append((start, end, type_))
    return converted


def _unknown_fields(found: list[Reading]) -> Iterator[str]:
    for each in found:
        fields: Any = TYPED.get(each.root)
        for name in each.fields if fields else ():
            if isinstance(fields, str):
                break
            if name not in fields:
                yield f"undefined field '{name}'"
            fields = fields.get(name, "dyn")


def _runnable(compiled: Expression, changed: str, access: Access | None) -> Expression:
    """What runs of an expression that compiles."""
    names = tuple(named(("variables", name)) for name in compiled.reads)
    doubts: list[Problem] = []
    if not any(each.text in ANSWERS for each in tokens(compiled.text)):
        env = running(names)
    elif access is None:
        return replace(compiled, lacking="it asks the authorizer, and nobody says who may do what")
    else:
        authorizer = Authorizer(access)
        env, doubts = running_with(authorizer.functions(), names), authorizer.doubts
    ready = compiled.giving.replace("$", changed)
    try:
        program = env.compile(ready)
    except RuntimeError as error:
        if not all(map(_COMPARES_NUMBERS.fullmatch, all_words(error))):
            return replace(compiled, lacking=f"it uses what mpigen does not evaluate: {words(error)}")
        program = env.compile(ready, disable_check=True)
    return replace(compiled, _program=program, _doubts=doubts)
