"""The recipes that docs/tasks/cookbook.md lists: customizations of a platform, each in a section of a page.

The section before the first heading of the second level has an empty anchor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import DOCS, name
from tests.docs.sessions import Session

COOKBOOK = DOCS / "tasks/cookbook.md"
_ROW = re.compile(
    r"^\| \[(?P<title>[^\]]+)\]\((?P<page>[^)#]+)#?(?P<anchor>[^)]*)\) \| (?P<language>YAML|Python|YAML or Python) \|$",
    re.MULTILINE,
)
_HEADING = re.compile(r"^## (?=(?P<title>.+))", re.MULTILINE)
_PRINTS = re.compile(r"mpigen (?!init|synth)|grep |find |pytest |python -m pytest ")


@dataclass(frozen=True)
class Recipe:
    """A customization of a platform.

    Attributes:
        title: its name in the cookbook.
        page: the page that describes it.
        anchor: the section of the page; empty for the section before the first heading.
        language: `YAML`, `Python` or `YAML or Python`.
    """

    title: str
    page: Path
    anchor: str
    language: str

    def __str__(self) -> str:
        return f"{name(self.page).removeprefix('docs/tasks/')}#{self.anchor}".rstrip("#")

    @property
    def text(self) -> str:
        """Return the section.

        Raises:
            KeyError: the page has no such section.
        """
        return sections(self.page)[self.anchor]


class Writer(Session):
    """A session that omits the commands that only print."""

    def _run(self, command: str) -> str:
        return "" if _PRINTS.match(command) else super()._run(command)


def recipes() -> list[Recipe]:
    """Return the recipes in the order of the cookbook."""
    rows = _ROW.finditer(COOKBOOK.read_text("utf-8"))
    return [
        Recipe(row["title"], (COOKBOOK.parent / row["page"]).resolve(), row["anchor"], row["language"]) for row in rows
    ]


def sections(page: Path) -> dict[str, str]:
    """Return anchor → text of each section of a page."""
    text = page.read_text("utf-8")
    starts = list(_HEADING.finditer(text))
    ends = [start.start() for start in starts] + [len(text)]
    found = {_slug(start["title"]): text[start.start() : end] for start, end in zip(starts, ends[1:], strict=True)}
    return {"": text[: ends[0]], **found}


def write_releases(page: Path, folder: Path) -> Iterator[str]:
    """Run the commands of a page in a folder, and yield the anchor of each section after its commands."""
    session = Writer(folder)
    for anchor, text in sections(page).items():
        session.replay(text)
        yield anchor


def _slug(title: str) -> str:
    """Return the anchor that the site gives a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
