"""The day on which is judged what ends on a day."""

from __future__ import annotations

import datetime as dt
import os

from generator.errors import ConfigError, Problem

_EPOCH = "SOURCE_DATE_EPOCH"


def today() -> dt.date:
    """That of SOURCE_DATE_EPOCH, so that a build can be repeated (reproducible-builds.org), or else of the clock; UTC.

    Raises:
        ConfigError: the variable is no number of seconds since 1970, or one beyond all calendars.
    """
    written = os.environ.get(_EPOCH)
    if written is None:
        return dt.datetime.now(dt.UTC).date()
    try:
        return dt.datetime.fromtimestamp(int(written), dt.UTC).date()
    except (ValueError, OverflowError, OSError):
        message = f"the variable {_EPOCH} is no number of seconds since 1970"
        raise ConfigError((Problem(message, "remove it, or write it like 1798761600"),)) from None
