"""The environment variables that differ between the hosts of a job; `host_variables.yaml` has one row for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from generator.documents.load import load

_FILE = "host_variables.yaml"
Keeper = Literal["host", "device", "process"]


@dataclass(frozen=True, slots=True)
class HostVariable:
    """A variable, or a family of them, whose value is not shared by all hosts of a job.

    Attributes:
        name: a name, or the start of names if it ends with `*`.
        keeps: which value ranks get. `host`: the host's. `device`: the host's if it has one, else the launcher's.
            `process`: none.
        reason: why the value belongs to one host.
        source: where upstream sets the variable.
    """

    name: str
    keeps: Keeper
    reason: str
    source: str

    @property
    def pattern(self) -> str:
        """Return a POSIX extended regular expression that matches the names."""
        return self.name.replace("*", "[^=]*")


@cache
def host_variables() -> tuple[HostVariable, ...]:
    """Return all rows of the table, in its order."""
    text = files("generator.facts").joinpath(_FILE).read_bytes()
    (document,) = (found.data for found in load(text) if isinstance(found.data, dict))
    rows: list[dict[str, Any]] = document["variables"]
    return tuple(HostVariable(**row) for row in rows)


@cache
def patterns() -> Mapping[Keeper, str]:
    """Return one POSIX extended regular expression for the names of each kind of variable."""
    kinds: dict[Keeper, list[str]] = {}
    for row in host_variables():
        kinds.setdefault(row.keeps, []).append(row.pattern)
    return MappingProxyType({keeps: "|".join(each) for keeps, each in kinds.items()})


def row_of(name: str) -> HostVariable | None:
    """Return the row of a variable that hosts never take from the launcher, None for any other variable."""
    rows = (row for row in host_variables() if row.keeps != "device")
    return next((row for row in rows if re.fullmatch(row.pattern, name)), None)
