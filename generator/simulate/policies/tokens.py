"""The words of a CEL expression, as far as one must know them to see which variables it reads.

The grammar is in https://github.com/google/cel-spec/blob/v0.24.0/doc/langdef.md (Syntax).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

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
    """A word, a text, a number or a sign, and where it stands."""

    kind: str
    text: str
    start: int
    end: int


class Reading(NamedTuple):
    """A variable that an expression reads, and the fields of it that it names: `request.userInfo` of `request`.

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
def tokens(expression: str) -> tuple[Token, ...]:
    """All tokens but blanks and comments; a text that does not end is cut into signs, as nobody can compile it."""
    found = (Token(str(one.lastgroup), one.group(), one.start(), one.end()) for one in _TOKEN.finditer(expression))
    return tuple(token for token in found if token.kind != "space")


def readings(expression: str) -> Iterator[Reading]:
    """The variables that an expression reads; also those of its own comprehensions, which look alike."""
    words = tokens(expression)
    for index, token in enumerate(words):
        before, after = _text(words, index - 1), _text(words, index + 1)
        is_field = before == "." or (before == "?" and _text(words, index - 2) == ".")
        if token.kind == "word" and not is_field and after != "(":
            yield _reading(words, index)


def conversions(expression: str) -> Iterator[tuple[int, int]]:
    """Where the arguments of conversions stand: of `string(…)`, `int(…)` and the like."""
    words = tokens(expression)
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
