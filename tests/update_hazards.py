"""Record the hazards of every platform in tests/fixtures/hazards again: `python -m tests.update_hazards`.

Then read the diff of `tests/fixtures/hazards/*.txt` as the user would.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from generator.config.load import load_platform
from generator.hazards.find import find_hazards
from generator.report.text import plain
from tests.conftest import ROOT

HAZARDOUS = ROOT / "tests/fixtures/hazards"
FILE = Path("platform.yaml")


def report(content: bytes) -> str:
    """Return the hazards of a platform file, in a folder of its own where it is called platform.yaml."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            FILE.write_bytes(content)
            found = sorted(find_hazards(load_platform(FILE), FILE))
        finally:
            os.chdir(before)
    return "".join(f"{plain(finding)}\n" for finding in found)


def main() -> None:
    """Update every expectation."""
    for file in sorted(HAZARDOUS.glob("*.yaml")):
        file.with_suffix(".txt").write_text(report(file.read_bytes()), "utf-8")


if __name__ == "__main__":
    main()
