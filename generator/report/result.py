"""The result of a command, and the renderer of each output format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from generator.errors import ExitCode, Problem

if TYPE_CHECKING:
    from generator.checks.finding import Finding
    from generator.checks.registry import Check


SEVERITIES = ("info", "warning", "error")
"""From harmless to fatal."""


def no_text(_file: str) -> str:
    """Return an empty text for any file."""
    return ""


@dataclass(frozen=True, slots=True)
class Result:
    """The findings of a command, or the problems that kept it from running.

    Attributes:
        summary: JSON data about the command.
        findings: the findings, by file and line.
        problems: the invalid input; for `mpigen verify` the differences from the lock.
        lines: the closing lines of the text format.
        text_of: returns the text of a file that a finding names; empty if it cannot be read.
        problem_code: the exit code if there are problems.
        fail_on: the lowest severity that fails the run.
        docs: the base URL of the published docs; empty if they are not published.
        own: the checks of the user's repository.
        reports: the objects of the format `policyreport`, which only `mpigen audit` has.
    """

    summary: Mapping[str, Any] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    problems: Sequence[Problem] = ()
    lines: Iterable[str] = ()
    text_of: Callable[[str], str] = no_text
    problem_code: ExitCode = ExitCode.INVALID_INPUT
    fail_on: str = "error"
    has_color: bool = False
    docs: str = ""
    own: Sequence[Check] = ()
    reports: Sequence[Mapping[str, Any]] = ()

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of the command."""
        if self.problems:
            return self.problem_code
        return ExitCode.FINDINGS if self.failures else ExitCode.OK

    def url_of(self, check: str) -> str:
        """Return the URL of a check's page or, without `docs`, the path of the page in mpigen's repository.

        For a check of the user's repository, return the path of its Python file.
        """
        return next((own.file for own in self.own if own.id == check), "") or page_url(check, self.docs)

    @property
    def failures(self) -> list[Finding]:
        """Return the findings that fail the run."""
        return [finding for finding in self.findings if reaches(finding.severity, self.fail_on)]


def reaches(severity: str, threshold: str) -> bool:
    """Return True if a severity is at least as high as a threshold."""
    return SEVERITIES.index(severity) >= SEVERITIES.index(threshold)


def subject(finding: Finding) -> str:
    """Format the object of a finding and the path inside it: `Pod web $.spec`; either part can be missing."""
    return " ".join(part for part in (finding.resource, finding.path) if part and (finding.resource or part != "$"))


def page_url(check: str, docs: str = "") -> str:
    """Return the URL of a check's page below the URL `docs`; without `docs`, its path in mpigen's repository."""
    return f"{docs.rstrip('/')}/checks/{check}/" if docs else f"docs/checks/{check}.md"


def fingerprint(finding: Finding) -> str:
    """Return 32 hexadecimal digits that identify a finding, even after its line moves or mpigen words it anew."""
    from hashlib import sha256

    path = finding.generated.path if finding.generated else finding.path
    parts = (finding.check, finding.file.removeprefix("./"), finding.resource, path)
    return sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]


def _renderer(module: str) -> Callable[[Result], str]:
    def render(result: Result) -> str:
        text: str = import_module(f"generator.report.{module}").render(result)
        return text

    return render


RENDERERS: Mapping[str, Callable[[Result], str]] = {
    name: _renderer(name) for name in ("text", "json", "sarif", "junit", "github", "gitlab")
}
"""Format → its renderer, which imports the module of the format on first use: every command lists all formats."""
POLICY_REPORT = "policyreport"
"""The format of `mpigen audit` alone."""


def render(form: str, result: Result) -> str:
    """Return the text of a result in a format: a key of `RENDERERS`, or `POLICY_REPORT`."""
    return (_renderer("policy_report") if form == POLICY_REPORT else RENDERERS[form])(result)
