"""A compiled expression: what it says of a request.

k8s.io/apiserver v0.34.2 pkg/admission/plugin/cel/{activation,composition}.go
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]

from generator.errors import NotModelledError, Problem
from generator.simulate.policies.errors import in_go, words
from generator.simulate.policies.rewriting import OPTIONAL_READING

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
_OURS = ("Non-CEL value type", "Unimplemented type")


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
    _doubts: list[Problem] = field(default_factory=list)

    @property
    def giving(self) -> str:
        """How it is evaluated, by the text that stands for `$`, so that `reading` can read it."""
        return _handed_on(self.type)[0]

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
        self._doubts.clear()
        try:
            result = self._program.eval(data=dict(data))
        except RuntimeError as error:  # such as a function that gives a value that it cannot take
            raise NotModelledError((Problem(f"mpigen cannot evaluate it: {words(error)}"),)) from None
        value = _plain(result)
        if result.type() != cel.Type.ERROR:
            return value
        if self._doubts:  # also if CEL tells of another error: who knows what would have been
            raise NotModelledError((self._doubts[0],))
        if any(each in value for each in _OURS):
            raise NotModelledError((Problem("it uses a value that mpigen cannot hand on"),))
        if any(each in value for each in _ASKS_OPTIONALLY) or (_SELECTS in value and _HAS.search(self.text)):
            raise NotModelledError((Problem("it asks whether something has a field that is no mapping"),))
        return Failed(in_go(value))

    @property
    def declared(self) -> str:
        """The type that a variable has to which this is assigned: of what CEL itself does not know, any.

        composition.go `convertCelTypeToDeclType`
        """
        return _known(self.type)


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
