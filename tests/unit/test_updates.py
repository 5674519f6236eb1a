"""Test without a cluster that mpigen reports the recorded answers of the control plane to all updates."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy

import pytest

from generator import manifests
from generator.checks.change import immutable
from generator.checks.objects import ChangedObject
from generator.manifests import Manifest
from tests.cluster.updates.answers import (
    Answer,
    disagreements,
    read_answers,
    read_causes,
    recorded_sets,
    unexplained,
    unused,
)
from tests.cluster.updates.cases import read_cases, read_seeds, served
from tests.cluster.versions import set_targets
from tests.conftest import ROOT
from tests.unit.test_changes import variations

SETS = recorded_sets()


def test_every_case_has_an_answer_and_every_answer_has_a_case() -> None:
    assert read_answers().keys() == read_cases().keys(), "run `pytest -m cluster -k test_updates --record`"


@pytest.fixture(scope="module")
def differences() -> dict[str, dict[str, Answer]]:
    """Return the cases in which mpigen differs from the record, by set of versions."""
    return {name: disagreements(served(name), read_answers(name), set_targets(name)) for name in SETS}


@pytest.mark.slow
def test_mpigen_differs_from_the_record_only_in_reviewed_cases(differences: dict[str, dict[str, Answer]]) -> None:
    assert {name: unexplained(found, name) for name, found in differences.items()} == {name: {} for name in SETS}


@pytest.mark.slow
def test_every_reviewed_cause_covers_a_difference(differences: dict[str, dict[str, Answer]]) -> None:
    found = {case: answer for of_set in differences.values() for case, answer in of_set.items()}
    assert unused(found) == []
    assert len({cause.cause for cause in read_causes()}) == len(read_causes())


def test_the_corpus_is_large_and_both_verdicts_are_common() -> None:
    count = Counter(read_answers().values())
    assert count[Answer.ACCEPTED] > 1000
    assert count[Answer.REJECTED] > 500


def test_every_rendered_kind_has_a_seed() -> None:
    rendered = {
        (manifest.group, manifest.kind)
        for file in (ROOT / "output").rglob("*.yaml")
        if file.parent.name not in ("audit", "kueue")
        for manifest in manifests.read(file.read_bytes(), file.name)
    }
    known = {(seed["apiVersion"].rpartition("/")[0], seed["kind"]) for seed in read_seeds().values()}
    assert rendered - known == set()


COMPUTED = ("Job/waiting", "Secret/token", "ResourceClaim/gpu")


@pytest.mark.parametrize("name", COMPUTED)
def test_update_rules_accept_any_value_in_any_place(name: str) -> None:
    sound, odd = Manifest(read_seeds()[name], "old.yaml"), deepcopy(read_seeds()[name])
    looked_at = 0
    for body in variations(odd, odd):
        list(immutable.immutable(ChangedObject(sound, Manifest(body, "new.yaml"), {})))
        list(immutable.immutable(ChangedObject(Manifest(body, "new.yaml"), sound, {})))
        looked_at += 1
    assert looked_at > 50
