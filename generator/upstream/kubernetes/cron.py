"""The schedule and the time zone of a CronJob, as the API server parses them.

A schedule has five fields: minute, hour, day of the month, month and day of the week, from 0 for Sunday to 6. Or it is
a preset such as `@daily`, or `@every` with a duration such as `1h30m`.

Sources: kubernetes v1.34.2 pkg/apis/batch/validation/validation.go validateScheduleFormat; kubernetes v1.34.2
pkg/apis/batch/validation/validation.go validateTimeZone; robfig/cron v3.0.1 parser.go ParseStandard; robfig/cron v3.0.1
spec.go dayMatches
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

_PRESETS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_DURATION = re.compile(r"[+-]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_SPACES = re.compile(r"[\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
"""The white space of Go's strings.Fields."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTHS = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
"""Month → its days, for the months with fewer than 31."""
_STARS = ("*", "?")


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a schedule: its name in messages, its least and greatest value, and the names of values."""

    name: str
    least: int
    most: int
    names: Mapping[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of the month", 1, 31, {}),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    _Field("day of the week", 0, 6, {name: number for number, name in enumerate(_WEEKDAYS)}),
)


def find_schedule_problem(text: str) -> str:
    """Return why the API server cannot parse a schedule, as the rest of a sentence; empty if it can.

    Args:
        text: the schedule, not empty.
    """
    if "TZ" in text:
        return "contains a time zone"
    if text.startswith("@"):
        is_known = text in _PRESETS or (text.startswith("@every ") and _DURATION.fullmatch(text[len("@every ") :]))
        return "" if is_known else "is no preset"
    parts = _split(text)
    if len(parts) != len(_FIELDS):
        return f"has {len(parts)} fields, not {len(_FIELDS)}"
    for part, field in zip(parts, _FIELDS, strict=True):
        if _values(part, field) is None:
            return f"has the {field.name} `{part}`, which is not from {field.least} to {field.most}"
    return ""


def never_runs(text: str) -> bool:
    """Return True if no date matches a schedule that the API server accepts, such as February 30.

    The CronJob controller then creates no Job. If a schedule restricts the day of the month and the day of the week, a
    date matches if one of both does.
    """
    if text.startswith("@"):
        return False
    parts = _split(text)
    minutes, hours, days, months, weekdays = (
        _values(part, field) or frozenset() for part, field in zip(parts, _FIELDS, strict=True)
    )
    if not (minutes and hours and months):
        return True
    has_date = any(min(days, default=32) <= _LONGEST_MONTHS.get(month, 31) for month in months)
    if _has_star(parts[2]) or _has_star(parts[4]):
        return not (has_date and weekdays)
    return not (has_date or weekdays)


def is_time_zone(name: str) -> bool:
    """Return True if the API server accepts a time zone: a name of the IANA database, such as `Europe/Berlin`.

    Without that database on this machine, each well-formed name is a time zone.
    """
    parts = name.split("/")
    if any(part in (".", "..") or not re.fullmatch(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*", part) for part in parts):
        return False
    if name.lower() == "local":
        return False
    return name in _time_zones() or parts[0] in ("posix", "right")


def _split(text: str) -> list[str]:
    return [part for part in _SPACES.split(text) if part]


def _has_star(part: str) -> bool:
    """Return True if an item of a field is `*` or `?` without a step, which matches every value."""
    items = (item.partition("/") for item in part.split(","))
    return any(first.split("-")[0] in _STARS and step in ("", "1") for first, _, step in items)


def _values(part: str, field: _Field) -> frozenset[int] | None:
    """Return the values that a field of a schedule selects; None if cron does not parse it."""
    values: set[int] = set()
    for item in part.split(","):
        selected = _range(item, field) if item else range(0)
        if selected is None:
            return None
        values.update(selected)
    return frozenset(values)


def _range(text: str, field: _Field) -> range | None:
    """Return the values of `*`, `5`, `1-5`, `*/15` or `mon-fri`; None if cron does not parse it."""
    whole, *steps = text.split("/")
    bounds = _bounds(whole, field)
    step = _number(steps[0]) if steps else 1
    if bounds is None or len(steps) > 1 or not step:
        return None
    start, end = bounds
    if steps and "-" not in whole:
        end = field.most
    return range(start, end + 1, step) if field.least <= start <= end <= field.most else None


def _bounds(text: str, field: _Field) -> tuple[int, int] | None:
    """Return the first and the last value of `*`, `5`, `1-5` or `mon-fri`; None if cron does not parse it."""
    first, *ends = text.split("-")
    if first in _STARS:
        return field.least, field.most
    numbers = [field.names.get(part.lower(), _number(part)) for part in (first, *ends)]
    start, end = numbers[0], numbers[-1]
    return None if len(ends) > 1 or start is None or end is None else (start, end)


def _number(text: str) -> int | None:
    """Return a number that Go's Atoi parses and that is not negative; else None."""
    return int(text) if re.fullmatch(r"[+]?[0-9]{1,18}|-0{1,18}", text) else None


@cache
def _time_zones() -> frozenset[str]:
    """Return the time zones of the package `tzdata` and of this machine, because either can lack old names."""
    import zoneinfo  # for CronJobs only

    return frozenset(zoneinfo.available_timezones())
