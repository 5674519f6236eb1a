"""Credentials in a platform file, whose messages must not repeat them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from generator.documents.exposed import Exposure
from generator.errors import Problem

EXPOSED_FIX = "take it out, declare it stolen, and let `tenants[].secrets` fetch a new one"
_TOLD = 12  # characters: messages cut a long value off, and its beginning is secret as well


def without_secrets(
    problems: Iterable[Problem], outside: Sequence[Exposure], values: Iterable[str], file: str
) -> tuple[Problem, ...]:
    """Return the problems of a file with those of its credentials, and without any problem that repeats one.

    Args:
        problems: what is wrong with the file, credentials in values included.
        outside: credentials anywhere else in the file.
        values: the values that hold the others.
        file: the file as the user named it.
    """
    secrets = {secret[:_TOLD] for secret in (*(each.secret for each in outside), *values) if secret}
    told = [each for each in problems if not any(secret in str(each) for secret in secrets)]
    told += [
        Problem(f"{each.what} stands in this line, for all to read", EXPOSED_FIX, file, each.line, each.column)
        for each in outside
    ]
    return tuple(sorted(told, key=lambda problem: (problem.line, problem.column)))


def value_at(data: Any, path: Iterable[str | int]) -> Any:
    """Return the value at a path of plain data."""
    for step in path:
        data = data[step]
    return data
