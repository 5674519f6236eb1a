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
    """Return JSON text with escapes for all characters that are not printable, such as U+009B and U+202E.

    A terminal would execute or hide them. Half of a surrogate pair, from a file name that is not UTF-8, becomes an
    escape too.
    """
    text = json.dumps(content, indent=2, ensure_ascii=False)
    if text.isascii():  # json escapes the control characters of ASCII, except U+007F
        return text.replace("\x7f", "\\u007f")
    return "".join(letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1] for letter in text)


def _finding(finding: Finding, url: str) -> dict[str, Any]:
    return {**asdict(finding), "fingerprint": fingerprint(finding), "url": url}
