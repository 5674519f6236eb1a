"""`tenants[].reservations`: more quota for a while."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import AfterValidator, Field

from generator.config.fields import Name, Section, Text, refusal
from generator.config.shares import Shares
from generator.documents.syntax import shown


def _is_day(value: str) -> str:
    try:
        day = dt.date.fromisoformat(value)
    except ValueError:
        day = None
    if day is None or day.isoformat() != value:
        raise refusal(f"{shown(value)} is not a day", "write it like 2027-03-31")
    return value


Day = Annotated[str, Field(strict=True), AfterValidator(_is_day)]
"""A day in the form `2027-03-31`."""


class Reservation(Section):
    """Quota that a team has until a day, on top of its own."""

    name: Name
    """What it is for, such as `neurips`."""
    quota: Annotated[Shares, Field(min_length=1)]
    """How much, in the forms of the team's quota."""
    until: Day
    """The last day. From the next on a finding says that it is over: nothing changes by itself in a cluster."""
    reason: Text
    """Why, for whoever reviews it."""
