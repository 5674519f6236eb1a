"""The findings that a run reports, after settings, waivers, baseline and revision."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from generator.adoption.baseline import ChangedFiles, new_findings
from generator.adoption.settings import Settings, matches, relative
from generator.adoption.waivers import Waivers
from generator.checks.finding import Finding
from generator.manifests import Manifest


def _every(_check: str) -> bool:
    return True


def _no_text(_file: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Run:
    """The facts about a run of the checks that waivers and baselines depend on.

    Attributes:
        objects: the objects with the annotation `mpigen.dev/waive`.
        files: the files of which all objects were checked; empty if single files were checked, so that no waiver is
            unused.
        is_covered: returns True for a check that the run performed.
        text_of: returns the text of a file.
    """

    objects: Sequence[Manifest] = ()
    files: Sequence[str] = ()
    is_covered: Callable[[str], bool] = _every
    text_of: Callable[[str], str] = _no_text


@dataclass(frozen=True, slots=True)
class Outcome:
    """The reported findings, and the number of unreported findings by reason."""

    findings: list[Finding]
    hidden: dict[str, int]


@dataclass(frozen=True, slots=True)
class Adoption:
    """The settings, waivers, baseline and changed files by which a repository selects findings.

    Attributes:
        settings: the settings of the repository, overridden by options of the command line.
        today: the day of the run; None if waivers do not expire.
        known: the fingerprints of the baseline.
        changed: the files that differ from a revision; None for all files.
        checks: returns the ids of all checks, which only waivers of objects need.
    """

    settings: Settings = field(default_factory=Settings)
    today: dt.date | None = None
    known: Counter[str] = field(default_factory=Counter)
    changed: ChangedFiles | None = None
    checks: Callable[[], Collection[str]] = tuple

    @property
    def fail_on(self) -> str:
        """Return the lowest severity that fails a run."""
        return self.settings.fail_on or "error"

    def apply(self, findings: Iterable[Finding], run: Run) -> Outcome:
        """Return the findings to report, without waived, known and unselected findings."""
        today = self.today or dt.date.min
        waivers = Waivers(self.settings.waivers, self.settings.root, run.objects, run.text_of, self.checks)
        everything = sorted(set(findings))
        left = [finding for finding in everything if not waivers.accepts(finding, today)]
        hidden = {"waived": len(everything) - len(left)}
        left = sorted([*left, *waivers.findings(today, run.files, run.is_covered)])
        selected = [finding for finding in left if self._is_selected(finding)]
        hidden["ignored"] = len(left) - len(selected)
        touched = [finding for finding in selected if self._is_changed(finding, run.text_of)]
        hidden["unchanged"] = len(selected) - len(touched)
        new = new_findings(touched, self.known, self.settings.root) if self.known else touched
        hidden["baseline"] = len(touched) - len(new)
        return Outcome(new, {reason: number for reason, number in hidden.items() if number})

    def _is_selected(self, finding: Finding) -> bool:
        settings = self.settings
        if not _selects(settings.select, settings.ignore, finding.check):
            return False
        if not settings.paths:
            return True
        file = relative(finding.file, settings.root)
        return all(
            _selects(paths.select, paths.ignore, finding.check) for paths in settings.paths if matches(paths.path, file)
        )

    def _is_changed(self, finding: Finding, text_of: Callable[[str], str]) -> bool:
        return self.changed is None or self.changed.has(finding.file, text_of(finding.file))


def _selects(select: Collection[str], ignore: Collection[str], check: str) -> bool:
    """Return True if a check is selected by id or family, and not ignored by a more specific entry."""
    family = check.partition("/")[0]
    if check in ignore:
        return False
    if family in ignore:
        return check in select
    return not select or check in select or family in select
