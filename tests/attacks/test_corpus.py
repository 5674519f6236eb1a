"""Test that the corpus is complete, and that RBAC and the rules decide its requests without a cluster as recorded."""

from __future__ import annotations

import pytest

from tests.attacks.corpus import WAYS, Attack, attacks, on, work
from tests.attacks.offline import is_decided_offline, rules_of, stopped_by
from tests.attacks.platforms import PLATFORMS, scene


def test_the_corpus_has_enough_attacks_of_every_persona() -> None:
    assert len(attacks()) >= 520
    assert len(work()) >= 60
    attackers = {"submitter", "editor", "team-admin", "other-admin", "anonymous", "workbench", "student", "professor"}
    assert attackers <= {attack.by for attack in attacks()}


@pytest.mark.parametrize("attack", attacks(), ids=str)
def test_every_attack_is_stopped_by_something_known_or_has_a_control(attack: Attack) -> None:
    known = {*WAYS}.union(*(rules_of(scene(name)) for name in PLATFORMS))
    assert {way for ways in attack.stopped.values() for way in ways} <= known
    assert bool(attack.stopped) != bool(attack.remains)
    assert bool(attack.control) == bool(attack.remains)
    assert {*attack.stopped} in (set(), {*attack.platforms})


def test_titles_are_unique() -> None:
    titles = [(attack.kind, attack.by, attack.title) for attack in (*attacks(), *work())]
    assert len(titles) == len({*titles})


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_rule_stops_an_attack(platform: str) -> None:
    stopping = {way for attack in on(platform, attacks()) for way in attack.stopped.get(platform, ())}
    assert rules_of(scene(platform)) <= stopping


@pytest.mark.parametrize("platform", PLATFORMS)
def test_rbac_and_rules_decide_as_recorded(platform: str) -> None:
    rules, wrong = rules_of(scene(platform)), []
    for attack in on(platform, (*attacks(), *work())):
        if is_decided_offline(attack, platform, rules):
            stopped = stopped_by(platform, attack)
            expected = {*attack.stopped.get(platform, ())}
            if bool(stopped) != bool(expected) or (expected and not stopped & expected):
                wrong.append(f"{attack}: {sorted(stopped) or 'accepted'} instead of {sorted(expected) or 'accepted'}")
    assert wrong == []
