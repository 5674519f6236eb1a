"""The pages of the docs, with their code blocks and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

DOCS = ROOT / "docs"
_BLOCK = re.compile(r'^( *)```(\w+)(?: title="([^"]+)")?\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Block:
    """A fenced code block: its language, the file that its title names, and its text."""

    language: str
    title: str | None
    text: str


def pages() -> list[Path]:
    """Return the README and every page of the site."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def name(page: Path) -> str:
    """Return the path of a page in the repository."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, without the indentation of the list that they stand in."""
    return blocks_in(page.read_text("utf-8"))


def blocks_in(text: str) -> list[Block]:
    """Return the code blocks of a text, without the indentation of the list that they stand in."""
    found = _BLOCK.findall(text)
    return [
        Block(language, title or None, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
        for indent, language, title, text in found
    ]


def prose(page: Path) -> str:
    """Return a page without its code blocks and comments, and with the text of links in place of links."""
    text = _BLOCK.sub("", page.read_text("utf-8"))
    return _LINK.sub(r"\1", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))


def table_rows(page: Path) -> list[str]:
    """Return the rows of a page's tables as readers see them, without the lines below headers."""
    lines = [line.replace("`", "") for line in prose(page).splitlines()]
    return [line for line in lines if line.lstrip().startswith("|") and set(line) - set("| -:")]


def paragraphs(page: Path) -> Iterator[str]:
    """Yield the paragraphs and list items of a page, each in one line."""
    kept = [line for line in prose(page).splitlines() if not line.lstrip().startswith(("|", "#"))]
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(kept)):
        if part.strip():
            yield " ".join(part.split())
