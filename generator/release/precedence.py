"""Which of two releases is the newer one."""

from __future__ import annotations

import re

_Size = tuple[int, str]
"""The number of digits, and the digits: Python reads no integer of more than 4,300 digits."""


def precedence(version: str) -> tuple[list[_Size], bool, list[tuple[bool, _Size, str]]]:
    """A sort key for versions: numbers as numbers, a pre-release before its release (semver.org, 11)."""
    core, _, pre = version.partition("+")[0].partition("-")
    return [_size(number) for number in re.findall(r"[0-9]+", core)], not pre, [_rank(one) for one in pre.split(".")]


def _size(digits: str) -> _Size:
    significant = digits.lstrip("0")
    return len(significant), significant


def _rank(identifier: str) -> tuple[bool, _Size, str]:
    """A sort key for a part of a pre-release: numbers by size and before words, which go by their letters."""
    return (False, _size(identifier), "") if identifier.isdecimal() else (True, (0, ""), identifier)
