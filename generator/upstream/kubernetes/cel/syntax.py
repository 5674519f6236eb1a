"""Tokens of CEL expressions, and rewrites of expressions for the Python package cel-expr-python.

The grammar is in https://github.com/google/cel-spec/blob/v0.24.0/doc/langdef.md (Syntax).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from generator.upstream.kubernetes.cel.environment import TYPED, flat_name
from generator.upstream.kubernetes.cel.signatures import IS

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
_CACHED = 512  # expressions; several functions read the same expression, and a release has fewer
_CONVERSIONS = {"string", "int", "uint", "double", "bool", "bytes", "duration", "timestamp"}


_STRING = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"")


def find_strings(text: str) -> Iterator[str]:
    """Yield the strings in an expression that can name a user or a group: not empty, and without prefix `system:`."""
    names = (name for pair in _STRING.findall(text) for name in pair)
    yield from (name for name in names if name and not name.startswith("system:"))


class Token(NamedTuple):
    """A word, string, number or sign, with its position in the expression."""

    kind: str
    text: str
    start: int
    end: int


class Reading(NamedTuple):
    """A variable that an expression reads, with the selected fields: `request.userInfo`.

    Attributes:
        root: the variable.
        fields: the selected fields, in order.
        ends: the position after the root, and after each field.
        start: the position of the root.
        certain: number of fields before the first optional selection (`.?`).
        is_tested: True if the expression only tests whether the last field exists: `has(request.name)`.
        bracket: `[` or `[?` if an index follows the last field; else empty.
    """

    root: str
    fields: tuple[str, ...]
    ends: tuple[int, ...]
    start: int
    certain: int
    is_tested: bool
    bracket: str


@lru_cache(_CACHED)
def tokenize(expression: str) -> tuple[Token, ...]:
    """Return the tokens of an expression without blanks and comments. The quote of an unterminated string is a sign."""
    return tuple(
        Token(match.lastgroup or "", match[0], *match.span())
        for match in _TOKEN.finditer(expression)
        if match.lastgroup != "space"
    )


@lru_cache(_CACHED)
def find_readings(expression: str) -> tuple[Reading, ...]:
    """Return the reads of variables in an expression, including the variables of its comprehensions."""
    return tuple(_find_readings(expression))


def _find_readings(expression: str) -> Iterator[Reading]:
    tokens = tokenize(expression)
    for index, token in enumerate(tokens):
        if token.kind != "word" or _text(tokens, index + 1) == "(":
            continue
        before = _text(tokens, index - 1)
        if before != "." and not (before == "?" and _text(tokens, index - 2) == "."):
            yield _read_fields(tokens, index)


def find_conversions(expression: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each argument of a conversion such as `string(…)` or `int(…)`."""
    tokens = tokenize(expression)
    for index, token in enumerate(tokens):
        if token.text in _CONVERSIONS and _text(tokens, index - 1) != "." and _text(tokens, index + 1) == "(":
            end = _find_closing(tokens, index + 1)
            if end is not None:
                yield tokens[index + 1].end, tokens[end].start


def find_elements(expression: str) -> set[str]:
    """Return the first variable of each comprehension: `device` in `devices.all(device, device != '')`."""
    tokens = tokenize(expression)
    texts = [token.text for token in tokens]
    return {
        texts[index]
        for index in range(3, len(tokens) - 1)
        if tokens[index].kind == "word" and (texts[index - 3], texts[index - 1], texts[index + 1]) == (".", "(", ",")
    }


def can_rename(text: str, reading: Reading) -> bool:
    """Return False if a read of a variable can be the beginning of the name of a function or type: `math.greatest`."""
    return not text[reading.ends[-1] :].lstrip().startswith((".", "{", "//"))


def _find_closing(tokens: Sequence[Token], opening: int) -> int | None:
    depth = 0
    for index in range(opening, len(tokens)):
        text = tokens[index].text
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if depth == 0:
            return index
    return None


def _read_fields(tokens: Sequence[Token], index: int) -> Reading:
    """Return the variable at an index of the tokens, with the selected fields after it."""
    fields: list[str] = []
    ends = [tokens[index].end]
    certain, position = None, index + 1
    while _text(tokens, position) == ".":
        is_optional = _text(tokens, position + 1) == "?"
        position += 2 if is_optional else 1
        if position >= len(tokens) or tokens[position].kind != "word" or _text(tokens, position + 1) == "(":
            break  # a method call, or no field
        certain = len(fields) if is_optional and certain is None else certain
        fields.append(tokens[position].text)
        ends.append(tokens[position].end)
        position += 1
    is_tested = [_text(tokens, at) for at in (index - 2, index - 1, position)] == ["has", "(", ")"]
    bracket = ""
    if _text(tokens, position) == "[":
        bracket = "[?" if _text(tokens, position + 1) == "?" else "["
    number = len(fields) if certain is None else certain
    return Reading(tokens[index].text, tuple(fields), tuple(ends), tokens[index].start, number, is_tested, bracket)


def _text(tokens: Sequence[Token], index: int) -> str:
    return tokens[index].text if 0 <= index < len(tokens) else ""


OPTIONAL_READING = "$[?0]"
"""The CEL that reads a policy variable with an optional value; `$` is the flat name of the variable."""
_VARIABLES = "variables"
_Change = tuple[int, int, str]
"""Start, end, and the text that replaces the part between them."""


def rewrite_for_check(
    text: str, readings: Collection[Reading], variables: Mapping[str, str], elements: Mapping[str, str]
) -> str:
    """Replace policy variables and typed fields by flat names: `request.name` → `__request__name`.

    Args:
        text: the expression.
        readings: the reads of variables in the expression.
        variables: policy variable → its flat name.
        elements: variable of a comprehension around the expression → its flat name.
    """
    changes = []
    for reading in readings:
        if _is_variable(reading, variables):
            changes.append(_replace_variable(reading, text, variables[reading.fields[0]]))
        elif reading.root in elements:
            changes.append((reading.start, reading.ends[0], elements[reading.root]))
        elif reading.root in TYPED and not reading.is_tested and (path := _typed_path(reading)):
            changes.append((reading.start, reading.ends[len(path) - 1], flat_name(path)))
    return apply_changes(text, changes)


def rewrite_for_evaluation(
    text: str, readings: Collection[Reading], variables: Mapping[str, str], conversions: Collection[_Change]
) -> str:
    """Rewrite an expression so that cel-expr-python evaluates it as CEL in Go does.

    Policy variables get flat names: `variables.a` → `__variables__0`. An optional selection accepts null:
    `x.?a` → `(x == null ? {} : x).?a`. An argument of a conversion must have its checked type:
    `string(x)` → `string(__is_int(x))`.

    Args:
        text: the expression.
        readings: the reads of variables in the expression.
        variables: policy variable → the CEL that reads its value.
        conversions: (start, end, type) of each argument of a conversion.
    """
    changes = [
        change for start, end, type_ in conversions for change in ((start, start, f"{IS}{type_}("), (end, end, ")"))
    ]
    for reading in readings:
        if _is_variable(reading, variables):
            form = _reading_form(reading, variables[reading.fields[0]])
            changes.append(_replace_variable(reading, text, form))
        elif reading.root != _VARIABLES and _tests_field(reading, 0):
            changes.append((reading.start, reading.ends[0], _guard_null(reading.root)))
    return apply_changes(text, changes)


def _reading_form(reading: Reading, form: str) -> str:
    """Return the CEL that reads a policy variable. As in Go, an optional value has no fields.

    cel-go v0.26.0 interpreter/attributes.go applyQualifiers unwraps only the root of an attribute: here, the
    mapping of all variables.
    """
    if form.endswith(OPTIONAL_READING.removeprefix("$")) and (len(reading.fields) > 1 or reading.bracket):
        return "{}"
    return _guard_null(form) if _tests_field(reading, 1) else form


def _tests_field(reading: Reading, length: int) -> bool:
    """Return True if the expression tests whether the field after the first `length` fields exists."""
    if len(reading.fields) == length:
        return reading.bracket == "[?"
    return reading.certain == length or (reading.is_tested and len(reading.fields) == length + 1)


def _guard_null(name: str) -> str:
    """Return CEL that reads a name, with {} for null: an optional selection of null fails in C++, but not in Go."""
    return f"({name} == null ? {{}} : {name})"


def _is_variable(reading: Reading, variables: Collection[str]) -> bool:
    return reading.root == _VARIABLES and bool(reading.fields) and reading.fields[0] in variables


def _replace_variable(reading: Reading, text: str, name: str) -> _Change:
    """Return the change that replaces a read of a policy variable; `has(variables.a)` becomes `true`."""
    if reading.is_tested and len(reading.fields) == 1:
        return text.rindex("has", 0, reading.start), text.index(")", reading.ends[1]) + 1, "true"
    return reading.start, reading.ends[1], name if reading.certain else f"optional.of({name})"


def _typed_path(reading: Reading) -> tuple[str, ...]:
    fields: Any = TYPED[reading.root]
    for length, name in enumerate(reading.fields[: reading.certain], start=2):
        fields = fields[name]
        if isinstance(fields, str):
            return (reading.root, *reading.fields)[:length]
    return ()


def apply_changes(text: str, changes: Collection[_Change]) -> str:
    """Return the text with the changes applied."""
    for start, end, replacement in sorted(changes, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text
