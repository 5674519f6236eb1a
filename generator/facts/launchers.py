"""Programs that start ranks, such as `mpirun`, and their options (launchers.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

from generator.facts.table import read_rows

Meaning = Literal[
    "processes",
    "per_host",
    "one_per_host",
    "mapping",
    "hostfile",
    "hosts",
    "host_count",
    "alone",
    "oversubscribe",
    "variables",
    "variable_pairs",
    "parameters",
    "flags",
    "values",
    "pairs",
]
_WORDS: Mapping[Meaning, int] = {
    **dict.fromkeys(("one_per_host", "alone", "oversubscribe", "flags"), 0),
    **dict.fromkeys(("processes", "per_host", "mapping", "hostfile", "hosts", "host_count", "variables", "values"), 1),
    **dict.fromkeys(("variable_pairs", "parameters", "pairs"), 2),
}
"""Meaning of an option → the number of words that the option takes."""


@dataclass(frozen=True)
class Launcher:
    """A program that starts ranks, with the names of its options by meaning; launchers.yaml explains the fields."""

    name: str
    title: str
    programs: tuple[str, ...]
    dashes: str
    excess: str
    source: str
    modules: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    per_host: tuple[str, ...] = ()
    one_per_host: tuple[str, ...] = ()
    mapping: tuple[str, ...] = ()
    hostfile: tuple[str, ...] = ()
    default_hostfile: str = ""
    hosts: tuple[str, ...] = ()
    host_count: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    oversubscribe: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    variable_pairs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    missing: str = ""

    def find_option(self, word: str) -> tuple[Meaning, int] | None:
        """Return the meaning of an option and the number of words that it takes; None if the option is unknown."""
        name = re.sub("^--?", "", word) if self.dashes == "any" else word
        return self._options.get(name)

    @cached_property
    def _options(self) -> Mapping[str, tuple[Meaning, int]]:
        return {name: (meaning, words) for meaning, words in _WORDS.items() for name in getattr(self, meaning)}


@cache
def launchers() -> tuple[Launcher, ...]:
    """Return all rows of launchers.yaml, in its order."""
    return read_rows("launchers", "launchers", Launcher)


@cache
def launcher_programs() -> frozenset[str]:
    """Return the names of the programs and Python modules that start ranks."""
    return frozenset(name for row in launchers() for name in (*row.programs, *row.modules))
