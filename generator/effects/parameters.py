"""Changed parameters of admission rules: values in annotations of a Namespace that the rules allow or reject."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache

from generator.checks.objects import Change, ChangedObject
from generator.documents.messages import format_names, shorten
from generator.effects.effect import Effect, Risk
from generator.effects.places import Places
from generator.effects.subjects import Statement, merge
from generator.errors import NotModelledError
from generator.facts.names import PARAMETER, TENANT_LABEL
from generator.facts.table import read_rows
from generator.manifests import Manifest
from generator.objects.fields import mapping, mappings, string_map
from generator.quantities import amount_of

_TOPIC = "admission"
_LISTED = 3
_ACCOUNT = re.compile(r"user:system:serviceaccount:([^:]+):([^:]+)")


@dataclass(frozen=True, slots=True)
class _List:
    """A parameter that is a list (parameters.yaml)."""

    name: str
    gains: str
    loses: str
    gain_risk: str
    lose_risk: str
    separator: str = ","
    of_object: bool = False

    def read(self, annotations: Mapping[str, str]) -> list[str]:
        return [entry for entry in annotations.get(f"{PARAMETER}{self.name}", "").split(self.separator) if entry]


@dataclass(frozen=True, slots=True)
class _Value:
    """A parameter that is a single value (parameters.yaml)."""

    name: str
    raised: str
    lowered: str
    absent: str
    raise_risk: str
    lower_risk: str
    of_kind: str = ""


@cache
def _lists() -> tuple[_List, ...]:
    return read_rows("parameters", "lists", _List, "generator.effects")


@cache
def _values() -> tuple[_Value, ...]:
    return read_rows("parameters", "values", _Value, "generator.effects")


def find_parameter_effects(change: Change) -> Iterator[Effect]:
    """Yield the changed parameters of the teams' Namespaces that stay, one effect for equal changes."""
    pairs = [
        pair
        for pair in ChangedObject.between(change)
        if (pair.new.group, pair.new.kind) == ("", "Namespace") and TENANT_LABEL in pair.new.labels
    ]
    if pairs:
        yield from merge(_TOPIC, _Parameters(change).statements(pairs))


def find_read_parameters(change: Change) -> Iterator[tuple[tuple[str, str, str, str], str]]:
    """Yield (identity of a Namespace, annotation) of each changed parameter; another order of a list is no change.

    `find_parameter_effects` yields an effect of the parameter, or the effects of other objects explain the parameter.
    """
    for pair in ChangedObject.between(change):
        if (pair.new.group, pair.new.kind) != ("", "Namespace") or TENANT_LABEL not in pair.new.labels:
            continue
        was, now = (string_map(mapping(item.body, "metadata", "annotations")) for item in (pair.old, pair.new))
        names = [row.name for row in _lists() if set(row.read(was)) != set(row.read(now))]
        names += [
            row.name for row in _values() if was.get(PARAMETER + row.name, "") != now.get(PARAMETER + row.name, "")
        ]
        yield from ((pair.new.identity, f"{PARAMETER}{name}") for name in names)


class _Parameters:
    """The parameters of admission rules before and after an update."""

    def __init__(self, change: Change) -> None:
        """Collect the objects that the update touches, by namespace."""
        self._places = Places.of(change)
        touched = [*change.all_added, *change.all_removed, *(pair.new for pair in ChangedObject.between(change))]
        self._names = {(item.namespace, item.name) for item in touched if item.kind != "Namespace"}
        self._kinds = {(item.namespace, item.kind) for item in touched}
        self._subjects = {(item.namespace, subject) for item in touched for subject in _subjects(item)}

    def statements(self, pairs: list[ChangedObject]) -> Iterator[Statement]:
        """Yield the changes of each Namespace."""
        for pair in pairs:
            was, now = (string_map(mapping(item.body, "metadata", "annotations")) for item in (pair.old, pair.new))
            if was != now:
                yield from self._of_lists(pair.new, was, now)
                yield from self._of_values(pair.new, was, now)

    def _of_lists(self, home: Manifest, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Statement]:
        for row in _lists():
            before, after = row.read(was), row.read(now)
            for entries, others, sentence, risk in (
                (after, before, row.gains, row.gain_risk),
                (before, after, row.loses, row.lose_risk),
            ):
                known = set(others)
                changed = [one for one in entries if one not in known and not self._is_explained(row, home.name, one)]
                if changed:
                    names = [shorten(_without_kind(row, entry), 80) for entry in changed]
                    values = format_names(names) if len(names) <= _LISTED else f"{len(names)} values"
                    text = sentence.replace("{values}", values)
                    details = tuple(names) if len(names) > _LISTED else ()
                    data: tuple[list[str], list[str]] = (before, after)
                    yield self._statement(home, text, Risk(risk), details, data)

    def _of_values(self, home: Manifest, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Statement]:
        for row in _values():
            before, after = (side.get(f"{PARAMETER}{row.name}", "") for side in (was, now))
            if before == after or (row.of_kind and (home.name, row.of_kind) in self._kinds):
                continue
            is_raised = _size(after, row.absent) > _size(before, row.absent)
            sentence, risk = (row.raised, row.raise_risk) if is_raised else (row.lowered, row.lower_risk)
            text = sentence.format(before=before or row.absent, after=after or row.absent)
            yield self._statement(home, text, Risk(risk), (), (before, after))

    def _statement(
        self,
        home: Manifest,
        text: str,
        risk: Risk,
        details: tuple[str, ...],
        data: tuple[list[str], list[str]] | tuple[str, str],
    ) -> Statement:
        noun, name = self._places.name(home.name)
        verb, _, rest = text.partition(" ")
        return Statement(noun, name, verb, rest, risk, details, (home,), *data)

    def _is_explained(self, row: _List, namespace: str, entry: str) -> bool:
        """Return True if the update touches the object of an entry, so that other effects explain the entry."""
        if row.name == "subjects":
            return (namespace, entry) in self._subjects
        if row.name == "sessions":
            subject = _ACCOUNT.sub(r"serviceaccount:\1/\2", entry.partition(" ")[2])
            return (namespace, subject) in self._subjects
        if not row.of_object:
            return False
        name = entry.partition("=")[0].rpartition("/")[2]
        return bool({("", name), (namespace, name)} & self._names)


def _subjects(item: Manifest) -> AbstractSet[str]:
    """Return the subjects of a RoleBinding, in the form of a platform file."""
    if item.kind != "RoleBinding":
        return frozenset()
    return {
        f"serviceaccount:{subject.get('namespace', item.namespace)}/{subject.get('name')}"
        if subject.get("kind") == "ServiceAccount"
        else f"{str(subject.get('kind')).lower()}:{subject.get('name')}"
        for subject in mappings(item.body.get("subjects"))
    }


def _without_kind(row: _List, entry: str) -> str:
    is_runtime = row.name == "runtimes" and "/" in entry
    return entry.partition("/")[2] if is_runtime else entry


def _size(value: str, absent: str) -> float:
    """Return a value as a number, for a comparison: infinity for no limit, 1 for `true`, 0 if it is no quantity."""
    text = value or absent
    if text == "true":
        return 1
    if text == "any number of":
        return float("inf")
    try:
        amount = amount_of(text)
    except NotModelledError:
        return 0
    return float(amount) if amount is not None else 0
