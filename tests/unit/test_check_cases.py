"""Test the cases of checks: bad manifests have the recorded findings, and good ones have none."""

from __future__ import annotations

import pytest

from generator.checks.registry import checks
from tests.checks import CASES, EXAMPLES, FAMILIES, FOLDER, Case, expected

WORDS = {case: words for family in FAMILIES for case, words in expected(family).items()}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_case_has_the_recorded_findings(case: Case) -> None:
    """After a change of wording run `python -m tests.checks`."""
    findings = case.find(case.bad)
    assert {finding.check for finding in findings} == {case.check, *case.also}
    assert case.describe(case.bad) == WORDS[case.id]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_good_case_has_no_findings(case: Case) -> None:
    assert case.describe(case.good) == ""


@pytest.mark.parametrize("case", EXAMPLES.values(), ids=EXAMPLES)
def test_the_repair_on_a_page_ends_the_finding(case: Case) -> None:
    assert case.check not in {finding.check for finding in case.find(case.fixed)}


def test_every_check_has_one_example() -> None:
    assert [case.check for case in CASES.values() if case.shows] == list(EXAMPLES)
    assert EXAMPLES.keys() == {check.id for check in checks()}


def test_bad_cases_differ_from_their_base_and_good_case() -> None:
    assert [case.id for case in CASES.values() if case.bad in (case.base, case.good)] == []


def test_recorded_findings_belong_to_existing_cases() -> None:
    assert WORDS.keys() == CASES.keys()
    assert sorted(file.parent.name for file in FOLDER.glob("*/expected.txt")) == FAMILIES
