"""Results for machines: one JSON envelope, whose version changes when its fields do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from generator.checks.finding import Finding
from generator.errors import Problem

VERSION = "mpigen.dev/report/v1"


def report(summary: Mapping[str, Any], findings: Iterable[Finding] = (), problems: Iterable[Problem] = ()) -> str:
    """The envelope: `version`, `summary`, `findings` (broken rules) and `problems` (bad input)."""
    content = {
        "version": VERSION,
        "summary": dict(summary),
        "findings": [asdict(finding) for finding in findings],
        "problems": [asdict(problem) for problem in problems],
    }
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return text.encode(errors="backslashreplace").decode()  # a file name that is not UTF-8 has no other form
