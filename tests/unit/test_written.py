"""Test that messages have values as the file has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.checks.run import check_text
from generator.config.load import parse_platform
from generator.errors import ConfigError, Problem
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine

PLATFORM = (Path(__file__).parents[2] / "examples" / "openshift-h100" / "platform.yaml").read_text()


def problem_of(old: str, new: str) -> Problem:
    assert old in PLATFORM
    with pytest.raises(ConfigError) as caught:
        parse_platform(PLATFORM.replace(old, new).encode(), Path("platform.yaml"))
    (problem,) = caught.value.problems
    return problem


def test_a_number_keeps_its_form() -> None:
    problem = problem_of('pkey: "0x102"', "pkey: 0x102")
    assert problem.message == "`0x102` is a number, but must be a string"


def test_a_comment_that_swallows_a_value_is_named() -> None:
    problem = problem_of("platform: openshift-h100", "platform: #openshift-h100")
    assert problem.message == "`platform` has no value, but must be a string: YAML reads `#openshift-h100` as a comment"
    assert problem.fix == 'put the value in quotes: `"#openshift-h100"`'


def test_an_ordinary_comment_is_not_named() -> None:
    assert "comment" not in problem_of("platform: openshift-h100", "platform: # the name").message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("image: 0x1F", "`image` must be a string, not the number `0x1F`"),
        ("numNodes: #3", "this field is null: YAML reads `#3` as a comment"),
        ("numNodes: # three", "this field is null"),
    ],
)
def test_findings_have_values_as_written(line: str, message: str) -> None:
    job = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\nspec:\n"
    text = f"{job}  runtimeRef: {{name: a}}\n  trainer:\n    {line}\n"
    findings = check_text(text.encode(), "a.yaml", Engine(Catalog.bundled())).findings
    assert [finding.message for finding in findings if finding.line == 7] == [message]


def test_a_quota_of_devices_is_proposed() -> None:
    problem = problem_of("quota: {h100: 6, cpu: 10}", "quota: {h100: 48, cpu: 10}")
    assert problem.message == "`48` is a number of nodes, and pool `h100` has only 16"
    assert problem.fix == "write at most 16; for 48 devices, write `h100: {nvidia.com/gpu: 48}`"
