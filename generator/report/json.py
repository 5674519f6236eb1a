"""The JSON format: one versioned envelope for results, findings and problems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generator.report.result import Result, fingerprint

if TYPE_CHECKING:
    from generator.checks.finding import Finding

VERSION = "mpigen.dev/report/v1"
SCHEMA = Path(__file__).with_name("report.schema.json")


def render(result: Result) -> str:
    """Render a result as JSON with the keys `version`, `summary`, `findings` and `problems`."""
    return dump(
        {
            "version": VERSION,
            "summary": dict(result.summary),
            "findings": [_finding(finding, result.url_of(finding.check)) for finding in result.findings],
            "problems": [asdict(problem) for problem in result.problems],
        }
    )


def dump(content: Mapping[str, Any] | list[Any]) -> str:
    """Return JSON text. A file name that is not UTF-8 is written with backslashes."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return text.encode(errors="backslashreplace").decode()


def _finding(finding: Finding, url: str) -> dict[str, Any]:
    return {**asdict(finding), "fingerprint": fingerprint(finding), "url": url}
