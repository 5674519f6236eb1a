"""Select the findings that a run reports: settings, waivers, the baseline and unchanged files hide the others."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from generator.adoption.baseline import ChangedFiles, new_findings
from generator.adoption.settings import Settings, matches, relative
from generator.adoption.waivers import Waivers
from generator.checks.consequences import without_consequences
from generator.checks.finding import Finding
from generator.checks.registry import Suite
from generator.manifests import Manifest
from generator.report.result import no_text


def _every(_check: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Run:
    """The objects, files and checks of a run. `Adoption.apply` needs them for waivers and `changed`.

    Attributes:
        objects: the objects with the annotation `mpigen.dev/waive`.
        files: the checked files. Empty if the user named single files instead of a folder: then mpigen reports no
            unused waivers, because checks over several objects may miss findings.
        is_covered: returns True for the id of a check that the run performed.
        text_of: returns the text of a file.
    """

    objects: Sequence[Manifest] = ()
    files: Sequence[str] = ()
    is_covered: Callable[[str], bool] = _every
    text_of: Callable[[str], str] = no_text


@dataclass(frozen=True, slots=True)
class Outcome:
    """The findings to report, and the number of the hidden ones.

    Attributes:
        findings: the findings to report, sorted by file and line.
        hidden: reason (`waived`, `ignored`, `unchanged` or `baseline`) → the number of findings hidden for this reason.
    """

    findings: list[Finding]
    hidden: dict[str, int]


@dataclass(frozen=True, slots=True)
class Adoption:
    """The settings, waivers, baseline and changed files by which a repository selects findings.

    Attributes:
        settings: the settings of the repository, overridden by options of the command line.
        today: the day of the run; None if waivers do not expire.
        known: fingerprint → the number of findings with it in the baseline.
        changed: the files that differ from a Git revision; None to report findings of all files.
        suite: the checks of the run.
    """

    settings: Settings = field(default_factory=Settings)
    today: dt.date | None = None
    known: Counter[str] = field(default_factory=Counter)
    changed: ChangedFiles | None = None
    suite: Suite = field(default_factory=Suite)

    @property
    def fail_on(self) -> str:
        """The lowest severity that fails a run: `error`, unless the settings set it."""
        return self.settings.fail_on or "error"

    def apply(self, findings: Iterable[Finding], run: Run) -> Outcome:
        """Return the findings to report: the findings that no setting hides, and new findings about the waivers."""
        today = self.today or dt.date.min
        waivers = Waivers(self.settings.waivers, self.settings.root, run.objects, run.text_of, self.suite.ids)
        everything = sorted(set(findings))
        left = [finding for finding in everything if not waivers.accepts(finding, today)]
        hidden = {"waived": len(everything) - len(left)}
        left = sorted([*left, *waivers.findings(today, run.files, run.is_covered)])
        chosen = [finding for finding in left if self._is_selected(finding)]
        hidden["ignored"] = len(left) - len(chosen)
        selected = without_consequences(chosen)  # last, so that a waiver of the cause shows them
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
    """Return True if `select` is empty or has the id or the family of a check, and `ignore` has neither.

    An id in `select` takes precedence over its family in `ignore`.
    """
    family = check.partition("/")[0]
    if check in ignore:
        return False
    if family in ignore:
        return check in select
    return not select or check in select or family in select
