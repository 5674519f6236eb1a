"""docs/explanations/access.md names each way to more than one was given, and what closes it."""

from __future__ import annotations

import pytest

from generator import pipeline
from tests.access.escalations import Attempt, attempts
from tests.access.rights import PLATFORM
from tests.conftest import ROOT

PAGE = (ROOT / "docs/explanations/access.md").read_text("utf-8")
WHO = {"submitter": "a submitter", "editor": "an editor", "other-admin": "an admin of another team"}
CLOSED_BY = {"rbac": "the role", "pod-security": "the Pod Security Standard"}


@pytest.fixture(scope="module")
def policies() -> set[str]:
    """The admission policies of the platform on which they are tried."""
    platform, app = pipeline.load(PLATFORM)
    return {each.name for each in pipeline.render(platform, app)[0] if each.kind == "ValidatingAdmissionPolicy"}


@pytest.mark.parametrize("attempt", attempts(), ids=str)
def test_each_attempt_is_documented_with_what_closes_it(attempt: Attempt, policies: set[str]) -> None:
    policy = f"admission policy `{attempt.closed_by}`"
    is_there = any(name.endswith(f"-{attempt.closed_by}") for name in policies)
    closed_by = CLOSED_BY.get(attempt.closed_by, policy if is_there else f"nothing yet: {policy}")
    assert f"| {WHO[attempt.by]} | {attempt.name} | {closed_by} |\n" in PAGE


def test_nothing_else_is_documented() -> None:
    table = PAGE.partition("## Ways to more")[2].partition("\n## ")[0]
    assert sum(table.count(f"| {who} | ") for who in WHO.values()) == len(attempts())
