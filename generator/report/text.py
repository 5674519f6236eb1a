"""Findings and problems for people: in colour on a terminal, as plain lines on a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generator.checks.finding import Finding, Severity
from generator.documents.syntax import on_one_line

if TYPE_CHECKING:
    from rich.text import Text

_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def plain(finding: Finding) -> str:
    """`file:line:column: severity: check: resource path: message`, then why and fix, indented."""
    place, what = _head(finding)
    return f"{place}: {finding.severity}: {what}\n{_advice(finding)}"


def coloured(finding: Finding) -> Text:
    """The same, with the severity in its colour and the advice dimmed."""
    from rich.text import Text

    place, what = _head(finding)
    return Text.assemble(
        f"{place}: ", (finding.severity, _COLOURS[finding.severity]), f": {what}\n", (_advice(finding), "dim")
    )


def _head(finding: Finding) -> tuple[str, str]:
    place = ":".join(str(part) for part in (finding.file, finding.line, finding.column) if part)
    where = finding.path if finding.path != "$" else ""
    where = f"{finding.resource} {finding.path}" if finding.resource else where
    where = f"{where}: " if where else ""
    return _safe(place), _safe(f"{finding.check}: {where}{finding.message}")


def _advice(finding: Finding) -> str:
    advice = f"    why: {_safe(finding.why)}"
    return f"{advice}\n    fix: {_safe(finding.fix)}" if finding.fix else advice


def _safe(text: str) -> str:
    """Nothing in it that a terminal would obey: names come from anybody's files."""
    return on_one_line(text, len(text))
