"""Known defects of upstream releases: the affected releases, and the checks that report them.

`defects.yaml` has one row per defect, in the form of `defects.schema.json`. A check reads its version range and its
link from the row. docs/reference/upstream-defects.md is generated from the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from generator.facts.table import read_rows, read_table
from generator.facts.versions import NAMES, SUPPORTED, minors

Release = tuple[int, ...]
"""The numbers of a version, such as (0, 18, 3)."""


@dataclass(frozen=True, slots=True)
class Range:
    """Releases of a component that have a defect.

    Attributes:
        introduced: the first affected release.
        fixed: the first release with a fix; empty if there is none.
        last_affected: the newest release that was examined, if no release has a fix.
    """

    introduced: str
    fixed: str = ""
    last_affected: str = ""

    def __str__(self) -> str:
        """Return the range as text, such as `2.2.0 to 2.3.0`, `0.18 before 0.18.5` or `before 1.34.4`."""
        if self.fixed:
            first, fixed = parse_release(self.introduced), parse_release(self.fixed)
            return f"{first[0]}.{first[1]} before {self.fixed}" if first[:2] == fixed[:2] else f"before {self.fixed}"
        return " to ".join(dict.fromkeys((self.introduced, self.last_affected)))

    def covers(self, release: Release) -> bool | None:
        """Return True if a release is in the range; None if it is newer than every examined release."""
        if release < parse_release(self.introduced):
            return False
        if self.fixed:
            return release < parse_release(self.fixed)
        return True if release <= parse_release(self.last_affected) else None


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect of an upstream component: a row of defects.yaml.

    Attributes:
        component: the component with the wrong code. `cluster.versions` of a platform file may lack it.
        symptom: the symptom that a user sees.
        answer: what mpigen does about the defect.
        affected: component → the releases that have the defect. With several components, all must be affected.
        sources: citations of the code at a pinned release that shows the defect: module, version, path, declaration.
        verified: `controllers` if a test shows the defect on the real controllers, `source` if only the code shows it.
        tests: `file::function` of the tests that cover the defect.
        report: the upstream issue or pull request; empty if none is known.
        fix: the upstream change with the fix; empty if none is known.
        checks: check → `affected` if the check runs only for releases with a defect, else `always`.
        refuses: fields of the platform file that mpigen rejects for affected releases.
    """

    id: str
    component: str
    title: str
    symptom: str
    answer: str
    affected: Mapping[str, tuple[Range, ...]]
    sources: tuple[str, ...]
    verified: str
    tests: tuple[str, ...]
    report: str = ""
    fix: str = ""
    checks: Mapping[str, str] = field(default_factory=dict)
    refuses: tuple[str, ...] = ()

    def affects(self, targets: Mapping[str, str]) -> bool:
        """Return True if the target releases have the defect, or are newer than every examined release.

        Args:
            targets: component → minor version. A missing component has its newest supported version.
        """
        return all(
            self.is_in(component, _pinned(component, targets.get(component))) is not False
            for component in self.affected
        )

    def is_in(self, component: str, version: str) -> bool | None:
        """Return True if a release of a component has the defect; None if it is newer than every examined release."""
        release = parse_release(version)
        answers = {affected.covers(release) for affected in self.affected[component]}
        return True if True in answers else None if None in answers else False

    @property
    def note(self) -> str:
        """Return the affected releases and the upstream report as the end of a message."""
        return f"defect of {self.releases}" + (f", {self.link}" if self.link else "")

    @property
    def releases(self) -> str:
        """Return the releases that have the defect, such as `Kueue 0.18 before 0.18.5`."""
        return " with ".join(
            f"{NAMES.get(component, component)} {' and '.join(map(str, ranges))}"
            for component, ranges in self.affected.items()
        )

    @property
    def link(self) -> str:
        """Return the report, or else the fix, in the short form of GitHub, such as `kubeflow/trainer#3779`; else ''."""
        owner, _, rest = (self.report or self.fix).removeprefix("https://github.com/").partition("/")
        name, _, number = rest.partition("/")
        return f"{owner}/{name}#{number.rpartition('/')[2]}" if number else ""

    def upgrade(self, component: str, sound: Collection[str]) -> str:
        """Return the upgrade that avoids the defect, such as `Kueue to 0.19.1 or later`.

        Args:
            component: the component to upgrade.
            sound: its minor versions that avoid the defect.
        """
        fixed = [release.fixed for release in self.affected[component] if release.fixed.rpartition(".")[0] in sound]
        return f"{NAMES.get(component, component)} to {(fixed or [f'{min(sound, key=parse_release)}.0'])[0]} or later"

    @property
    def update(self) -> str:
        """Return the releases of the first component with the fix, such as `Kueue 0.18.5 or 0.19.1`; else ''."""
        component, ranges = next(iter(self.affected.items()))
        fixed = [affected.fixed for affected in ranges if affected.fixed]
        return f"{NAMES.get(component, component)} {' or '.join(fixed)}" if fixed else ""


def parse_release(version: str) -> Release:
    """Return the numbers of a version, with or without a leading `v`.

    Raises:
        ValueError: the version has a part that is not a number.
    """
    return tuple(int(part) for part in version.removeprefix("v").split("."))


def _parse_range(row: Mapping[str, str]) -> Range:
    return Range(row["introduced"], row.get("fixed", ""), row.get("lastAffected", ""))


@cache
def defects() -> Mapping[str, Defect]:
    """Return all defects by id, in the order of the file."""
    affected = {
        row["id"]: {name: tuple(map(_parse_range, ranges)) for name, ranges in row["affected"].items()}
        for row in read_table("defects")["defects"]
    }
    return {row.id: replace(row, affected=affected[row.id]) for row in read_rows("defects", "defects", Defect)}


def known(name: str) -> Defect:
    """Return the defect of defects.yaml whose id is `name`."""
    return defects()[name]


@cache
def _inapplicable_checks(targets: frozenset[tuple[str, str]]) -> frozenset[str]:
    checks: dict[str, bool] = {}
    for defect in defects().values():
        affects = defect.affects(dict(targets))
        for check, condition in defect.checks.items():
            if condition == "affected":
                checks[check] = checks.get(check, False) or affects
    return frozenset(check for check, is_needed in checks.items() if not is_needed)


def inapplicable_checks(targets: Mapping[str, str]) -> frozenset[str]:
    """Return the checks that run only for releases with certain defects, none of which the targets have."""
    return _inapplicable_checks(frozenset(targets.items()))


def find_rejecting_defect(field_path: str, targets: Mapping[str, str]) -> Defect | None:
    """Return the first defect of the targets because of which mpigen rejects a field of the platform file.

    Return None if mpigen accepts the field.
    """
    rows = (defect for defect in defects().values() if field_path in defect.refuses and defect.affects(targets))
    return next(rows, None)


def sound_minors(defect: Defect, targets: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Return component → supported minor versions that avoid a defect while the other components keep their targets.

    The result lacks components without such a version.
    """
    sound = {
        component: tuple(minor for minor in minors(component) if not defect.affects({**targets, component: minor}))
        for component in defect.affected
    }
    return {component: versions for component, versions in sound.items() if versions}


def _pinned(component: str, minor: str | None) -> str:
    """Return the supported release of a minor version, such as `0.19.2`; of the newest one if `minor` is None."""
    versions = [row.version for row in SUPPORTED if row.name == component and minor in (None, row.minor)]
    return versions[0] if versions else f"{minor}.0"
