"""Test that the cookbook lists short recipes that render a release.

test_sessions.py runs their pages, and tests/cluster/test_cookbook.py applies their releases.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.cookbook import COOKBOOK, Recipe, recipes, sections
from tests.docs.pages import blocks_in, pages

_LINES = 29
_NOT_COUNTED = re.compile(r"base\.yaml|tests/.*|.*cases\.yaml")
"""Files that a recipe needs besides the customization: the platform before it, and tests."""
_JUDGED = re.compile(r"^ *\$ mpigen (?:synth|validate)[^\n]*\n(.*?)(?=^ *(?:\$ |```))", re.MULTILINE | re.DOTALL)
RECIPES = recipes()


def test_the_cookbook_lists_at_least_25_recipes_without_repetition() -> None:
    assert len(RECIPES) >= 25
    assert len({(recipe.page, recipe.anchor) for recipe in RECIPES}) == len(RECIPES)


def test_all_rows_of_the_cookbook_are_recipes() -> None:
    rows = [line for line in COOKBOOK.read_text("utf-8").splitlines() if line.startswith("| [")]
    assert len(rows) == len(RECIPES)


def test_the_cookbook_lists_all_recipes_of_its_own_pages() -> None:
    own = [page for page in pages() if page.parent == COOKBOOK.with_suffix("")]
    listed = {(recipe.page, recipe.anchor) for recipe in RECIPES}
    assert {(page, anchor) for page in own for anchor in sections(page) if anchor} <= listed


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_a_recipe_has_fewer_than_30_lines(recipe: Recipe) -> None:
    lines = [line for line in customization(recipe.text) if line.strip() not in {"", "---"}]
    assert len(lines) <= _LINES, "\n".join(lines)


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_the_last_release_of_a_recipe_passes_the_checks(recipe: Recipe) -> None:
    outputs = _JUDGED.findall(recipe.text)
    assert outputs
    assert "error:" not in outputs[-1]
    assert "not written" not in outputs[-1]


def customization(text: str) -> list[str]:
    """Return the lines of files, and the changed lines of files, that a section shows."""
    lines: list[str] = []
    for block in blocks_in(text):
        if block.title and not _NOT_COUNTED.fullmatch(block.title):
            shown = block.text.splitlines()
            lines += [line for line in shown if line.startswith("+")] if block.language == "diff" else shown
    return lines
