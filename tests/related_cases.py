"""What tests/fixtures/checks/related holds: objects that are wrong only together.

`python -m tests.related_cases` writes down again what is said of them; read the diff.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from generator.checks.finding import Finding
from generator.checks.run import check_text, check_together
from generator.report.text import plain
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from tests.conftest import ROOT

FOLDER = ROOT / "tests/fixtures/checks/related"


@dataclass(frozen=True, slots=True)
class Related:
    """Objects that break a rule together.

    Attributes:
        name: of the folder with the texts.
        check: the id of the rule.
        targets: component → the minor version that they are judged for.
        today: the day on which they are judged.
    """

    name: str
    check: str
    targets: Mapping[str, str]
    today: dt.date | None = None

    @property
    def bad(self) -> str:
        """Objects that break it."""
        return self.file("bad.yaml").read_text("utf-8")

    @property
    def good(self) -> str:
        """Objects that only look alike."""
        return self.file("good.yaml").read_text("utf-8")

    def file(self, name: str) -> Path:
        """Where one of the texts is."""
        return FOLDER / self.name / name

    def found(self, text: str) -> list[Finding]:
        """What all checks say of a text."""
        raw, engine = text.encode(), _engine(tuple(self.targets.items()))
        checked = check_text(raw, f"{self.name}.yaml", engine)
        checked.findings += check_together(checked.related, engine.targets, lambda _: raw, self.today)
        return checked.in_order()

    def said(self, text: str) -> str:
        """The same, as people read it."""
        return "".join(f"{plain(finding)}\n" for finding in self.found(text))


@cache
def _engine(targets: tuple[tuple[str, str], ...]) -> Engine:
    return Engine(Catalog.bundled(dict(targets)))


CASES = {
    name: Related(name, said["check"], said.get("targets", {}), said.get("today"))
    for name, said in yaml.safe_load((FOLDER / "cases.yaml").read_text("utf-8")).items()
}
"""By name."""


def main() -> None:
    """Update every expectation."""
    for case in CASES.values():
        case.file("bad.txt").write_text(case.said(case.bad), "utf-8")


if __name__ == "__main__":
    main()
