"""What Google's CEL in C++ says where something is wrong → what the API server says, whose CEL is in Go."""

from __future__ import annotations

import re

UNSET = "no value of the variable "
"""What an error begins with where a variable is read that has no value, because it is an error itself."""
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
"""What Google's CEL in C++ says → what it says in Go."""


def words(error: RuntimeError) -> str:
    """All that the compiler says, on one line."""
    return "; ".join(all_words(error))


def all_words(error: RuntimeError) -> list[str]:
    """What the compiler says, without the places, which are not those of the text as it was written."""
    said = [match["words"] for match in _ERROR.finditer(str(error))] or [str(error).splitlines()[0]]
    return [re.sub(r"__(\w+?)__", r"\1.", words).removesuffix(" (in container '')") for words in said]


def in_go(words: str) -> str:
    """What evaluating it would have said in Go; as it is, where nobody has compared."""
    for pattern, instead in _SAID:
        if pattern.search(words):
            return pattern.sub(instead, words)
    return words
