"""Which of two releases is the newer one."""

from __future__ import annotations

import re


def precedence(version: str) -> tuple[list[int], bool, list[tuple[bool, int, str]]]:
    """A sort key for versions: numbers as numbers, a pre-release before its release (semver.org, 11)."""
    core, _, pre = version.partition("+")[0].partition("-")
    return [int(number) for number in re.findall(r"[0-9]+", core)], not pre, [_rank(one) for one in pre.split(".")]


def _rank(identifier: str) -> tuple[bool, int, str]:
    """A sort key for a part of a pre-release: numbers by size and before words, which go by their letters."""
    return (False, int(identifier), "") if identifier.isdecimal() else (True, 0, identifier)
