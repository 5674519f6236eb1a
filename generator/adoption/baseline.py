"""The baseline: the findings of a repository on the day it adopted the checks. Only new findings are reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from generator.adoption.paths import relative
from generator.checks.finding import Finding
from generator.documents.files import read_file
from generator.errors import ConfigError, OutputError, Problem
from generator.report.result import fingerprint

VERSION = "mpigen.dev/baseline/v1"


def load_baseline(file: Path) -> Counter[str]:
    """Return how often the baseline holds each fingerprint.

    Raises:
        ConfigError: the file is not a baseline.
        InputError: the file cannot be read.
    """
    try:
        content = json.loads(read_file(file))
        if content["version"] != VERSION:
            raise ValueError
        return Counter({str(entry["fingerprint"]): int(entry["count"]) for entry in content["findings"]})
    except (ValueError, KeyError, TypeError, RecursionError):
        problem = Problem("is not a baseline of mpigen", "write it with `--write-baseline`", str(file))
        raise ConfigError((problem,)) from None


def new_findings(findings: Iterable[Finding], known: Counter[str], root: Path) -> list[Finding]:
    """Return the findings that the baseline does not hold. A second finding of one fingerprint is new."""
    left = Counter(known)
    new = []
    for finding in findings:
        own = _fingerprint(finding, root)
        if left[own]:
            left[own] -= 1
        else:
            new.append(finding)
    return new


def write_baseline(file: Path, findings: Iterable[Finding], root: Path) -> int:
    """Write the findings to a baseline and return how many there are.

    Raises:
        OutputError: the file cannot be written.
    """
    placed = [replace(finding, file=relative(finding.file, root)) for finding in findings]
    counts = Counter((finding.file, finding.check, finding.resource, finding.path) for finding in placed)
    fingerprints = {
        (finding.file, finding.check, finding.resource, finding.path): fingerprint(finding) for finding in placed
    }
    entries = [
        {
            "file": key[0],
            "check": key[1],
            "resource": key[2],
            "path": key[3],
            "fingerprint": fingerprints[key],
            "count": n,
        }
        for key, n in sorted(counts.items())
    ]
    text = json.dumps({"version": VERSION, "findings": entries}, indent=2, ensure_ascii=False) + "\n"
    try:
        file.write_bytes(text.encode(errors="backslashreplace"))
    except OSError as error:
        raise OutputError((Problem(f"cannot be written: {error.strerror}", file=str(file)),)) from None
    return counts.total()


def _fingerprint(finding: Finding, root: Path) -> str:
    return fingerprint(replace(finding, file=relative(finding.file, root)))
