"""Known defects of upstream releases: which releases have them, and which checks and refusals answer them.

`defects.yaml` has one row per defect, in the form of `defects.schema.json`. A check reads its version range and its
link from the row. docs/reference/upstream-defects.md is written from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from generator.documents.load import load
from generator.facts.versions import SUPPORTED, minors

_FILE = "defects.yaml"
_NAMES: Mapping[str, str] = {
    "argocd": "Argo CD",
    "jobset": "JobSet",
    "kubernetes": "Kubernetes",
    "kueue": "Kueue",
    "trainer": "Trainer",
}

Release = tuple[int, ...]
"""The numbers of a version, such as (0, 18, 3)."""


@dataclass(frozen=True, slots=True)
class Range:
    """Releases of a component that have a defect.

    Attributes:
        introduced: the first one.
        fixed: the first one that no longer has it, if a release does.
        last_affected: if none does, the newest one that was looked at.
    """

    introduced: str
    fixed: str = ""
    last_affected: str = ""

    def __str__(self) -> str:
        """Return the range in words, such as `2.2.0 to 2.3.0` or `0.18 before 0.18.5`."""
        if self.fixed:
            first, fixed = parse_release(self.introduced), parse_release(self.fixed)
            return f"{first[0]}.{first[1]} before {self.fixed}" if first[:2] == fixed[:2] else f"before {self.fixed}"
        return (
            self.introduced if self.introduced == self.last_affected else f"{self.introduced} to {self.last_affected}"
        )

    def covers(self, release: Release) -> bool | None:
        """Return True if the release has the defect; None if it is newer than all that were looked at."""
        if release < parse_release(self.introduced):
            return False
        if self.fixed:
            return release < parse_release(self.fixed)
        return True if release <= parse_release(self.last_affected) else None


@dataclass(frozen=True)
class Defect:
    """A row of the data.

    Attributes:
        id: a stable name.
        component: the component whose code is wrong, which may be one that no target names.
        title: the defect in one sentence.
        symptom: what a user sees.
        answer: what mpigen does about it.
        affected: component → the releases that have the defect. With several components, all must be affected.
        report: the issue or pull request; empty if none is known.
        fix: the change that mends it; empty if none is known.
        sources: files at a pinned release that show it.
        checks: check → whether the check exists only because of such defects.
        refuses: fields of the platform file that are refused where the defect is.
        is_run: whether a test shows it on the real controllers; else it was read in the sources alone.
        tests: `file::function` of the tests that hold it.
    """

    id: str
    component: str
    title: str
    symptom: str
    answer: str
    affected: Mapping[str, tuple[Range, ...]]
    report: str
    fix: str
    sources: tuple[str, ...]
    checks: Mapping[str, bool]
    refuses: tuple[str, ...]
    is_run: bool
    tests: tuple[str, ...]

    def affects(self, targets: Mapping[str, str]) -> bool:
        """Return True if the releases that are judged for have the defect.

        Args:
            targets: component → minor version. A component that is missing has its newest supported version.
        """
        return all(
            self.is_in(component, _pinned(component, targets.get(component))) is not False
            for component in self.affected
        )

    def is_in(self, component: str, version: str) -> bool | None:
        """Return True if a release of a component has the defect, and None if nobody has looked at it."""
        release = parse_release(version)
        found = {each.covers(release) for each in self.affected[component]}
        return True if True in found else None if None in found else False

    @cached_property
    def note(self) -> str:
        """The releases and the link, for the end of a message."""
        return f"defect of {self.releases}" + (f", {self.link}" if self.link else "")

    @property
    def releases(self) -> str:
        """The releases that have the defect, such as `Kueue 0.18 before 0.18.5`."""
        return " with ".join(_told(component, ranges) for component, ranges in self.affected.items())

    @property
    def link(self) -> str:
        """The report as GitHub abbreviates it, such as `kubeflow/trainer#3779`."""
        owner, _, rest = (self.report or self.fix).removeprefix("https://github.com/").partition("/")
        name, _, number = rest.partition("/")
        return f"{owner}/{name}#{number.rpartition('/')[2]}" if number else ""

    @property
    def update(self) -> str:
        """The releases to change to, such as `Kueue 0.18.5 or 0.19.1`; empty while no release has the fix."""
        component, ranges = next(iter(self.affected.items()))
        fixed = [each.fixed for each in ranges if each.fixed]
        return f"{_name(component)} {' or '.join(fixed)}" if fixed else ""


def parse_release(version: str) -> Release:
    """Return the numbers of a version, with or without a leading `v`.

    Raises:
        ValueError: it has other parts than numbers.
    """
    return tuple(int(part) for part in version.removeprefix("v").split("."))


@cache
def defects() -> Mapping[str, Defect]:
    """Return all rows by id, in the order of the file."""
    (document,) = load(files("generator.facts").joinpath(_FILE).read_bytes())
    return {row["id"]: _defect(row) for row in document.data["defects"]}


def known(name: str) -> Defect:
    """Return the row with an id."""
    return defects()[name]


@cache
def _silent(targets: frozenset[tuple[str, str]]) -> frozenset[str]:
    there, needed = set(), set()
    for defect in defects().values():
        own = {check for check, is_only_for_defects in defect.checks.items() if is_only_for_defects}
        there |= own
        if defect.affects(dict(targets)):
            needed |= own
    return frozenset(there - needed)


def silent(targets: Mapping[str, str]) -> frozenset[str]:
    """Return the checks that exist only because of defects which the releases that are judged for do not have."""
    return _silent(frozenset(targets.items()))


def refusing(field: str, targets: Mapping[str, str]) -> Defect | None:
    """Return the first defect because of which a field of the platform file is refused for these releases."""
    found = (each for each in defects().values() if field in each.refuses and each.affects(targets))
    return next(found, None)


def sound_minors(defect: Defect, targets: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Return component → the supported minor versions that would not have the defect beside the other targets."""
    found = {
        component: tuple(each for each in minors(component) if not defect.affects({**targets, component: each}))
        for component in defect.affected
    }
    return {component: without for component, without in found.items() if without}


def _defect(row: Mapping[str, Any]) -> Defect:
    return Defect(
        id=row["id"],
        component=row["component"],
        title=row["title"],
        symptom=row["symptom"],
        answer=row["answer"],
        affected={name: tuple(map(_range, ranges)) for name, ranges in row["affected"].items()},
        report=row.get("report", ""),
        fix=row.get("fix", ""),
        sources=tuple(row["sources"]),
        checks={check: when == "affected" for check, when in row.get("checks", {}).items()},
        refuses=tuple(row.get("refuses", ())),
        is_run=row["verified"] == "controllers",
        tests=tuple(row["tests"]),
    )


def _range(row: Mapping[str, str]) -> Range:
    return Range(row["introduced"], row.get("fixed", ""), row.get("lastAffected", ""))


def _pinned(component: str, minor: str | None) -> str:
    """Return the release that stands for a minor version."""
    versions = [each.version for each in SUPPORTED if each.name == component and minor in (None, each.minor)]
    return versions[0] if versions else f"{minor}.0"


def _told(component: str, ranges: Iterable[Range]) -> str:
    return f"{_name(component)} {' and '.join(map(str, ranges))}"


def _name(component: str) -> str:
    return _NAMES.get(component, component)
