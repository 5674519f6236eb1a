"""Upstream releases that mpigen supports: the versions in `platform.yaml`, and the sources of the schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from generator.facts.table import read_rows, read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """An upstream project at one release: a row of versions.yaml, which explains the fields."""

    name: str
    minor: str
    module: str
    version: str
    sum: str = ""
    folder: str
    source: str
    files: str = "*.yaml"

    def definition_files(self, module: Path) -> list[Path]:
        """Return the files with API definitions in the folder of a downloaded Go module, sorted."""
        return sorted(file for pattern in self.files.split() for file in (module / self.folder).glob(pattern))


SUPPORTED = read_rows("versions", "components", Component)
TOGETHER: tuple[Mapping[str, str], ...] = tuple(row["versions"] for row in read_table("versions")["together"])
"""Releases that only work with each other: component → minor version."""


def minors(name: str) -> tuple[str, ...]:
    """Return the versions of a component that `platform.yaml` may name, newest first; empty if none is known."""
    return tuple(component.minor for component in SUPPORTED if component.name == name)
