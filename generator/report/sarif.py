"""The SARIF format, version 2.1.0, which GitHub code scanning and editors read.

Source: docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from generator.checks.registry import Suite
from generator.documents.messages import escape_lines
from generator.report.json import dump
from generator.report.result import Result, fingerprint, subject

if TYPE_CHECKING:
    from generator.checks.finding import Finding
    from generator.errors import Problem

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(result: Result) -> str:
    """Render a SARIF log with one run. The run has a rule for every check that has a finding."""
    rules = sorted({finding.check for finding in result.findings})
    numbers = {rule: number for number, rule in enumerate(rules)}
    driver = {
        "name": "mpigen",
        "version": version("mpigen"),
        "rules": [_rule(rule, result) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(result)],
        "results": [_result(finding, numbers[finding.check]) for finding in result.findings],
    }
    return dump({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(check: str, result: Result) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": check}
    if registered := Suite(tuple(result.own)).get(check):
        rule["shortDescription"] = {"text": f"{registered.summary}."}
        rule["fullDescription"] = {"text": registered.why or f"{registered.summary}."}
        rule["defaultConfiguration"] = {"level": _LEVELS[registered.severity]}
    if result.docs and check not in {own.id for own in result.own}:
        rule["helpUri"] = result.url_of(check)
    return rule


def _invocation(result: Result) -> dict[str, Any]:
    return {
        "executionSuccessful": not result.problems,
        "exitCode": int(result.exit_code),
        "toolExecutionNotifications": [_notification(problem) for problem in result.problems],
    }


def _notification(problem: Problem) -> dict[str, Any]:
    notification: dict[str, Any] = {"level": "error", "message": {"text": str(problem)}}
    if problem.file:
        notification["locations"] = [_location(problem.file, problem.line, problem.column)]
    return notification


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    location = _location(finding.file, finding.line, finding.column)
    location["logicalLocations"] = [{"fullyQualifiedName": escape_lines(subject(finding)), "kind": "object"}]
    advice = [f"{name}: {text}" for name, text in (("Why", finding.why), ("Fix", finding.fix)) if text]
    return {
        "ruleId": finding.check,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": escape_lines("\n".join([finding.message, *advice]))},
        "locations": [location],
        "partialFingerprints": {"mpigen/v1": fingerprint(finding)},
    }


def _location(file: str, line: int, column: int) -> dict[str, Any]:
    place: dict[str, Any] = {
        "artifactLocation": {"uri": quote(file.removeprefix("./").encode(errors="surrogateescape"))}
    }
    if line:
        place["region"] = {"startLine": line, **({"startColumn": column} if column else {})}
    return {"physicalLocation": place}
