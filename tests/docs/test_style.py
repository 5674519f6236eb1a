"""Test that pages have short paragraphs and that tables fit a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.errors import ExitCode
from tests.conftest import ROOT
from tests.docs.generated import generated
from tests.docs.pages import name, pages, paragraphs, table_rows

_COLUMNS = 80
_PARAGRAPH = 5 * 100
PAGES = [page for page in pages() if not name(page).startswith("docs/checks")]
_GENERATED = generated()
WRITTEN = [page for page in PAGES if page not in _GENERATED]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tables_fit_80_columns(page: Path) -> None:
    assert [row for row in table_rows(page) if len(row) > _COLUMNS] == []


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_paragraphs_have_at_most_five_lines(page: Path) -> None:
    assert [text for text in paragraphs(page) if len(text) > _PARAGRAPH] == []


@pytest.mark.parametrize("file", ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_repository_pages_have_short_paragraphs(file: str) -> None:
    assert [text for text in paragraphs(ROOT / file) if len(text) > _PARAGRAPH] == []


def test_the_page_of_exit_codes_has_every_code() -> None:
    rows = table_rows(ROOT / "docs" / "reference" / "exit-codes.md")
    assert rows[1 : len(ExitCode) + 1] == [f"| {code.value} | {code.meaning.replace('`', '')} |" for code in ExitCode]
