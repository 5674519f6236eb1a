"""Test that the example and the repair on a check's page are short."""

from __future__ import annotations

import pytest

from tests.docs.check_pages import check_pages

MOST_CHANGED_LINES = 10
MOST_EXAMPLE_LINES = 36
PAGES = {name: text for name, text in check_pages().items() if name != "checks/index.md"}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_the_repair_is_short(page: str) -> None:
    """A reader compares the repair with the fix in the message at first sight."""
    repair = page.partition("## Use instead")[2].partition("```diff")[2].partition("```")[0]
    changed = [line for line in repair.splitlines() if line[:1] in {"-", "+"}]
    assert 0 < len(changed) <= MOST_CHANGED_LINES


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_the_example_is_short(page: str) -> None:
    example = page.partition("## Example")[2].partition("```")[2].partition("```")[0]
    assert 1 < len(example.splitlines()) <= MOST_EXAMPLE_LINES
