"""Test that a plan names the recorded effects of each case and no others."""

from __future__ import annotations

import pytest

from generator.effects.topics import TOPICS as FINDERS
from tests.plan import CASES, FOLDER, TOPICS, Case, describe, expected

WORDS = {case: words for topic in TOPICS for case, words in expected(topic).items()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_plan_names_the_effects_of_a_case(case: Case) -> None:
    """After a change of wording run `python -m tests.plan`."""
    assert describe(case.effects) == WORDS[case.id]


def test_recorded_effects_belong_to_existing_cases() -> None:
    assert WORDS.keys() == CASES.keys()
    assert sorted(file.stem for file in FOLDER.glob("*.txt")) == TOPICS


def test_cases_have_the_names_of_topics() -> None:
    assert set(TOPICS) <= {*FINDERS, "other"}
