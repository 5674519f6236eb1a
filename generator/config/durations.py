"""Spans of time as Go writes them: 30s, 15m, 1h30m."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from generator.config.fields import refusal
from generator.documents.syntax import shown

_UNITS = {"h": 3600, "m": 60, "s": 1}
_PATTERN = "(?=.)" + "".join(f"([0-9]{{1,7}}{unit})?" for unit in _UNITS)
_FORM = re.compile(_PATTERN)
_EXAMPLE = "write it like 90s, 30m or 1h30m"


def seconds(duration: str) -> int:
    """How long a canonical duration is."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall("([0-9]+)([hms])", duration))


def canonical_duration(value: Any) -> str:
    """The shortest way to write a duration: what is 90m for one and 1h30m for the other is the same platform.

    Whole seconds in Go's own units (time.ParseDuration), since the Kueue operator of OpenShift takes nothing finer.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise refusal(f"{shown(value)} has no unit", _EXAMPLE)
    if not isinstance(value, str) or not _FORM.fullmatch(value):
        raise refusal(f"{shown(value)} is not a duration", _EXAMPLE)
    rest, parts = seconds(value), []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def between(least: str, most: str) -> AfterValidator:
    """A rule for a duration that is neither shorter nor longer."""

    def check(value: str) -> str:
        if seconds(value) < seconds(least):
            raise refusal(f"{shown(value)} is too short", f"write at least {least}")
        if seconds(value) > seconds(most):
            raise refusal(f"{shown(value)} is too long", f"write at most {most}")
        return value

    return AfterValidator(check)


Duration = Annotated[
    str,
    BeforeValidator(canonical_duration),
    WithJsonSchema({"type": "string", "pattern": f"^{_PATTERN}$", "examples": ["90s", "30m", "1h30m"]}),
]
