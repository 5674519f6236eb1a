"""Format values and paths of documents for messages, and parse paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_LONGEST = 60  # characters of a value, so that a message fits one line of a terminal
_LONGEST_KEY = 320  # characters; a label key has at most 317


def format_value(value: object) -> str:
    """Return a value for a message, short and on one line."""
    if value is None:
        return "null"
    if value == "":
        return "an empty string"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{shorten(text, _LONGEST)}`"


def shorten(text: str, longest: int) -> str:
    """Cut a long text, and escape control characters, which a terminal would execute."""
    if len(text) > longest:
        text = f"{text[: longest - 3]}..."
    return escape_control(text)


def escape_control(text: str) -> str:
    """Escape control characters, which a terminal would execute: names come from files of other people."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def escape_lines(text: str) -> str:
    """Escape control characters, except the line ends of a text."""
    return "\n".join(map(escape_control, text.split("\n")))


def format_names(names: Iterable[object], word: str = "and") -> str:
    """Return a list of names for a message: "`a`, `b` and `c`"."""
    quoted = [f"`{name}`" for name in names]
    return f" {word} ".join(part for part in (", ".join(quoted[:-1]), *quoted[-1:]) if part)


def format_path(path: Sequence[str | int], root: str = "") -> str:
    """Write a path for a message: `spec.containers[0].image`; keys with dots or slashes are quoted.

    >>> format_path(("metadata", "labels", "example.com/a", 0))
    'metadata.labels["example.com/a"][0]'
    """
    text = root
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step and len(step) <= _LONGEST_KEY and all(letter.isalnum() or letter in "-_$" for letter in step):
            text += f".{step}" if text else step
        else:
            quoted = step.replace("\\", r"\\").replace('"', r"\"")
            text += f'["{shorten(quoted, _LONGEST_KEY)}"]'
    return text


_STEP = re.compile(r'\[(?P<index>\d+)\]|\["(?P<quoted>(?:[^"\\]|\\.)*)"\]|\.?(?P<key>[^.\[]+)')


def parse_path(text: str) -> tuple[str | int, ...]:
    """Read a path that `format_path` wrote, without its root `$`. Shortened steps stay short.

    >>> parse_path('$.metadata.labels["example.com/a"][0]')
    ('metadata', 'labels', 'example.com/a', 0)
    """
    steps: list[str | int] = []
    for step in _STEP.finditer(text.removeprefix("$")):
        if step["index"] is not None:
            steps.append(int(step["index"]))
        else:
            steps.append(re.sub(r"\\(.)", r"\1", step["quoted"]) if step["quoted"] is not None else step["key"])
    return tuple(steps)
