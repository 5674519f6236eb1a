"""The GitHub format: workflow commands, which GitHub Actions turns into annotations of lines.

Source: actions/toolkit packages/core/src/command.ts, `escapeData` and `escapeProperty`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from generator.documents.messages import escape_control
from generator.report.result import Result, subject

if TYPE_CHECKING:
    from generator.checks.finding import Finding
    from generator.errors import Problem

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(result: Result) -> str:
    """Render one workflow command per finding and problem, then the closing lines of the text format for the log."""
    commands = [*map(_finding, result.findings), *map(_problem, result.problems)]
    return "\n".join([*commands, *(_plain(line) for line in result.lines)])


def _finding(finding: Finding) -> str:
    place = {"file": finding.file, "line": finding.line, "col": finding.column, "title": finding.check}
    where = subject(finding)
    head = f"{where}: {finding.message}" if where else finding.message
    texts = (head, f"why: {finding.why}" if finding.why else "", f"fix: {finding.fix}" if finding.fix else "")
    return _command(_COMMANDS[finding.severity], place, texts)


def _problem(problem: Problem) -> str:
    place = {"file": problem.file, "line": problem.line, "col": problem.column, "title": "mpigen"}
    message = f"{problem.path}: {problem.message}" if problem.path else problem.message
    return _command("error", place, (message, f"fix: {problem.fix}" if problem.fix else ""))


def _command(name: str, properties: Mapping[str, object], texts: tuple[str, ...]) -> str:
    written = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value)
    return f"::{name} {written}::{_data(texts)}"


def _data(texts: tuple[str, ...]) -> str:
    return "%0A".join(_escape(text) for text in texts if text)


def _property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _escape(text: str) -> str:
    return escape_control(text).replace("%", "%25")


def _plain(line: str) -> str:
    """Escape a line that GitHub would execute as a workflow command, such as an object named `::error::`."""
    return f" {line}" if line.lstrip().startswith(("::", "##[")) else line
