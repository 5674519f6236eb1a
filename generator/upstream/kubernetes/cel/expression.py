"""Compiled CEL expressions of policies: their compile errors, and their results.

Source: apiserver v0.34.2 pkg/admission/plugin/cel/compile.go compiler.CompileCELExpression; apiserver v0.34.2
pkg/admission/plugin/cel/activation.go newActivation;
apiserver v0.34.2 pkg/admission/plugin/cel/composition.go CompositedCompiler.CompileAndStoreVariable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.errors import NotModelledError, Problem
from generator.upstream.kubernetes.access import Access
from generator.upstream.kubernetes.cel.authorizer import GRANT_FUNCTIONS, Authorizer
from generator.upstream.kubernetes.cel.checked import read_checked
from generator.upstream.kubernetes.cel.environment import (
    TYPED,
    check_environment,
    declare,
    element_name,
    evaluation_environment,
    evaluation_environment_with,
    flat_name,
    numbered_name,
    typed_name,
)
from generator.upstream.kubernetes.cel.library import TOO_MANY_DIGITS
from generator.upstream.kubernetes.cel.literals import find_literal_problem
from generator.upstream.kubernetes.cel.signatures import CHECKED
from generator.upstream.kubernetes.cel.syntax import (
    OPTIONAL_READING,
    Reading,
    can_rename,
    find_conversions,
    find_elements,
    find_readings,
    rewrite_for_check,
    rewrite_for_evaluation,
    tokenize,
)

_CACHED = 1024  # expressions
_NEWEST = 99
"""A minor version of Kubernetes that has all functions of CEL."""
UNSET = "no value of the variable "
"""The prefix of the error of an expression that reads a policy variable whose evaluation failed."""
_RESERVED = tuple(flat_name((root, "")) for root in ("variables", "element", *TYPED))
"""The first characters of flat names."""
_ERROR = re.compile(r"ERROR: <input>:(?P<line>\d+):(?P<column>\d+): (?P<message>.*)")
_GO_MESSAGES = (
    (re.compile(r"^NOT_FOUND: Key not found in map : \"?(?P<name>.*?)\"?$"), r"no such key: \g<name>"),
    (re.compile(r"^UNKNOWN: Index error: index=(?P<name>-?\d+).*$"), r"index out of bounds: \g<name>"),
    (re.compile(r"^UNKNOWN: No matching overloads found : .*$"), "no such overload"),
    (re.compile(r"^INVALID_ARGUMENT: Applying SELECT to non-message type$"), "no such overload"),
    (re.compile(r"^[A-Z_]+: divide by zero$"), "division by zero"),
    (re.compile(r"^UNKNOWN: No value with name \"authorizer\" found .*$"), "no such attribute(s): authorizer"),
    (re.compile(r"^[A-Z_]+: (?P<name>.*)$"), r"\g<name>"),
)
"""Pattern of an error of Google's CEL in C++, which mpigen runs → the error of CEL in Go, which Kubernetes runs."""


def error_messages(error: RuntimeError) -> list[str]:
    """Return the compile errors without positions, which would refer to the rewritten expression."""
    messages = [match["message"] for match in _ERROR.finditer(str(error))] or [str(error).splitlines()[0]]
    return [re.sub(r"__(\w+?)__", r"\1.", message).removesuffix(" (in container '')") for message in messages]


def locate_error(text: str, variable: str) -> tuple[int, int, str] | None:
    """Return the 1-based line and column of the first compile error of an expression, and its message.

    The result is None if the text itself compiles. Other errors have no position, because `compile_expression` rewrites
    the text.

    Args:
        text: the expression.
        variable: the only variable that the expression can read.
    """
    config, functions = declare(_NEWEST)
    try:
        cel.NewEnv(config=config, variables={variable: cel.Type.DYN}, extensions=[functions]).compile(text)
    except RuntimeError as error:
        if match := _ERROR.search(str(error)):
            return int(match["line"]), int(match["column"]), error_messages(error)[0]
    return None


def _join_errors(error: RuntimeError) -> str:
    return "; ".join(error_messages(error))


def _to_go_message(message: str) -> str:
    """Return the message of CEL in Go for a message of CEL in C++; the message itself if no pattern matches."""
    for pattern, replacement in _GO_MESSAGES:
        if pattern.search(message):
            return pattern.sub(replacement, message)
    return message


_NO_VARIABLE = re.compile(rf"^UNKNOWN: No value with name \"{flat_name(('variables', ''))}(?P<number>\d+)\" found ")
_FORMS = {
    "optional_type": ("[?($)]", OPTIONAL_READING),
    "timestamp": ("string($)", "timestamp($)"),
    "duration": ("string($)", "duration($)"),
    "uint": ("$", "uint($)"),
}
"""Type of a policy variable that cel-expr-python cannot store unchanged → `Expression.forms`."""
_TYPES = ("bool", "int", "uint", "double", "string", "bytes", "duration", "timestamp", "null_type")
_SELECTS = "Applying SELECT to non-message type"
_SELECTS_OPTIONALLY = ("_?._(", "_[?_]")
_HAS = re.compile(r"\bhas\s*\(")
_HAS_LITERAL = re.compile(r"[\[{].*,|\b(duration|timestamp|matches|find|findAll)\s*\(", re.DOTALL)
"""A list or mapping that can have several items, or a function with a literal of its own format."""
_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_OF_STRINGS = re.compile(r"\[\s*''(?:\s*,\s*'')*\s*\]")
"""A list of strings, or a key of a mapping, after `_STRING` has removed the content of strings."""
_UNSUPPORTED = ("Non-CEL value type", "Unimplemented type", TOO_MANY_DIGITS)


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed evaluation, with the error message of the API server."""

    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A compiled CEL expression of a policy.

    Attributes:
        text: the source text.
        type: the type of the result, such as `bool`, even if the policy does not allow this type; empty after any other
            compile error.
        problem: the compile error; empty if there is none.
        lacking: why mpigen cannot evaluate the expression, which the API server can evaluate; empty if mpigen can.
        reads: the variables of the policy that the expression reads.
        checked: the expression that Google's CEL has compiled against the types that Kubernetes declares; None after an
            error.
    """

    text: str
    type: str
    problem: str = ""
    lacking: str = ""
    reads: tuple[str, ...] = ()
    checked: Any = field(default=None, repr=False)
    _program: Any = None
    _unknowns: list[Problem] = field(default_factory=list)

    @property
    def forms(self) -> tuple[str, str]:
        """(CEL that evaluates the expression `$` to a stored value, CEL that reads the result from this value `$`)."""
        return _FORMS.get(self.type.partition("<")[0], ("$", "$"))

    @property
    def declared(self) -> str:
        """The declared type of a variable with this expression.

        Source: apiserver v0.34.2 pkg/admission/plugin/cel/composition.go convertCelTypeToDeclType
        """
        return _replace_unknown_types(self.type)

    @property
    def literal_problem(self) -> str:
        """The reason why the API server rejects a literal, such as a list of mixed types; empty if it accepts all.

        The evaluation ignores the problem, because a policy with such a literal does not exist in a cluster.
        """
        return _literal_problem_of(self)

    def evaluate(self, data: Mapping[str, Any], variables: Mapping[str, Any] | None = None) -> Any:
        """Return the result as plain data, or `Failed` if the evaluation fails.

        Args:
            data: name → plain data; an expression that reads a missing name fails.
            variables: policy variable → plain data; an expression that reads a missing variable fails.

        Raises:
            NotModelledError: mpigen cannot evaluate the expression.
        """
        if self.lacking:
            raise _not_modelled(self.lacking)
        if self.problem:
            return Failed(f"compilation error: compilation failed: {self.problem}")
        self._unknowns.clear()
        values = variables or {}
        numbered = {numbered_name(number): values[name] for number, name in enumerate(self.reads) if name in values}
        try:
            result = self._program.eval(data={**data, **numbered})
            is_error = result.type() == cel.Type.ERROR
            value = result.value() if is_error else result.plain_value()
        except RuntimeError as error:  # such as a function that returns an unsupported value
            raise _not_modelled(f"mpigen cannot evaluate the expression: {_join_errors(error)}") from None
        except TypeError:  # such as an optional result
            raise _not_modelled("the expression returns a value that mpigen cannot store") from None
        if is_error:
            return self._failed(value)
        return bytes(value) if isinstance(value, bytearray) else value

    def _failed(self, message: str) -> Failed:
        """Return the failure that CEL in Go reports for an error message of CEL in C++.

        Raises:
            NotModelledError: CEL in Go may return a value instead.
        """
        if self._unknowns:  # an answer of the authorizer is unknown, and could have prevented the error
            raise NotModelledError((self._unknowns[0],))
        if any(text in message for text in _UNSUPPORTED):
            raise _not_modelled("the expression uses a value that mpigen cannot store")
        # CEL in Go returns false for a field of a value that is not a mapping: cel-go v0.26.0 interpreter/attributes.go
        # refQualify
        if any(text in message for text in _SELECTS_OPTIONALLY) or (_SELECTS in message and _HAS.search(self.text)):
            raise _not_modelled("the expression tests for a field of a value that is not a mapping")
        if match := _NO_VARIABLE.search(message):
            return Failed(f"{UNSET}{self.reads[int(match['number'])]}")
        return Failed(_to_go_message(message))


def _not_modelled(message: str) -> NotModelledError:
    return NotModelledError((Problem(message),))


def _replace_unknown_types(type_: str) -> str:
    """Replace types that CEL lacks by `dyn`."""
    if match := re.fullmatch(r"list<(.*)>", type_):
        return f"list<{_replace_unknown_types(match[1])}>"
    if match := re.fullmatch(r"map<(\w+), ?(.*)>", type_):
        return f"map<{match[1]},{_replace_unknown_types(match[2])}>"
    return type_ if type_ in _TYPES else "dyn"


_VALIDATES = re.compile(r"\.\s*validate\s*\(.*\.\s*(?:or|orValue|optMap|optFlatMap)\s*\(", re.DOTALL)
_COMPARES_NUMBERS = re.compile(r"found no matching overload for '_(?:[<>]=?|[!=]=)_' applied to '\((?:\w+, \w+)\)'")
_CONVERTS_ADDRESS = re.compile(r"found no matching overload for 'string' applied to '\(net\.(?:IP|CIDR)\)'")
_KEYWORDS = {
    *("object", "oldObject", "request", "namespaceObject", "params", "variables", "authorizer"),
    *("true", "false", "null", "in", "bool", "int", "uint", "double", "string", "bytes", "list", "map"),
    *("null_type", "type"),
}
"""Words that are never variables of a comprehension."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables and functions that an expression can use.

    Attributes:
        minor: the minor version of Kubernetes whose functions exist.
        has_params: True if the policy has a `paramKind`.
        variables: the variables of the policy that come before the expression.
        has_authorizer: True if the expression can use the authorizer.
        access: the grants of RBAC; None if they are unknown.
    """

    minor: int
    has_params: bool
    variables: Mapping[str, Expression] = field(default_factory=dict)
    has_authorizer: bool = True
    access: Access | None = None


def compile_expression(text: str, scope: Scope, returns: Collection[str] = ()) -> Expression:
    """Compile an expression. A compile error becomes `problem` of the result, so the function raises none.

    The environment of the expression declares only the variables that it reads, so that expressions share environments.

    Args:
        text: the source text.
        scope: the variables and functions that the expression can use.
        returns: the types that the result can have; empty for any type.
    """
    read = {item.fields[0] for item in find_readings(text) if item.root == "variables" and item.fields}
    scope = replace(scope, variables={name: scope.variables[name] for name in scope.variables if name in read})
    if any(token.text in GRANT_FUNCTIONS for token in tokenize(text)):
        return _compile(text, scope, tuple(returns))
    variables = tuple(scope.variables.items())
    return _compile_once(text, scope.minor, variables, tuple(returns), (scope.has_params, scope.has_authorizer))


@lru_cache(_CACHED)  # several rules ask, and releases share their expressions
def _literal_problem_of(expression: Expression) -> str:
    if expression.checked is None:
        return ""
    if not _HAS_LITERAL.search(_OF_STRINGS.sub("''", _STRING.sub("''", expression.text))):
        return ""
    return find_literal_problem(read_checked(expression.checked))


@lru_cache(_CACHED)
def _compile_once(
    text: str,
    minor: int,
    variables: tuple[tuple[str, Expression], ...],
    returns: tuple[str, ...],
    has: tuple[bool, bool],
) -> Expression:
    """Compile an expression that needs no grants of RBAC. The policies of several releases share their expressions."""
    return _compile(text, Scope(minor, has[0], dict(variables), has[1]), returns)


def _compile(text: str, scope: Scope, returns: tuple[str, ...]) -> Expression:
    readings = list(find_readings(text))
    reads = tuple(dict.fromkeys(item.fields[0] for item in readings if item.root == "variables" and item.fields))
    if _VALIDATES.search(text):
        return Expression(text, "", "", "mpigen evaluates only `hasValue` and `value` of a `validate` result", reads)
    if name := next((reading.root for reading in readings if reading.root.startswith(_RESERVED)), ""):
        return Expression(text, "", "", f"mpigen does not evaluate an expression with the name `{name}`", reads)
    if problem := next(_find_undefined_fields(readings), ""):
        return Expression(text, "", problem, reads=reads)
    try:
        checked = _check(text, readings, scope)
    except RuntimeError as error:
        problem = _join_errors(error)
        lacking = "mpigen does not convert an IP address to a string" if _CONVERTS_ADDRESS.fullmatch(problem) else ""
        return Expression(text, "", "" if lacking else problem, lacking, reads)
    type_ = _type_of(checked)
    if returns and type_ not in returns:
        expected = next(iter(returns)) if len(returns) == 1 else f"one of [{' '.join(returns)}]"
        return Expression(text, type_, f"must evaluate to {expected} but got {type_}", reads=reads)
    forms = {
        name: scope.variables[name].forms[1].replace("$", numbered_name(number))
        for number, name in enumerate(reads)
        if name in scope.variables
    }
    rewritten = rewrite_for_evaluation(text, readings, forms, list(_typed_conversions(text, scope)))
    return add_program(Expression(text, type_, reads=reads, checked=checked), rewritten, scope.access)


def _check(text: str, readings: list[Reading], scope: Scope, elements: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Return an expression, compiled against the types that Kubernetes declares.

    Args:
        text: the source text.
        readings: the reads of variables in the expression.
        scope: the variables and functions that the expression can use.
        elements: variable that a comprehension around the expression defines → its name in the environment. Its type
            is `dyn`.

    Raises:
        RuntimeError: the expression does not compile.
    """
    types = {name: variable.declared for name, variable in scope.variables.items()}
    env = check_environment(
        scope.minor,
        types.values(),
        elements.values(),
        has_params=scope.has_params,
        has_authorizer=scope.has_authorizer,
    )
    names = {name: typed_name(type_) for name, type_ in types.items()}
    return env.compile(rewrite_for_check(text, readings, names, elements))


def _type_of(checked: Any) -> str:
    """Return the type of a compiled expression, such as `list<string>`."""
    return re.sub(r"\b[A-Z_]+\b", lambda word: word[0].lower(), str(checked.return_type()))


def _typed_conversions(text: str, scope: Scope) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, type) of arguments with a known type in conversions such as `string(…)`."""
    for start, end in find_conversions(text):
        part = text[start:end]
        readings = list(find_readings(part))
        others = {reading.root for reading in readings} - _KEYWORDS
        renamed = others & find_elements(text) - {item.root for item in readings if not can_rename(part, item)}
        numbered = {name: element_name(number) for number, name in enumerate(sorted(renamed))}
        try:
            checked = _check(part, readings, scope, {name: numbered.get(name, name) for name in others})
            type_ = _type_of(checked).partition("<")[0]
        except RuntimeError:  # the argument does not compile alone, so its type is unknown
            continue
        if type_ in CHECKED:
            yield start, end, type_


def _find_undefined_fields(readings: list[Reading]) -> Iterator[str]:
    for reading in readings:
        fields: Any = TYPED.get(reading.root)
        for name in reading.fields if fields else ():
            if isinstance(fields, str):
                break
            if name not in fields:
                yield f"undefined field '{name}'"
            fields = fields.get(name, "dyn")


def add_program(expression: Expression, rewritten: str, access: Access | None) -> Expression:
    """Return the expression with its program, or with the reason why mpigen cannot evaluate it (`lacking`).

    Args:
        expression: the expression without a program.
        rewritten: its text, rewritten for cel-expr-python.
        access: the grants of RBAC; None if they are unknown.
    """
    unknowns: list[Problem] = []
    if not any(token.text in GRANT_FUNCTIONS for token in tokenize(expression.text)):
        env = evaluation_environment(len(expression.reads))
    elif access is None:
        return replace(expression, lacking="the expression uses the authorizer, and no file has grants of RBAC")
    else:
        authorizer = Authorizer(access)
        env, unknowns = evaluation_environment_with(authorizer.functions(), len(expression.reads)), authorizer.problems
    text = expression.forms[0].replace("$", rewritten)
    try:
        program = env.compile(text)
    except RuntimeError as error:
        if not all(map(_COMPARES_NUMBERS.fullmatch, error_messages(error))):
            return replace(expression, lacking=f"mpigen cannot evaluate the expression: {_join_errors(error)}")
        program = env.compile(text, disable_check=True)
    return replace(expression, _program=program, _unknowns=unknowns)
