"""Every fixture of a check: the bad manifests are reported in the reviewed words, and the good ones are not."""

from __future__ import annotations

import pytest

from tests.checks import CASES, FAMILIES, FOLDER, Case, expected

WORDS = {case: words for family in FAMILIES for case, words in expected(family).items()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_case_is_reported_in_the_reviewed_words(case: Case) -> None:
    """After a change of words: `python -m tests.checks`."""
    findings = case.find(case.bad)
    assert {finding.check for finding in findings} == {case.check, *case.also}
    assert case.describe(case.bad) == WORDS[case.id]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_good_case_passes(case: Case) -> None:
    assert case.describe(case.good) == ""


def test_the_base_of_a_good_case_differs_from_it_for_a_reason() -> None:
    assert [case.id for case in CASES.values() if case.bad in (case.base, case.good)] == []


def test_no_words_are_left_of_a_case_that_is_gone() -> None:
    assert WORDS.keys() == CASES.keys()
    assert sorted(file.parent.name for file in FOLDER.glob("*/expected.txt")) == FAMILIES
