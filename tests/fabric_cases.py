"""What tests/fixtures/checks/fabric holds: objects of fabrics that are wrong on their own, and what only looks alike.

`python -m tests.fabric_cases` writes down again what is said of the wrong ones; read the diff of the .txt files.
"""

from __future__ import annotations

import yaml

from tests.check_cases import said
from tests.conftest import ROOT

FOLDER = ROOT / "tests/fixtures/checks/fabric"
CASES: dict[str, dict[str, str]] = yaml.safe_load((FOLDER / "cases.yaml").read_text("utf-8"))
"""Name → the ids of what is found, with spaces between, the `bad` text, and the `good` one."""


def told(name: str) -> str:
    """What is said of the bad text of a case."""
    return said(CASES[name]["bad"], f"{name}.yaml")


def main() -> None:
    """Update every expectation."""
    for file in FOLDER.glob("*.txt"):
        file.unlink()
    for name in CASES:
        (FOLDER / f"{name}.txt").write_text(told(name), "utf-8")


if __name__ == "__main__":
    main()
