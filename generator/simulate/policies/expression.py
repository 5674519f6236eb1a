"""Compiled CEL expressions of policies and of transition rules: their compile errors, and their results.

Source: k8s.io/apiserver v0.34.2 pkg/admission/plugin/cel/{compile,activation,composition}.go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.errors import NotModelledError, Problem
from generator.schemas.updates import Transition
from generator.simulate.access import Access, AccessRequest, Requester, with_default_grants
from generator.simulate.policies import authorizer
from generator.simulate.policies.environment import (
    TYPED,
    check_environment,
    evaluation_environment,
    evaluation_environment_with,
    flat_name,
)
from generator.simulate.policies.signatures import CHECKED, Function
from generator.simulate.policies.syntax import (
    OPTIONAL_READING,
    Reading,
    find_conversions,
    find_readings,
    rewrite_for_check,
    rewrite_for_evaluation,
    tokenize,
)

UNSET = "no value of the variable "
"""The prefix of the error for a variable whose own evaluation failed."""
_ERROR = re.compile(r"ERROR: <input>:\d+:\d+: (?P<words>.*)")
_SAID = (
    (re.compile(r"^NOT_FOUND: Key not found in map : \"?(?P<what>.*?)\"?$"), r"no such key: \g<what>"),
    (re.compile(r"^UNKNOWN: Index error: index=(?P<what>-?\d+).*$"), r"index out of bounds: \g<what>"),
    (re.compile(r"^UNKNOWN: No matching overloads found : .*$"), "no such overload"),
    (re.compile(r"^INVALID_ARGUMENT: Applying SELECT to non-message type$"), "no such overload"),
    (re.compile(r"^[A-Z_]+: divide by zero$"), "division by zero"),
    (re.compile(r"^UNKNOWN: No value with name \"__variables__(?P<what>\w+)\" found .*$"), UNSET + r"\g<what>"),
    (re.compile(r"^UNKNOWN: No value with name \"authorizer\" found .*$"), "no such attribute(s): authorizer"),
    (re.compile(r"^[A-Z_]+: (?P<what>.*)$"), r"\g<what>"),
)
"""Error of Google's CEL in C++ → error of CEL in Go."""


def error_message(error: RuntimeError) -> str:
    """Return the errors of the compiler on one line."""
    return "; ".join(error_messages(error))


def error_messages(error: RuntimeError) -> list[str]:
    """Return the errors of the compiler without positions, which refer to the rewritten expression."""
    said = [match["words"] for match in _ERROR.finditer(str(error))] or [str(error).splitlines()[0]]
    return [re.sub(r"__(\w+?)__", r"\1.", words).removesuffix(" (in container '')") for words in said]


def to_go_message(words: str) -> str:
    """Return the error message of CEL in Go, or the original one if no rule matches."""
    for pattern, instead in _SAID:
        if pattern.search(words):
            return pattern.sub(instead, words)
    return words


_ACCOUNT = "system:serviceaccount:"
_KUBERNETES = "system:serviceaccount:kube-system:"
_EVERYBODYS = ("system:authenticated", "system:unauthenticated", "system:serviceaccounts")
_FIX = "add them to the files, or to `given`"


ANSWERS = ("check", "reason")
"""Functions that need the grants of RBAC."""


class UnknownError(ValueError):
    """The files do not hold the answer."""


class Authorizer:
    """The authorizer of one expression.

    Attributes:
        doubts: what could not be answered. To the expression it is an error: it counts where the result is one.
    """

    def __init__(self, access: Access) -> None:
        """Answer from the grants of the files."""
        self.access = access
        self.doubts: list[Problem] = []

    def functions(self) -> tuple[Function, ...]:
        """Return the functions that an expression can call."""
        return authorizer.deciding(self._decided, self._explained)

    def _decided(self, asked: Mapping[str, Any], verb: str) -> dict[str, dict[str, Any]]:
        said = {key: value for key, value in asked.items() if key not in ("user", "groups")}
        who, request = Requester(asked["user"], frozenset(asked["groups"])), AccessRequest(verb, **said)
        reasons = with_default_grants(self.access).reasons(who, request)
        if not reasons:
            self._doubt(self._unknown(who, request), _FIX)
        return authorizer.decision(is_allowed=bool(reasons), reasons=reasons)

    def _unknown(self, who: Requester, asked: AccessRequest) -> str:
        """Return why a requester may be allowed more than the files grant; empty if the grants are complete."""
        may = f"whether {who.user} may {asked.verb} {asked.url or asked.resource}"
        if not self.access.grants:
            return f"nothing says {may}: there are no Roles and no bindings"
        if gaps := self.access.gaps(who, asked.namespace):
            return f"nothing says {may}: {'; '.join(gaps)}"
        if _is_of_kubernetes(who):
            return f"nothing says {may}: what Kubernetes grants its own parts is not among the files"
        return ""

    def _explained(self, reasons: list[str]) -> str:
        if len(reasons) > 1:
            self._doubt(f"which of these allows it is chance: {'; '.join(reasons)}", "do not compare the reason")
        return next(iter(reasons), "")

    def _doubt(self, message: str, fix: str) -> None:
        if message:
            self.doubts.append(Problem(message, fix))
            raise UnknownError(message)


def _is_of_kubernetes(who: Requester) -> bool:
    """Return True for a component of Kubernetes (bootstrappolicy/{policy,controller_policy,namespace_policy}.go)."""
    is_part = who.user.startswith(_KUBERNETES) or (
        who.user.startswith("system:") and not who.user.startswith(_ACCOUNT) and who.user != "system:anonymous"
    )
    return is_part or any(each.startswith("system:") and not each.startswith(_EVERYBODYS) for each in who.groups)


_HANDED_ON = {
    "optional_type": ("[?($)]", OPTIONAL_READING),
    "timestamp": ("string($)", "timestamp($)"),
    "duration": ("string($)", "duration($)"),
    "uint": ("$", "uint($)"),
}
"""Type → the expressions that evaluate and read a variable, for types that cel-expr-python alters."""
_SELECTS = "Applying SELECT to non-message type"
_ASKS_OPTIONALLY = ("_?._(", "_[?_]")
_HAS = re.compile(r"\bhas\s*\(")
"""In Go, what is no mapping has no fields, and that is all: cel-go v0.26.0 interpreter/attributes.go `refQualify`."""
_OURS = ("Non-CEL value type", "Unimplemented type")


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed evaluation, with the error message of the API server."""

    words: str


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression.

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
    _doubts: list[Problem] = field(default_factory=list)

    @property
    def giving(self) -> str:
        """The expression that evaluates it; `$` is the original."""
        return _handed_on(self.type)[0]

    @property
    def reading(self) -> str:
        """The expression that reads its result; `$` is the name."""
        return _handed_on(self.type)[1]

    def evaluate(self, data: Mapping[str, Any]) -> Any:
        """Return the result, or `Failed`, in the form that `reading` reads.

        Args:
            data: variable → plain data; a variable that is not there is an error wherever it is read.

        Raises:
            NotModelledError: it cannot be evaluated here.
        """
        if self.lacking:
            raise NotModelledError((Problem(self.lacking),))
        if self.problem:
            return Failed(f"compilation error: compilation failed: {self.problem}")
        self._doubts.clear()
        try:
            result = self._program.eval(data=dict(data))
        except RuntimeError as error:  # such as a function that gives a value that it cannot take
            raise NotModelledError((Problem(f"mpigen cannot evaluate it: {error_message(error)}"),)) from None
        value = _plain(result)
        if result.type() != cel.Type.ERROR:
            return value
        if self._doubts:  # also if CEL tells of another error: who knows what would have been
            raise NotModelledError((self._doubts[0],))
        if any(each in value for each in _OURS):
            raise NotModelledError((Problem("it uses a value that mpigen cannot hand on"),))
        if any(each in value for each in _ASKS_OPTIONALLY) or (_SELECTS in value and _HAS.search(self.text)):
            raise NotModelledError((Problem("it asks whether something has a field that is no mapping"),))
        return Failed(to_go_message(value))

    @property
    def declared(self) -> str:
        """The declared type of a variable with this expression; `dyn` for types that CEL does not have.

        composition.go `convertCelTypeToDeclType`
        """
        return _known(self.type)


def _handed_on(type_: str) -> tuple[str, str]:
    return _HANDED_ON.get(type_.partition("<")[0], ("$", "$"))


def _known(type_: str) -> str:
    """Replace the types that CEL does not have with `dyn`."""
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
    """The scope of an expression.

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
    found = list(find_readings(text))
    reads = tuple(dict.fromkeys(each.fields[0] for each in found if each.root == "variables" and each.fields))
    if _VALIDATES.search(text):
        return Expression(text, "", "", "of what `validate` gives, mpigen knows `hasValue` and `value` alone", reads)
    if problem := next(_unknown_fields(found), ""):
        return Expression(text, "", problem, reads=reads)
    try:
        type_ = _type(text, found, scope)
    except RuntimeError as error:
        problem = error_message(error)
        lacking = "it writes an address as text, which mpigen does not" if _HERE_ONLY.fullmatch(problem) else ""
        return Expression(text, "", "" if lacking else problem, lacking, reads)
    if returns and type_ not in returns:
        expected = next(iter(returns)) if len(returns) == 1 else f"one of [{' '.join(returns)}]"
        return Expression(text, type_, f"must evaluate to {expected} but got {type_}", reads=reads)
    forms = {name: each.reading for name, each in scope.variables.items()}
    changed = rewrite_for_evaluation(text, found, forms, _converted(text, scope))
    return _runnable(Expression(text, type_, reads=reads), changed, scope.access)


def _type(text: str, found: list[Reading], scope: Scope, others: Collection[str] = ()) -> str:
    """Return the type of an expression; other names have type `dyn`."""
    types = {flat_name(("variables", name)): each.declared for name, each in scope.variables.items()}
    env = check_environment(
        scope.minor,
        tuple(sorted({**types, **dict.fromkeys(others, "dyn")}.items())),
        has_params=scope.has_params,
        has_authorizer=scope.has_authorizer,
    )
    written = str(env.compile(rewrite_for_check(text, found, scope.variables)).return_type())
    return re.sub(r"\b[A-Z_]+\b", lambda word: word[0].lower(), written)


def _converted(text: str, scope: Scope) -> list[tuple[int, int, str]]:
    """Return the arguments of conversions whose type is known."""
    converted = []
    for start, end in find_conversions(text):
        found = list(find_readings(text[start:end]))
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
    """Return the expression with its program."""
    names = tuple(flat_name(("variables", name)) for name in compiled.reads)
    doubts: list[Problem] = []
    if not any(each.text in ANSWERS for each in tokenize(compiled.text)):
        env = evaluation_environment(names)
    elif access is None:
        return replace(compiled, lacking="it asks the authorizer, and nobody says who may do what")
    else:
        authorizer = Authorizer(access)
        env, doubts = evaluation_environment_with(authorizer.functions(), names), authorizer.doubts
    ready = compiled.giving.replace("$", changed)
    try:
        program = env.compile(ready)
    except RuntimeError as error:
        if not all(map(_COMPARES_NUMBERS.fullmatch, error_messages(error))):
            return replace(compiled, lacking=f"it uses what mpigen does not evaluate: {error_message(error)}")
        program = env.compile(ready, disable_check=True)
    return replace(compiled, _program=program, _doubts=doubts)


_TRANSITION_VARIABLES = ("self", "oldSelf")
_READ_OLD_SELF = "oldSelf[?0]"
"""Reads an optional value from a list with at most one item: cel-expr-python cannot be given an optional value."""


def is_accepted(transition: Transition) -> bool:
    """Return True if the API server accepts the change. It also rejects a change whose rule ends in an error.

    Raises:
        NotModelledError: the expression cannot be evaluated here.
    """
    old = transition.old
    if transition.is_optional:
        old = [] if old is None else [old]
    try:
        program = _compile_transition(transition.rule, is_optional=transition.is_optional)
        result = program.eval(data={"self": transition.new, "oldSelf": old})
    except RuntimeError as error:
        raise NotModelledError((Problem(f"the rule cannot be evaluated: {error}"),)) from None
    return bool(result.type() != cel.Type.ERROR and result.plain_value() is True)


@cache
def _compile_transition(rule: str, *, is_optional: bool) -> Any:
    if is_optional:
        read = [each for each in tokenize(rule) if each.text == "oldSelf"]
        for token in reversed(read):
            rule = rule[: token.start] + _READ_OLD_SELF + rule[token.end :]
    return evaluation_environment(_TRANSITION_VARIABLES).compile(rule)
