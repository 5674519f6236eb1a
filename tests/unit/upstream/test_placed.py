"""Test placements of random jobs against the real Kueue (tests/update_placements.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.placements import Answer, Question, predicted, recorded

RECORDED = list(recorded())


@pytest.mark.parametrize(("question", "answers"), RECORDED, ids=range(len(RECORDED)))
def test_mpigen_predicts_the_placements_of_kueue(question: Question, answers: Sequence[Answer]) -> None:
    assert predicted(question) == answers


def test_the_record_has_every_kind_of_placement() -> None:
    """Jobs of every kind are placed and not placed, with a launcher and without."""
    told: Counter[str] = Counter()
    for question, answers in RECORDED:
        for event, answer in zip(question.events, answers, strict=True):
            for pods in event.get("pods", ()):
                wish = pods.get("topology", {})
                asked = next((how for how in ("required", "preferred", "unconstrained") if how in wish), "nothing")
                told[f"{asked}{' together' if 'podSetGroupName' in wish else ''}: {answer is not None}"] += 1
    kinds = ("required", "required together", "preferred", "preferred together", "unconstrained", "nothing")
    assert min(told[f"{kind}: {found}"] for kind in kinds for found in (True, False)) >= 3, told
