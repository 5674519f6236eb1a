"""Findings and problems for people: on a terminal in colour, on a pipe as plain lines."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from generator.checks.finding import Finding, Severity
from generator.errors import Problem

_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def finding_text(finding: Finding) -> Text:
    """`file:line:column: severity check: resource path: message`, then why and fix, indented."""
    place = ":".join(str(part) for part in (finding.file, finding.line, finding.column) if part)
    text = Text(f"{place}: ")
    text.append(f"{finding.severity} ", style=_COLOURS[finding.severity])
    text.append(f"{finding.check}: ")
    where = f"{finding.resource} {finding.path}: " if finding.resource else ""
    text.append(f"{where}{finding.message}\n", style="bold")
    text.append(f"    why: {finding.why}\n    fix: {finding.fix}", style="dim")
    return text


def print_findings(findings: Iterable[Finding], console: Console) -> None:
    """One block for each finding."""
    for finding in findings:
        console.print(finding_text(finding), soft_wrap=True, highlight=False)


def print_problems(problems: Iterable[Problem], console: Console) -> None:
    """One line for each problem."""
    for problem in problems:
        console.print(Text("error: ", style="bold red").append(str(problem), style="not bold default"), soft_wrap=True)
