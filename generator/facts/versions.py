"""Upstream releases that mpigen supports: the versions in `platform.yaml`, and the sources of the schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    default: bool = False

    def definition_files(self, module: Path) -> list[Path]:
        """Return the files with API definitions in the folder of a downloaded Go module, sorted."""
        return sorted(file for pattern in self.files.split() for file in (module / self.folder).glob(pattern))


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """An upstream version whose code mpigen has not read: a row of versions.yaml, which explains the fields."""

    name: str
    minor: str
    after: str
    changes: tuple[Mapping[str, str], ...]
    removes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """Versions of two components that need each other: a row of versions.yaml, which explains the fields."""

    component: str
    first: str
    last: str
    needs: str
    least: str
    most: str
    why: str
    source: str

    @classmethod
    def of_row(cls, row: Mapping[str, str]) -> Need:
        """Return the need of a row."""
        ends = row["from"], row.get("to", "")
        return cls(row["component"], *ends, row["needs"], row["least"], row.get("most", ""), row["why"], row["source"])

    def explain(self, targets: Mapping[str, str]) -> str:
        """Return why some versions do not work together; empty if they do, or if a version is unknown."""
        version, other = targets.get(self.component, ""), targets.get(self.needs, "")
        if not (version and other and _is_between(version, self.first, self.last)):
            return ""
        if _is_between(other, self.least, self.most):
            return ""
        mine, needed = NAMES.get(self.component, self.component), NAMES.get(self.needs, self.needs)
        return f"{mine} {version} needs {needed} {self.accepted}, not {other}: {self.why}"

    @property
    def requirement(self) -> str:
        """The need as a sentence, such as `Trainer 2.3 needs JobSet 0.12`."""
        mine, needed = NAMES.get(self.component, self.component), NAMES.get(self.needs, self.needs)
        return f"{mine} {self.first} needs {needed} {self.accepted}"

    @property
    def accepted(self) -> str:
        """The versions that it needs, such as `2.3 or newer`."""
        end = "" if self.most == self.least else f" to {self.most}" if self.most else " or newer"
        return f"{self.least}{end}"


NAMES = {
    "argocd": "Argo CD",
    "jobset": "JobSet",
    "kubernetes": "Kubernetes",
    "kueue": "Kueue",
    "kustomize-controller": "Flux",
    "trainer": "Trainer",
}
"""The names of components in messages."""
SUPPORTED = read_rows("versions", "components", Component)
ANNOUNCED = read_rows("versions", "announced", Announced)
OPENSHIFT_RELEASES: Mapping[str, str] = {
    row["kubernetes"]: row["release"] for row in read_table("versions")["openshift"]
}
"""Minor version of Kubernetes → the release of OpenShift with it, newest first."""
SETS: tuple[Need, ...] = tuple(map(Need.of_row, read_table("versions")["sets"]))


def minors(name: str) -> tuple[str, ...]:
    """Return the versions of a component whose code mpigen follows, newest first; empty if none is known."""
    return tuple(component.minor for component in SUPPORTED if component.name == name)


def default_minor(name: str) -> str:
    """Return the version of a component that a platform file without `cluster.versions` gets."""
    return next(
        (component.minor for component in SUPPORTED if component.name == name and component.default), minors(name)[0]
    )


def accepted_minors(name: str) -> tuple[str, ...]:
    """Return the versions of a component that `platform.yaml` may name, with the announced ones at the end."""
    return (*minors(name), *(row.minor for row in ANNOUNCED if row.name == name))


def find_announced(name: str, minor: str) -> Announced | None:
    """Return the row of an announced version; None for another version."""
    return next((row for row in ANNOUNCED if (row.name, row.minor) == (name, minor)), None)


def followed_minor(name: str, minor: str) -> str:
    """Return the version whose code mpigen follows for a version: for an announced one, the version before."""
    row = find_announced(name, minor)
    return row.after if row else minor


def describe_announced(targets: Mapping[str, str]) -> Iterator[str]:
    """Yield the announced versions among some targets, such as `Kueue 0.20`."""
    for row in ANNOUNCED:
        if targets.get(row.name) == row.minor:
            yield f"{NAMES.get(row.name, row.name)} {row.minor}"


def find_conflicts(targets: Mapping[str, str]) -> Iterator[tuple[Need, str]]:
    """Yield (row, message) for each pair of versions that does not work.

    Args:
        targets: component → minor version.
    """
    for need in SETS:
        if message := need.explain(targets):
            yield need, message


def _is_between(minor: str, first: str, last: str) -> bool:
    return _numbers(first) <= _numbers(minor) and (not last or _numbers(minor) <= _numbers(last))


def _numbers(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))
