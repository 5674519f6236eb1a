"""Test that the ten most common mistakes with fabrics have findings that name both conflicting objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml

from generator.checks.finding import Finding
from tests.checks import CASES, FOLDER, find

_MISTAKES = FOLDER / "fabric/mistakes"
MISTAKES: Mapping[str, Mapping[str, Any]] = yaml.safe_load((_MISTAKES / "mistakes.yaml").read_text("utf-8"))


def all_words(finding: Finding) -> str:
    return f"{finding.resource} {finding.path} {finding.message} {finding.why} {finding.fix}"


def find_all(files: Sequence[str]) -> list[Finding]:
    texts = {file: CASES[file].bad if file in CASES else (_MISTAKES / file).read_text("utf-8") for file in files}
    return [finding for file, text in texts.items() for finding in find(text, file)]


def test_the_ten_mistakes_have_consecutive_numbers() -> None:
    assert [name.split()[0] for name in MISTAKES] == [str(number) for number in range(1, 11)]


def test_every_file_belongs_to_a_mistake() -> None:
    named = {file for mistake in MISTAKES.values() for file in mistake["files"]}
    own = {file.name for file in _MISTAKES.glob("[01]*.yaml")}
    cases = {name for name in CASES if name.startswith("fabric/mistake-")}
    assert own | cases >= named >= own


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_findings_of_a_mistake_name_both_ends(mistake: Mapping[str, Any]) -> None:
    findings = find_all(mistake["files"])
    for check, *ends in mistake["findings"]:
        known = [all_words(finding) for finding in findings if finding.check == check]
        assert any(all(end in text for end in ends) for text in known), (check, ends, known)
