"""Waivers: findings that a repository accepts until a day, declared in its settings or on the object.

An object declares them in its annotation `mpigen.dev/waive`, one per line:

    quota/lends-nobody until 2027-03-31: the cohort gets a second queue in April
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from generator.adoption.settings import Place, Waiver, matches, relative
from generator.checks.finding import Finding, Severity, waivers_of
from generator.checks.registry import WARNING, declare
from generator.documents.locate import locate_everywhere
from generator.documents.messages import format_path
from generator.facts.names import WAIVERS
from generator.manifests import Manifest

UNUSED, EXPIRED, INVALID = "waiver/unused", "waiver/expired", "waiver/invalid"
declare(
    UNUSED,
    severity=WARNING,
    text="""Report a waiver that matches no finding.

    A waiver accepts the findings of one check until a day. Either the finding was fixed, or the waiver has a typing
    error. The waiver would hide the next finding of the check without review. `mpigen validate` does not report
    unused waivers if all its PATHS are single files.

    Source: mpigen: Kubernetes has no waivers
    """,
)
declare(
    EXPIRED,
    severity=WARNING,
    text="""Report a waiver that matches a finding, and whose last day is in the past.

    A waiver accepts the findings of one check until a day. After that day mpigen reports them again. Fix the findings
    and remove the waiver, or set a later last day.

    Source: mpigen: Kubernetes has no waivers
    """,
)
declare(
    INVALID,
    severity=WARNING,
    text="""Report a line of the annotation `mpigen.dev/waive` that is not a waiver.

    A waiver accepts the findings of one check until a day. The annotation has one waiver per line, `CHECK until
    YYYY-MM-DD: REASON`. An invalid line has no effect.

    Source: mpigen: Kubernetes has no waivers
    """,
)

_PATH = ("metadata", "annotations", WAIVERS)
_LINE = re.compile(r"(?P<check>\S+)\s+until\s+(?P<until>\S+?):\s*(?P<reason>\S.*)")
_FORM = "`CHECK until YYYY-MM-DD: REASON`"


@dataclass(frozen=True, slots=True)
class _Declared:
    """A waiver. `resource` is the object that has the waiver in an annotation; empty for a waiver of the settings."""

    waiver: Waiver
    resource: str = ""


class Waivers:
    """The waivers of one run.

    Args:
        waivers: the waivers of the settings file.
        root: the folder that the paths of these waivers are relative to.
        objects: the objects that can have the annotation `mpigen.dev/waive`.
        text_of: returns the text of a file.
        checks: returns the ids of all checks; empty if they are unknown.
    """

    def __init__(
        self,
        waivers: Iterable[Waiver],
        root: Path,
        objects: Iterable[Manifest] = (),
        text_of: Callable[[str], str] = lambda _file: "",
        checks: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._root = root
        self._declared = [_Declared(waiver) for waiver in waivers]
        self._invalid: list[Finding] = []
        for manifest in filter(waivers_of, objects):
            self._read(manifest, text_of(manifest.file), checks())
        self._used: set[int] = set()

    def _read(self, manifest: Manifest, text: str, checks: Collection[str]) -> None:
        """Collect the waivers in the annotation of an object, and a finding for each line that is not a waiver."""
        path = (*manifest.inside, *_PATH)
        key = manifest.index, path
        line, column = locate_everywhere(text, [key])[key].key
        place = Place(manifest.file, line, column, format_path(path, root="$"))
        for written in filter(None, map(str.strip, waivers_of(manifest).splitlines())):
            waiver, mistake = _parse(written, place, checks)
            if waiver:
                self._declared.append(_Declared(waiver, manifest.resource))
            else:
                why = "mpigen ignores this line of the annotation, so the waiver accepts no finding"
                fix = f"write one waiver per line: {_FORM}"
                self._invalid.append(_finding(INVALID, place, manifest.resource, (mistake, why, fix)))

    def accepts(self, finding: Finding, today: dt.date) -> bool:
        """Return True if a waiver accepts a finding today. An expired waiver counts as used, but accepts nothing."""
        numbers = [number for number, declared in enumerate(self._declared) if self._is_about(declared, finding)]
        self._used.update(numbers)
        return any(today <= self._declared[number].waiver.until for number in numbers)

    def _is_about(self, declared: _Declared, finding: Finding) -> bool:
        waiver = declared.waiver
        if waiver.check != finding.check:
            return False
        if declared.resource:
            file = finding.generated.file if finding.generated else finding.file
            return (waiver.place.file, declared.resource) == (file, finding.resource)
        if waiver.resource and waiver.resource != finding.resource:
            return False
        return matches(waiver.path, relative(finding.file, self._root))

    def findings(self, today: dt.date, files: Sequence[str], is_covered: Callable[[str], bool]) -> Iterator[Finding]:
        """Yield a finding for every waiver that is invalid, expired or unused.

        A waiver is expired if it matched a finding and its last day is before `today`. It is unused if it matched no
        finding, although the run performed its check and checked a file that it covers.

        Args:
            today: the day of the run.
            files: the checked files; empty to report no unused waivers, as for `Run.files`.
            is_covered: returns True for the id of a check that the run performed.
        """
        yield from self._invalid
        names = [relative(file, self._root) for file in files]
        for number, declared in enumerate(self._declared):
            waiver = declared.waiver
            if number in self._used and waiver.until < today:
                message = f"the waiver of `{waiver.check}` ended on {waiver.until}"
                why = f"mpigen reports the finding again. The waiver accepted it for this reason: {waiver.reason}"
                fix = "fix the finding and remove the waiver, or set a later last day"
                yield _finding(EXPIRED, waiver.place, declared.resource, (message, why, fix))
            elif number not in self._used and is_covered(waiver.check) and self._is_within(declared, files, names):
                message = f"the waiver of `{waiver.check}` matches no finding"
                why = "the waiver would hide the next finding of this check without review"
                yield _finding(UNUSED, waiver.place, declared.resource, (message, why, "remove the waiver"))

    @staticmethod
    def _is_within(declared: _Declared, files: Sequence[str], names: Sequence[str]) -> bool:
        if declared.resource:
            return declared.waiver.place.file in files
        return any(matches(declared.waiver.path, name) for name in names)


def _parse(written: str, place: Place, checks: Collection[str]) -> tuple[Waiver | None, str]:
    """Parse a line of the annotation; return the waiver, or None and the mistake."""
    match = _LINE.fullmatch(written)
    if not match:
        return None, f"`{written}` is not a waiver"
    if checks and match["check"] not in checks:
        return None, f"there is no check `{match['check']}`"
    try:
        until = dt.date.fromisoformat(match["until"])
    except ValueError:
        return None, f"`{match['until']}` is not a date"
    return Waiver(match["check"], "", "", match["reason"], until, place), ""


def _finding(check: str, place: Place, resource: str, texts: tuple[str, str, str]) -> Finding:
    message, why, fix = texts
    return Finding(
        file=place.file,
        line=place.line,
        column=place.column,
        path=place.path,
        check=check,
        resource=resource,
        message=message,
        why=why,
        fix=fix,
        severity=Severity.WARNING,
    )
