"""One expression of a policy: what is wrong with it before anybody asks, and what it says of a request.

k8s.io/apiserver v0.34.2 pkg/admission/plugin/cel/{compile,activation,composition}.go
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.errors import Problem
from generator.simulate.amounts import NotModelledError
from generator.simulate.policies.environment import TYPED, checking, named, running
from generator.simulate.policies.errors import all_words, in_go, words
from generator.simulate.policies.rewriting import OPTIONAL_READING, checkable, evaluable
from generator.simulate.policies.signatures import CHECKED
from generator.simulate.policies.tokens import Reading, conversions, readings

_HANDED_ON = {
    "optional_type": ("[?($)]", OPTIONAL_READING),
    "timestamp": ("string($)", "timestamp($)"),
    "duration": ("string($)", "duration($)"),
    "uint": ("$", "uint($)"),
}
"""How a variable is evaluated, and how it is read, whose value cel-expr-python takes in another form than it gives."""
_SELECTS = "Applying SELECT to non-message type"
_ASKS_OPTIONALLY = ("_?._(", "_[?_]")
_HAS = re.compile(r"\bhas\s*\(")
"""In Go, what is no mapping has no fields, and that is all: cel-go v0.26.0 interpreter/attributes.go `refQualify`."""
_VALIDATES = re.compile(r"\.\s*validate\s*\(.*\.\s*(?:or|orValue|optMap|optFlatMap)\s*\(", re.DOTALL)
_OURS = ("Non-CEL value type", "Unimplemented type")
_COMPARES_NUMBERS = re.compile(r"found no matching overload for '_(?:[<>]=?|[!=]=)_' applied to '\((?:\w+, \w+)\)'")
_HERE_ONLY = re.compile(r"found no matching overload for 'string' applied to '\(net\.(?:IP|CIDR)\)'")


_ROOTS = ("object", "oldObject", "request", "namespaceObject", "params", "variables")
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
    """

    minor: int
    has_params: bool
    variables: Mapping[str, Expression] = field(default_factory=dict)
    has_authorizer: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """An evaluation that ended in an error, with what the API server says of it."""

    words: str


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression, compiled.

    Attributes:
        text: as it was written.
        type: of its result, as `bool`; empty if it does not compile.
        problem: why it does not compile; empty if it does.
        lacking: why it cannot be evaluated here though the API server can; empty if it can.
        reads: the variables of the policy that it reads.
    """

    text: str
    type: str
    problem: str = ""
    lacking: str = ""
    reads: tuple[str, ...] = ()
    _program: Any = None

    @property
    def reading(self) -> str:
        """How another expression reads its result, by the name that stands for `$`."""
        return _handed_on(self.type)[1]

    def evaluate(self, data: Mapping[str, Any]) -> Any:
        """Its result, or `Failed`, in the form in which `reading` reads it.

        Args:
            data: variable → plain data; a variable that is not there is an error wherever it is read.

        Raises:
            NotModelledError: it cannot be evaluated here.
        """
        if self.lacking:
            raise NotModelledError((Problem(self.lacking),))
        if self.problem:
            return Failed(f"compilation error: compilation failed: {self.problem}")
        try:
            result = self._program.eval(data=dict(data))
        except RuntimeError as error:  # such as a function that gives a value that it cannot take
            raise NotModelledError((Problem(f"mpigen cannot evaluate it: {words(error)}"),)) from None
        value = _plain(result)
        if result.type() != cel.Type.ERROR:
            return value
        if any(each in value for each in _OURS):
            raise NotModelledError((Problem("it uses a value that mpigen cannot hand on"),))
        if any(each in value for each in _ASKS_OPTIONALLY) or (_SELECTS in value and _HAS.search(self.text)):
            raise NotModelledError((Problem("it asks whether something has a field that is no mapping"),))
        return Failed(in_go(value))

    @property
    def declared(self) -> Any:
        """The type that a variable has to which this is assigned: of what CEL itself does not know, any.

        composition.go `convertCelTypeToDeclType`
        """
        return cel.Type(_known(self.type)) if self.type else cel.Type.DYN


def compile_expression(text: str, scope: Scope, returns: Collection[str] = ()) -> Expression:
    """Compile an expression.

    Args:
        text: what was written.
        scope: what it may use.
        returns: the types that its result may have; any if there are none.
    """
    found = list(readings(text))
    reads = tuple(dict.fromkeys(each.fields[0] for each in found if each.root == "variables" and each.fields))
    if any(each.root == "authorizer" for each in found):
        return _asking_authorizer(text, scope, reads)
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
    return _runnable(text, type_, reads, evaluable(text, found, forms, _converted(text, scope)))


def _type(text: str, found: list[Reading], scope: Scope, others: Collection[str] = ()) -> str:
    """The type of a text, with other names that may have any."""
    types = {named(("variables", name)): each.declared for name, each in scope.variables.items()}
    env = checking(scope.minor, {**types, **dict.fromkeys(others, cel.Type.DYN)}, has_params=scope.has_params)
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


def _asking_authorizer(text: str, scope: Scope, reads: tuple[str, ...]) -> Expression:
    if not scope.has_authorizer:
        return Expression(text, "", "undeclared reference to 'authorizer'", reads=reads)
    return Expression(text, "", "", "it asks the authorizer, which only the API server can", reads)


def _unknown_fields(found: list[Reading]) -> Iterator[str]:
    for each in found:
        fields: Any = TYPED.get(each.root)
        for name in each.fields if fields else ():
            if isinstance(fields, str):
                break
            if name not in fields:
                yield f"undefined field '{name}'"
            fields = fields.get(name, "dyn")


def _runnable(text: str, type_: str, reads: tuple[str, ...], changed: str) -> Expression:
    env = running(tuple(named(("variables", name)) for name in reads))
    ready = _handed_on(type_)[0].replace("$", changed)
    try:
        program = env.compile(ready)
    except RuntimeError as error:
        if not all(map(_COMPARES_NUMBERS.fullmatch, all_words(error))):
            return Expression(text, type_, "", f"it uses what mpigen does not evaluate: {words(error)}", reads)
        program = env.compile(ready, disable_check=True)
    return Expression(text, type_, "", "", reads, program)


def _handed_on(type_: str) -> tuple[str, str]:
    return _HANDED_ON.get(type_.partition("<")[0], ("$", "$"))


def _known(type_: str) -> str:
    """A type with `dyn` for whatever CEL itself does not know."""
    if match := re.fullmatch(r"list<(.*)>", type_):
        return f"list<{_known(match[1])}>"
    if match := re.fullmatch(r"map<(\w+), ?(.*)>", type_):
        return f"map<{match[1]},{_known(match[2])}>"
    plain = ("bool", "int", "uint", "double", "string", "bytes", "duration", "timestamp", "null_type")
    return type_ if type_ in plain else "dyn"


def _plain(result: Any) -> Any:
    try:
        value = result.value() if result.type() == cel.Type.ERROR else result.plain_value()
    except TypeError:  # such as an optional value, which it calls an error
        raise NotModelledError((Problem("it gives a value that mpigen cannot hand on"),)) from None
    return bytes(value) if isinstance(value, bytearray) else value
