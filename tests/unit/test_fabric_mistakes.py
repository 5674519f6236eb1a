"""The mistakes that are made most with fabrics are found, by words that name both ends of what does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml

from generator.checks.finding import Finding
from tests.checks import CASES, FOLDER, find

_MISTAKES = FOLDER / "fabric/mistakes"
MISTAKES: Mapping[str, Mapping[str, Any]] = yaml.safe_load((_MISTAKES / "mistakes.yaml").read_text("utf-8"))


def words(finding: Finding) -> str:
    return f"{finding.resource} {finding.path} {finding.message} {finding.why} {finding.fix}"


def told(files: Sequence[str]) -> list[Finding]:
    texts = {file: CASES[file].bad if file in CASES else (_MISTAKES / file).read_text("utf-8") for file in files}
    return [each for file, text in texts.items() for each in find(text, file)]


def test_there_are_ten_of_them() -> None:
    assert [name.split()[0] for name in MISTAKES] == [str(number) for number in range(1, 11)]


def test_no_file_is_of_no_mistake() -> None:
    named = {file for mistake in MISTAKES.values() for file in mistake["of"]}
    own = {file.name for file in _MISTAKES.glob("[01]*.yaml")}
    cases = {name for name in CASES if name.startswith("fabric/mistake-")}
    assert own | cases >= named >= own


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_each_of_its_forms_is_told_with_both_ends(mistake: Mapping[str, Any]) -> None:
    findings = told(mistake["of"])
    for check, *ends in mistake["told"]:
        known = [words(each) for each in findings if each.check == check]
        assert any(all(end in text for end in ends) for text in known), (check, ends, known)
