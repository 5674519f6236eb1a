"""Changes by upgrades of components: the rows of upgrades.yaml, which explains the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from generator.facts.api_versions import is_reached, next_minor
from generator.facts.table import read_rows, read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A version that an upgrade must not skip; without `version`, each minor version."""

    component: str
    version: str = ""
    why: str
    source: str

    def forbids(self, before: str, after: str) -> bool:
        """Return True if one step from `before` to `after` would skip the version."""
        if not self.version:
            return after != next_minor(before)
        return not is_reached(before, self.version) and is_reached(after, self.version) and after != self.version


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of the value at a path in an object."""

    path: tuple[str, ...]
    comparison: str
    value: str | int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects that a change hits. Exactly one of `has_changed_pods`, `is_rejected`, `served` and `kinds` is set.

    Attributes:
        has_changed_pods: True for the TrainJobs whose pods change.
        is_rejected: True for the TrainJobs that the webhooks reject after the step.
        served: an API version, whose objects and clients count.
        kinds: (group, kind) of the objects.
        is_of_cluster: True to leave out the objects of the release.
        parts: the path of the parts of an object that the conditions read; empty for the whole object.
        where: the conditions, which must all hold for one part.
    """

    has_changed_pods: bool = False
    is_rejected: bool = False
    served: str = ""
    kinds: frozenset[tuple[str, str]] = frozenset()
    is_of_cluster: bool = False
    parts: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Selection:
        """Return the selection of the key `hits` of a row."""
        kinds = ((group, kind) for kind, _, group in (text.partition(".") for text in row.get("kinds", ())))
        return cls(
            row.get("changedPods", False),
            row.get("rejected", False),
            row.get("served", ""),
            frozenset(kinds),
            row.get("in") == "cluster",
            tuple(row.get("each", ())),
            tuple(Condition(tuple(item["path"]), item["is"], item.get("value")) for item in row.get("where", ())),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A change by the upgrade of a component to a version: a row of upgrades.yaml, which explains the fields."""

    id: str
    component: str
    version: str
    impact: str
    is_announced: bool
    text: str
    before: str
    after: str
    hits: Selection
    source: str

    def happens(self, before: str, after: str) -> bool:
        """Return True if an upgrade of the component from one minor version to a later one reaches the change."""
        return not self.version or (is_reached(after, self.version) and not is_reached(before, self.version))


STOPS = read_rows("upgrades", "stops", Stop)


@cache
def upgrade_changes() -> tuple[Change, ...]:
    """Return the changes, in the order of the file."""
    return tuple(
        Change(
            row["id"],
            row["component"],
            row.get("version", ""),
            row["class"],
            row.get("announced", False),
            row["text"],
            row.get("before", ""),
            row.get("after", ""),
            Selection.of_row(row["hits"]),
            row["source"],
        )
        for row in read_table("upgrades")["changes"]
    )
