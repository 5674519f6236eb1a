"""mpigen agrees with the real Kueue in fresh random queue trees and scenarios, not only in the recorded ones."""

from __future__ import annotations

import os
import secrets

import pytest

from generator.errors import EngineError
from tests import quota_trees, scenarios
from tests.cluster.oracle import scheduler_tests
from tests.cluster.versions import NAMES, Program, versions
from tests.quota_claims import disagreements
from tests.update_quota_trees import answered
from tests.update_scenarios import played

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
COUNT = 15


@pytest.fixture(scope="module", params=NAMES)
def kueue(request: pytest.FixtureRequest) -> Program:
    """A supported version of Kueue, with its tests built."""
    program = versions(request.param)["kueue"]
    try:
        scheduler_tests(program)
    except EngineError as error:
        reason = f"Kueue's scheduler cannot be built here: {error}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return program


@pytest.fixture(scope="module")
def seeds() -> list[int]:
    """Seeds that no earlier run had; the assertion shows the wrong ones, and the update commands take them."""
    first = 1000 + secrets.randbelow(10**6)
    return list(range(first, first + COUNT))


def test_mpigen_agrees_in_fresh_trees(kueue: Program, seeds: list[int]) -> None:
    trees = [quota_trees.drawn(seed) for seed in seeds]
    answers = answered(kueue, trees)
    found = {
        seed: list(disagreements(tree, kueue.minor, each))
        for seed, tree, each in zip(seeds, trees, answers, strict=True)
    }
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}


def test_mpigen_predicts_fresh_scenarios(kueue: Program, seeds: list[int]) -> None:
    drawn = {seed: scenarios.drawn(seed) for seed in seeds}
    outcomes = played([kueue], drawn)
    assert outcomes, "no scenario has a certain outcome"
    predicted = {seed: scenarios.predicted(drawn[seed], kueue.minor) for seed in outcomes}
    assert predicted == {seed: each[kueue.minor] for seed, each in outcomes.items()}
