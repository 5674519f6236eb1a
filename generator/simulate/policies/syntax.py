"""Tokens of CEL expressions, and rewrites of expressions for cel-expr-python.

The grammar is in https://github.com/google/cel-spec/blob/v0.24.0/doc/langdef.md (Syntax).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from generator.simulate.policies.environment import TYPED, flat_name
from generator.simulate.policies.signatures import IS

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
    |(?P<text>(?:[rR][bB]?|[bB][rR])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')   # raw: a backslash is a letter
      |[bB]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<number>\d[\w.]*)
    |(?P<word>[_a-zA-Z]\w*)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)

_REMEMBERED = 64  # expressions: each is looked through several times in a row
_CONVERSIONS = {"string", "int", "uint", "double", "bool", "bytes", "duration", "timestamp"}


class Token(NamedTuple):
    """A word, string, number or sign, with its position."""

    kind: str
    text: str
    start: int
    end: int


class Reading(NamedTuple):
    """A variable that an expression reads, with its fields: `request.userInfo`.

    Attributes:
        root: the variable.
        fields: those named after it, one after another.
        ends: where the root ends, and then each field.
        start: where the root begins.
        certain: how many of the fields come before the first that may be absent (`.?`).
        is_tested: whether all that is asked is whether the last field is there: `has(request.name)`.
        bracket: what follows the last field if it is an index: `[`, or `[?` of one that may be absent; else empty.
    """

    root: str
    fields: tuple[str, ...]
    ends: tuple[int, ...]
    start: int
    certain: int
    is_tested: bool
    bracket: str


@lru_cache(_REMEMBERED)
def tokenize(expression: str) -> tuple[Token, ...]:
    """Return the tokens without blanks and comments; an unterminated string becomes signs."""
    found = (Token(str(one.lastgroup), one.group(), one.start(), one.end()) for one in _TOKEN.finditer(expression))
    return tuple(token for token in found if token.kind != "space")


def find_readings(expression: str) -> Iterator[Reading]:
    """Yield the variables that an expression reads, including those of its comprehensions."""
    words = tokenize(expression)
    for index, token in enumerate(words):
        before, after = _text(words, index - 1), _text(words, index + 1)
        is_field = before == "." or (before == "?" and _text(words, index - 2) == ".")
        if token.kind == "word" and not is_field and after != "(":
            yield _reading(words, index)


def find_conversions(expression: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of the arguments of conversions such as `string(…)` and `int(…)`."""
    words = tokenize(expression)
    for index, token in enumerate(words):
        if token.text in _CONVERSIONS and _text(words, index - 1) != "." and _text(words, index + 1) == "(":
            end = _closing(words, index + 1)
            if end is not None:
                yield words[index + 1].end, words[end].start


def _closing(words: Sequence[Token], opening: int) -> int | None:
    depth = 0
    for index in range(opening, len(words)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(words[index].text, 0)
        if depth == 0:
            return index
    return None


def _reading(words: Sequence[Token], index: int) -> Reading:
    fields: list[str] = []
    ends = [words[index].end]
    certain, at = None, index + 1
    while _text(words, at) == ".":
        is_optional = _text(words, at + 1) == "?"
        at += 2 if is_optional else 1
        if at >= len(words) or words[at].kind != "word" or _text(words, at + 1) == "(":  # the name of a function
            break
        certain = len(fields) if is_optional and certain is None else certain
        fields.append(words[at].text)
        ends.append(words[at].end)
        at += 1
    is_tested = _text(words, index - 2) == "has" and _text(words, index - 1) == "(" and _text(words, at) == ")"
    number = len(fields) if certain is None else certain
    bracket = _text(words, at) if _text(words, at) == "[" else ""
    opened = f"[{'?' if _text(words, at + 1) == '?' else ''}" if bracket else ""
    return Reading(words[index].text, tuple(fields), tuple(ends), words[index].start, number, is_tested, opened)


def _text(words: Sequence[Token], at: int) -> str:
    return words[at].text if 0 <= at < len(words) else ""


OPTIONAL_READING = "$[?0]"
"""The expression that reads an optional variable."""
_VARIABLES = "variables"
_Change = tuple[int, int, str]


def rewrite_for_check(text: str, found: Collection[Reading], variables: Collection[str]) -> str:
    """Replace variables of the policy and fields of known types with flat names."""
    changes = []
    for each in found:
        if _is_variable(each, variables):
            changes.append(_variable(each, text, "$"))
        elif each.root in TYPED and not each.is_tested and (path := _known_path(each)):
            changes.append((each.start, each.ends[len(path) - 1], flat_name(path)))
    return _changed(text, changes)


def rewrite_for_evaluation(
    text: str, found: Collection[Reading], variables: Mapping[str, str], converted: Collection[tuple[int, int, str]]
) -> str:
    """Replace variables of the policy with flat names, and guard optional selections on null.

    Args:
        text: what was written.
        found: what it reads.
        variables: the policy's own: name → how one that is called `$` is read.
        converted: start, end and type of what is converted: Go converts nothing else than what it takes it for.
    """
    changes = [each for start, end, type_ in converted for each in ((start, start, f"{IS}{type_}("), (end, end, ")"))]
    for each in found:
        if _is_variable(each, variables):
            changes.append(_variable(each, text, _form(each, variables[each.fields[0]])))
        elif each.root != _VARIABLES and _asks(each, 0):
            changes.append((each.start, each.ends[0], _or_nothing(each.root)))
    return _changed(text, changes)


def _form(reading: Reading, form: str) -> str:
    """Return the expression that reads a variable: in Go an optional value has no fields.

    cel-go v0.26.0 interpreter/attributes.go `applyQualifiers` opens only what an attribute begins with, which here is
    the mapping of all variables.
    """
    if form == OPTIONAL_READING and (len(reading.fields) > 1 or reading.bracket):
        return "{}"
    return _or_nothing(form) if _asks(reading, 1) else form


def _asks(reading: Reading, length: int) -> bool:
    """Return True if the expression tests whether the first fields have the next one."""
    is_last = len(reading.fields) == length
    if is_last:
        return reading.bracket == "[?"
    return reading.certain == length or (reading.is_tested and len(reading.fields) == length + 1)


def _or_nothing(name: str) -> str:
    """Replace null with an empty map: C++ fails on an optional selection of null, Go does not."""
    return f"({name} == null ? {{}} : {name})"


def _is_variable(reading: Reading, variables: Collection[str]) -> bool:
    return reading.root == _VARIABLES and bool(reading.fields) and reading.fields[0] in variables


def _variable(reading: Reading, text: str, form: str) -> _Change:
    """Return the change for a variable of the policy, which always exists."""
    if reading.is_tested and len(reading.fields) == 1:
        return text.rindex("has", 0, reading.start), text.index(")", reading.ends[1]) + 1, "true"
    name = form.replace("$", flat_name((_VARIABLES, reading.fields[0])))
    return reading.start, reading.ends[1], name if reading.certain else f"optional.of({name})"


def _known_path(reading: Reading) -> tuple[str, ...]:
    fields: Any = TYPED[reading.root]
    for length, name in enumerate(reading.fields[: reading.certain], start=2):
        fields = fields[name]
        if isinstance(fields, str):
            return (reading.root, *reading.fields)[:length]
    return ()


def _changed(text: str, changes: list[_Change]) -> str:
    for start, end, instead in sorted(changes, reverse=True):
        text = text[:start] + instead + text[end:]
    return text
