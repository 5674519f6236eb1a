"""Deprecated and removed versions and fields of Kubernetes APIs (api_versions.yaml)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from generator.facts.table import read_rows, read_table


def is_reached(minor: str, release: str) -> bool:
    """Return True if the minor version `minor` is `release` or a later one; False if one of the two is empty."""
    return bool(minor and release) and _number(minor) >= _number(release)


def _number(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))


def next_minor(minor: str) -> str:
    """Return the next minor version after `minor`, such as `1.35` after `1.34`."""
    *major, last = _number(minor)
    return ".".join(map(str, (*major, last + 1)))


def component_name(component: str) -> str:
    """Return the name of a component for messages, such as `Kubernetes`."""
    name: str = read_table("api_versions")["components"][component]
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    """A deprecated or removed version of some kinds: a row of api_versions.yaml, which explains the fields."""

    api: str
    kinds: tuple[str, ...]
    component: str
    deprecated: str
    removed: str = ""
    replacement: str = ""
    replacement_kind: str = ""
    served_by: str = ""
    instead: str = ""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiField:
    """A deprecated or removed field: a row of api_versions.yaml, which explains the fields."""

    api: str
    kind: str
    path: tuple[str, ...]
    value: str = ""
    component: str
    deprecated: str = ""
    inert: str = ""
    gate: str = ""
    locked: str = ""
    removed: str = ""
    instead: str
    source: str

    def places(self, body: object) -> Iterator[tuple[str | int, ...]]:
        """Yield each path in an object that has the field, and its `value` if the row has one."""
        return find_places(body, self.path, [self.value] if self.value else ())


VERSIONS = read_rows("api_versions", "versions", ApiVersion)
FIELDS = read_rows("api_versions", "fields", ApiField)


@cache
def _by_kind() -> Mapping[tuple[str, str], ApiVersion]:
    return {(row.api, kind): row for row in VERSIONS for kind in row.kinds}


def find_version(api: str, kind: str) -> ApiVersion | None:
    """Return the row of api_versions.yaml for an apiVersion and kind; None if there is none."""
    return _by_kind().get((api, kind))


def replacing_rows(row: ApiVersion, kind: str, minor: str) -> Iterator[ApiVersion]:
    """Yield a row, and the rows of its replacements that a minor version deprecates too.

    The replacement of the last row is the version to write for this minor version.
    """
    yield row
    newer = find_version(row.replacement, row.replacement_kind or kind)
    if newer and newer.replacement and is_reached(minor, newer.deprecated):
        yield from replacing_rows(newer, row.replacement_kind or kind, minor)


@cache
def fields_of(api: str, kind: str) -> Sequence[ApiField]:
    """Return the fields of a kind in the table. `v1` and `Pod` have the fields of all pod templates."""
    return [row for row in FIELDS if (row.api, row.kind) == (api, kind)]


def find_places(value: object, path: Sequence[str], values: Sequence[object] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield each path in an object that matches `path` and has one of these values; no values allow every value.

    In `path`, `[]` matches list items, and `prefix*` keys with this prefix.
    """
    if not path:
        if not values or value in values:
            yield ()
        return
    first, rest = path[0], path[1:]
    steps: list[str | int] = []
    if first == "[]":
        steps = list(range(len(value))) if isinstance(value, list) else []
    elif isinstance(value, dict) and first.endswith("*"):
        steps = [key for key in value if isinstance(key, str) and key.startswith(first[:-1])]
    elif isinstance(value, dict) and first in value:
        steps = [first]
    for step in steps:
        for place in find_places(value[step], rest, values):  # type: ignore[index]
            yield (step, *place)
