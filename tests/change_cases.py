"""What tests/fixtures/changes holds: a tree, and how the next one differs in each case.

`python -m tests.change_cases` writes down again what is said then. Read the diff of the .txt files as the user would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from generator.checks.compare import compare
from generator.checks.finding import Finding
from generator.manifests import Manifest, read
from generator.report.text import plain
from tests.check_cases import changed
from tests.conftest import ROOT

FOLDER = ROOT / "tests/fixtures/changes"
TREE = (FOLDER / "tree.yaml").read_text("utf-8")
_OLD, _NEW = "old.yaml", "new.yaml"


@dataclass(frozen=True, slots=True)
class Change:
    """A way to break a check.

    Attributes:
        name: of the case, and of the file with what is said of it.
        check: the id of the check.
        spoil: a part of the tree's text → what stands there in the next one.
        fine: the same, of a change that breaks nothing.
        targets: component → the minor version that it is judged for.
    """

    name: str
    check: str
    spoil: Mapping[str, str]
    fine: Mapping[str, str]
    targets: Mapping[str, str]

    @property
    def bad(self) -> str:
        """The next tree that breaks something."""
        return self._changed(self.spoil)

    @property
    def good(self) -> str:
        """The next tree that only looks alike."""
        return self._changed(self.fine)

    @property
    def expected(self) -> str:
        """What is said of the first."""
        return (FOLDER / "said" / f"{self.name}.txt").read_text("utf-8")

    def _changed(self, changes: Mapping[str, str]) -> str:
        return changed(TREE, changes, self.name)


def _changes() -> dict[str, Change]:
    written: dict[str, Any] = yaml.safe_load((FOLDER / "cases.yaml").read_text("utf-8"))
    return {
        name: Change(name, said["check"], said["spoil"], said["fine"], said.get("targets", {}))
        for name, said in written.items()
    }


CHANGES = _changes()
"""By name."""


def objects(text: str, file: str) -> list[Manifest]:
    """The objects of a tree."""
    return list(read(text, file))


def found(new: str, old: str = TREE, targets: Mapping[str, str] | None = None) -> list[Finding]:
    """What is said of a tree that is applied over another."""
    texts = {_OLD: old, _NEW: new}
    return compare(objects(old, _OLD), objects(new, _NEW), targets or {}, texts.__getitem__)


def said(new: str, targets: Mapping[str, str] | None = None) -> str:
    """The same, as people read it."""
    return "".join(f"{plain(finding)}\n" for finding in sorted(found(new, targets=targets)))


def main() -> None:
    """Update every expectation."""
    for file in (FOLDER / "said").glob("*.txt"):
        file.unlink()
    for case in CHANGES.values():
        (FOLDER / "said" / f"{case.name}.txt").write_text(said(case.bad, case.targets), "utf-8")


if __name__ == "__main__":
    main()
