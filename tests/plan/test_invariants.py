"""Test what holds for every plan: no effect without a change, and the same plan in any order of objects and keys."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from generator.checks.objects import Change
from generator.effects.topics import TOPICS, find_effects
from generator.manifests import Manifest, read
from tests.plan import CASES, Case, describe, objects, platform_text, render

BASES = sorted({case.base for case in CASES.values()})


@pytest.mark.parametrize("base", BASES)
def test_reformatted_and_shuffled_files_have_no_effect(base: str) -> None:
    release = render(platform_text(base))
    old = objects(release, release.files)
    documents = [turned(manifest.body) for manifest in reversed(old)]
    text = yaml.safe_dump_all(documents, default_flow_style=True, sort_keys=False, width=60)
    new = list(read(text, "everything.yaml"))
    assert [manifest.identity for manifest in reversed(new)] == [manifest.identity for manifest in old]
    assert find_effects(Change(old, new, dict(release.targets))) == []


def turned(value: Any) -> Any:
    """Return a value with the keys of all mappings in the reverse order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_plan_does_not_depend_on_the_order_of_objects(case: Case) -> None:
    change = case.change
    backwards = Change([*reversed(change.old)], [*reversed(change.new)], change.targets)
    assert describe(find_effects(backwards)) == describe(case.effects)


def test_an_unchanged_release_has_no_effect() -> None:
    release = render(platform_text("university"))
    tree = objects(release, release.files)
    assert find_effects(Change(tree, tree, dict(release.targets))) == []


def test_moved_files_have_no_effect() -> None:
    release = render(platform_text("university"))
    tree = objects(release, release.files)
    moved: list[Manifest] = [replace(manifest, file=f"moved/{manifest.file}") for manifest in tree]
    assert find_effects(Change(tree, moved, dict(release.targets))) == []


_EQUAL = re.compile(
    r"(?<![\w`.])(?<!and )(?<!, )(?:at least |at most )?(`?[^\s`]+`?) instead of (?:at least |at most )?\1(?![\w.])"
)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_effect_has_equal_values_before_and_after(case: Case) -> None:
    lines = [line for effect in case.effects for line in (effect.text, *effect.details)]
    assert [line for line in lines if _EQUAL.search(line)] == []


@pytest.mark.parametrize("line", ["at least 4 instead of 4 nodes", "the value `a` instead of `a`"])
def test_equal_values_are_visible_in_a_line(line: str) -> None:
    assert _EQUAL.search(line)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_sentence_has_the_path_of_a_field(case: Case) -> None:
    texts = [effect.text for effect in case.effects if effect.topic != "refused"]
    assert [text for text in texts if re.search(r"\b(?:spec|metadata|data|rules)[.\[]\w", text)] == []


def test_every_topic_has_cases() -> None:
    assert {case.topic for case in CASES.values()} >= {*TOPICS}
