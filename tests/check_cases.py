"""What tests/fixtures/checks holds: sound objects, and how each check's case spoils one of them.

`python -m tests.check_cases` writes down again what is said then. Read the diff of the .txt files as the user would:
place, path, value, why it matters, and what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from generator.checks.finding import Finding
from generator.checks.run import check_text
from generator.report.text import plain
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.conftest import ROOT

FOLDER = ROOT / "tests/fixtures/checks"


@dataclass(frozen=True, slots=True)
class Case:
    """A way to break a check.

    Attributes:
        name: of the case, and of the file with what is said of it.
        check: the id of the check.
        file: the sound object.
        spoil: a part of its text → what stands there instead.
        fine: the same, of a change that breaks nothing.
        targets: component → the minor version that it is judged for.
    """

    name: str
    check: str
    file: str
    spoil: Mapping[str, str]
    fine: Mapping[str, str]
    targets: Mapping[str, str]

    @property
    def bad(self) -> str:
        """The spoiled object."""
        return self._changed(self.spoil)

    @property
    def good(self) -> str:
        """The one that only looks alike."""
        return self._changed(self.fine)

    @property
    def expected(self) -> str:
        """What is said of the spoiled object."""
        return (FOLDER / "mpi" / f"{self.name}.txt").read_text("utf-8")

    def _changed(self, changes: Mapping[str, str]) -> str:
        return changed((FOLDER / self.file).read_text("utf-8"), changes, self.name)


def changed(text: str, changes: Mapping[str, str], case: str) -> str:
    """A text with parts of it replaced, each of which must be there once."""
    for before, after in changes.items():
        if text.count(before) != 1:
            raise AssertionError(f"{case}: {text.count(before)} times in the text: {before}")
        text = text.replace(before, after)
    return text


def _cases() -> dict[str, Case]:
    written: dict[str, Any] = yaml.safe_load((FOLDER / "cases.yaml").read_text("utf-8"))
    return {
        name: Case(
            name, said["check"], said.get("of", "runtime.yaml"), said["spoil"], said["fine"], said.get("targets", {})
        )
        for name, said in written.items()
    }


CASES = _cases()
"""By name."""


def found(text: str, file: str, targets: Mapping[str, str] | None = None) -> list[Finding]:
    """What all checks say of a text."""
    return check_text(text.encode(), file, _engine(tuple((targets or {}).items()))).in_order()


@cache
def _engine(targets: tuple[tuple[str, str], ...]) -> Engine:
    return Engine(Catalog.bundled(dict(targets)))


def said(text: str, file: str, targets: Mapping[str, str] | None = None) -> str:
    """The same, as people read it."""
    return "".join(f"{plain(finding)}\n" for finding in found(text, file, targets))


def main() -> None:
    """Update every expectation."""
    for file in (FOLDER / "mpi").glob("*.txt"):
        file.unlink()
    for case in CASES.values():
        (FOLDER / "mpi" / f"{case.name}.txt").write_text(said(case.bad, case.file, case.targets), "utf-8")


if __name__ == "__main__":
    main()
