"""Settings of ClusterQueues that decide which jobs start, wait or stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from generator.facts.table import read_rows


@dataclass(frozen=True, slots=True)
class QueueSetting:
    """A field of a ClusterQueue with a fixed set of values.

    Attributes:
        path: the field below `spec`.
        default: the value of an absent field.
        values: value → its meaning, as the predicate of a sentence about the jobs of the queue.
    """

    path: tuple[str, ...]
    default: str
    values: Mapping[str, str]


QUEUE_SETTINGS = read_rows("queue_settings", "settings", QueueSetting)
"""The settings, in the order of the table."""
