"""The JUnit format: a test report, which Jenkins, GitLab and most CI systems read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from generator.documents.messages import escape_control
from generator.report.result import Result, reaches, subject

if TYPE_CHECKING:
    from generator.checks.finding import Finding


def render(result: Result) -> str:
    """Render one test case for each finding and problem. Test cases of findings below `fail_on` pass.

    Without findings and problems, one test case passes.
    """
    cases = [*_cases(result)]
    counts = f'tests="{len(cases)}" failures="{len(result.failures)}" errors="{len(result.problems)}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="mpigen" {counts}>',
        f'  <testsuite name="mpigen" {counts}>',
        *cases,
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines)


def _cases(result: Result) -> Iterator[str]:
    for finding in result.findings:
        yield _finding(finding, has_failed=reaches(finding.severity, result.fail_on))
    for problem in result.problems:
        body = f"<error message={_attribute(problem.message)}>{_text(str(problem))}</error>"
        yield _case("input", problem.file, problem.line, body)
    if not (result.findings or result.problems):
        yield _case("no findings", "", 0, "")


def _finding(finding: Finding, *, has_failed: bool) -> str:
    place = f"{finding.file}:{finding.line}:{finding.column}"
    text = f"{place}: {finding.severity}: {finding.message}\nwhy: {finding.why}\nfix: {finding.fix}"
    if has_failed:
        kind = f"message={_attribute(finding.message)} type={_attribute(finding.severity)}"
        body = f"<failure {kind}>{_text(text)}</failure>"
    else:
        body = f"<system-out>{_text(text)}</system-out>"
    return _case(f"{finding.check} {subject(finding)}".rstrip(), finding.file, finding.line, body)


def _case(name: str, file: str, line: int, body: str) -> str:
    place = f" file={_attribute(file)} line={_attribute(str(line))}" if file else ""
    return f"    <testcase classname={_attribute(file or 'mpigen')} name={_attribute(name)}{place}>{body}</testcase>"


def _attribute(text: str) -> str:
    return quoteattr(_printable(text))


def _text(text: str) -> str:
    return escape("\n".join(_printable(line) for line in text.split("\n")))


def _printable(text: str) -> str:
    """Escape all characters that are not printable, because XML 1.0 forbids most control characters."""
    return escape_control(text)
