"""Named formats: k8s.io/apiserver v0.34.2 pkg/cel/library/format.go.

What is wrong with a text is told in other words than there, so only whether something is wrong can be compared. An
optional value cannot be handed to CEL by cel-expr-python: it is a list of none or one while an expression runs.
"""

from __future__ import annotations

import re
from typing import Any

from generator.simulate.policies.signatures import FORMAT, Function, opaque

_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_WORD = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_FORMS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "dns1123Label": rf"(?=.{{1,63}}\Z){_LABEL}",
        "dns1123Subdomain": rf"(?=.{{1,253}}\Z){_SUBDOMAIN}",
        "dns1035Label": r"(?=.{1,63}\Z)[a-z](?:[-a-z0-9]*[a-z0-9])?",
        "qualifiedName": rf"(?:(?=[^/]{{1,253}}/){_SUBDOMAIN}/)?(?=.{{1,63}}\Z){_WORD}",
        "labelValue": rf"(?=.{{0,63}}\Z)(?:{_WORD})?",
    }.items()
}
_NOT_RUN = (
    *("dns1123LabelPrefix", "dns1123SubdomainPrefix", "dns1035LabelPrefix"),
    *("uri", "uuid", "byte", "date", "datetime"),
)


def _validate(format_: dict[str, str], text: str) -> list[list[str]]:
    name = format_[FORMAT]
    return [] if _FORMS[name].fullmatch(text) else [[f"{text!r} is not of the format {name}"]]


def _named(name: str) -> Function:
    run = (lambda: opaque(FORMAT, name)) if name in _FORMS else None
    return Function(f"format.{name}", (), FORMAT, run, 31, is_member=False)


def _value(option: list[Any]) -> Any:
    if not option:
        raise ValueError("optional.none() dereference")
    return option[0]


_OPTION = "optional_type<list<string>>"
FUNCTIONS = (
    *map(_named, (*_FORMS, *_NOT_RUN)),
    Function("format.named", ("string",), f"optional_type<{FORMAT}>", None, 31, is_member=False),
    Function("validate", (FORMAT, "string"), _OPTION, _validate, 31),
)
OPTIONS = (
    Function("hasValue", ("list<string>",), "bool", bool),
    Function("value", ("list<string>",), "list<string>", _value),
)
"""What runs for an optional value that `validate` gave. Nobody declares them: an expression knows an optional value."""
