"""The GitLab format: a Code Quality report, which GitLab shows in merge requests.

Source: docs.gitlab.com/ci/testing/code_quality, "Code Quality report format".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from generator.documents.messages import escape_control
from generator.report.json import dump
from generator.report.result import Result, fingerprint, subject

_SEVERITIES = {"error": "critical", "warning": "minor", "info": "info"}


def render(result: Result) -> str:
    """Render a JSON list with one entry per finding and problem."""
    return dump([*_entries(result)])


def _entries(result: Result) -> Iterator[dict[str, Any]]:
    seen: Counter[str] = Counter()  # GitLab shows only one entry per fingerprint
    for finding in result.findings:
        own = fingerprint(finding)
        seen[own] += 1
        number = f"-{seen[own]}" if seen[own] > 1 else ""
        where = subject(finding)
        yield _entry(
            finding.check,
            f"{where}: {finding.message}" if where else finding.message,
            own + number,
            _SEVERITIES[finding.severity],
            (finding.file, finding.line),
        )
    for position, problem in enumerate(result.problems):
        yield _entry("input", str(problem), f"problem-{position}", "blocker", (problem.file, problem.line))


def _entry(check: str, description: str, own: str, severity: str, place: tuple[str, int]) -> dict[str, Any]:
    file, line = place
    return {
        "check_name": check,
        "description": escape_control(description),
        "fingerprint": own,
        "severity": severity,
        "location": {"path": file.removeprefix("./"), "lines": {"begin": max(line, 1)}},
    }
