"""Values as the YAML file has them, for messages: what a comment swallows, and numbers in another form."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SWALLOWED = re.compile(r"^[^#]*:[ \t]+(#[^\s#]\S*)")
_NUMBER = re.compile(r"([-+]?[0-9][0-9A-Za-z_.]*)")


def find_swallowed(lines: Sequence[str], line: int, column: int) -> str:
    """Return the text after a key that YAML reads as a comment, such as `#x` of `contact: #x`; empty without one.

    A `#` before a blank begins an ordinary comment, so the function returns no such text.

    Args:
        lines: the lines of the file.
        line: the 1-based line of the key.
        column: the 1-based column of the key.
    """
    return _match(_SWALLOWED, lines, line, column)


def find_number(lines: Sequence[str], line: int, column: int) -> str:
    """Return the number at a place as the file has it, such as `0x102`; empty if there is none.

    Args:
        lines: the lines of the file.
        line: the 1-based line of the value.
        column: the 1-based column of the value.
    """
    return _match(_NUMBER, lines, line, column)


def _match(pattern: re.Pattern[str], lines: Sequence[str], line: int, column: int) -> str:
    match = pattern.match(lines[line - 1][column - 1 :]) if 0 < line <= len(lines) else None
    return match[1] if match else ""


def explain_null(text: str) -> tuple[str, str]:
    """Return the reason and the fix for a key without a value because of a comment.

    Args:
        text: the text that YAML reads as a comment.
    """
    return f"YAML reads `{text}` as a comment", f'put the value in quotes: `"{text}"`'


def keep_form(message: str, value: float, text: str) -> str:
    """Return a message with a number as the file has it: `0x102` in place of `258`.

    Args:
        message: the message, with the number in backticks.
        value: the number.
        text: the number in the file.
    """
    return message.replace(f"`{value}`", f"`{text}`", 1) if text else message
