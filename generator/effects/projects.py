"""AppProjects that permit more or less than before: projects.yaml has their lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from generator.checks.objects import ChangedObject
from generator.documents.messages import escape_control
from generator.effects.effect import Risk
from generator.effects.places import join
from generator.effects.subjects import Statement
from generator.facts.table import read_rows
from generator.manifests import Manifest
from generator.objects.fields import items, mapping
from generator.upstream.argocd.patterns import compile_glob

_PROJECT = ("argoproj.io", "AppProject")
_LISTED = 5  # entries in a sentence
_Entry = tuple[str, ...]
"""The values of an entry, in the order of the keys of its list."""


@dataclass(frozen=True, slots=True)
class _List:
    """A row of projects.yaml."""

    field: str
    kind: str
    opens: str
    closes: str
    keys: tuple[str, ...] = ()
    unlimited: str = ""
    limited: str = ""

    def read(self, project: Manifest) -> Sequence[_Entry] | None:
        """Return the entries of a project; None if it has no such list."""
        value = mapping(project.body, "spec").get(self.field)
        if value is None:
            return None
        return [
            tuple(_text(item.get(key)) for key in self.keys) if isinstance(item, dict) else (_text(item),)
            for item in items(value)
        ]

    def is_denied(self, entry: _Entry) -> bool:
        """Return True if an entry rejects something."""
        return self.kind == "deny" or any(value.startswith("!") for value in entry)

    def describe(self, entry: _Entry) -> str:
        """Return an entry in words: ``namespace `*` of cluster `https://example.com` ``."""
        values = [escape_control(value.removeprefix("!")) for value in entry]
        if self.field == "destinations":
            return f"namespace `{values[0]}` of cluster `{values[1] or values[2]}`"
        if self.keys == ("kind", "group"):
            return f"`{'/'.join(filter(None, reversed(values)))}`"
        return f"`{values[0]}`"


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


@cache
def _lists() -> tuple[_List, ...]:
    return read_rows("projects", "rows", _List, "generator.effects")


def compare_projects(item: ChangedObject) -> Iterator[Statement]:
    """Yield the entries of the lists of an AppProject that the update adds or removes."""
    if (item.new.group, item.new.kind) != _PROJECT:
        return
    for row in _lists():
        for text, entries, risk in _compare(row, row.read(item.old), row.read(item.new)):
            listed = [*dict.fromkeys(map(row.describe, entries))]
            more = [f"{len(listed) - _LISTED} more"] if len(listed) > _LISTED else []
            verb, _, rest = text.replace("{values}", join([*listed[:_LISTED], *more])).partition(" ")
            details = tuple(listed) if more else ()
            yield Statement("AppProject", item.new.name, verb, rest, risk, details, (item.new,))


def _compare(
    row: _List, old: Sequence[_Entry] | None, new: Sequence[_Entry] | None
) -> Iterator[tuple[str, Sequence[_Entry], Risk]]:
    """Yield (sentence, entries, risk) of the entries that open a project, and of the entries that close it."""
    if row.kind == "only" and (old is None) != (new is None):
        yield (row.unlimited, (), Risk.HIGH) if new is None else (row.limited, new, Risk.MEDIUM)
        return
    before, after = old or (), new or ()
    if row.field == "destinations" and _is_other_cluster(before, after):
        return  # the topic `destination` reports it
    added = [entry for entry in after if not any(_covers(other, entry) for other in before)]
    removed = [entry for entry in before if not any(_covers(other, entry) for other in after)]
    denied = [entry for entry in removed if row.is_denied(entry)]
    opened = [*(entry for entry in added if not row.is_denied(entry)), *denied]
    closed = [entry for entry in (*added, *removed) if entry not in opened]
    if opened:
        is_wide = bool(denied) or any("*" in value for entry in opened for value in entry)
        yield row.opens, opened, Risk.HIGH if is_wide else Risk.MEDIUM
    if closed:
        yield row.closes, closed, Risk.MEDIUM


def _is_other_cluster(old: Collection[_Entry], new: Collection[_Entry]) -> bool:
    """Return True if the destinations differ only in their cluster."""
    return {entry[0] for entry in old} == {entry[0] for entry in new} and len(old) == len(new)


def _covers(pattern: _Entry, entry: _Entry) -> bool:
    """Return True if two entries are equal, or if the patterns of the first one match the second one."""
    return pattern == entry or all(map(_matches, pattern, entry))


def _matches(pattern: str, value: str) -> bool:
    """Return True if a pattern matches a value or a pattern. A value with `!` matches only itself."""
    if pattern == value or "!" in (pattern[:1], value[:1]):
        return pattern == value
    expression = compile_glob(pattern)
    return bool(expression and expression.fullmatch(value))
