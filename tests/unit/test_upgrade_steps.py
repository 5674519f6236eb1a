"""The order of the steps of an upgrade keeps versions that work together at each time."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generator.facts.api_versions import is_reached
from generator.facts.upgrades import STOPS
from generator.facts.versions import accepted_minors, find_conflicts
from generator.upgrade.changes import of_steps
from generator.upgrade.entry import Impact
from generator.upgrade.steps import find_steps, find_stops
from generator.upgrade.versions import read_versions

NAMES = ("argocd", "jobset", "kubernetes", "kueue", "trainer")
VERSIONS = st.fixed_dictionaries({name: st.sampled_from(accepted_minors(name)) for name in NAMES})
SETS = [
    versions
    for minors in product(*map(accepted_minors, NAMES))
    if not [*find_conflicts(versions := dict(zip(NAMES, minors, strict=True)))]
]
"""The sets of versions that work."""


@st.composite
def upgrades(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, str]]:
    """Draw versions that work, and the same or newer versions, which may not work."""
    before = draw(st.sampled_from(SETS))
    newer = {name: [minor for minor in accepted_minors(name) if is_reached(minor, before[name])] for name in NAMES}
    return before, {name: draw(st.sampled_from(minors)) for name, minors in newer.items()}


@given(upgrades())
def test_every_set_of_versions_between_two_steps_works(upgrade: tuple[dict[str, str], dict[str, str]]) -> None:
    before, after = upgrade
    steps = find_steps(before, after)
    if [*find_conflicts(after)]:
        assert steps == []
        return
    versions = dict(before)
    for step in steps:
        for name, (was, now) in step.changes.items():
            assert versions[name] == was != now
            assert not any(stop.forbids(was, now) for stop in STOPS if stop.component == name)
            versions[name] = now
        assert [need for need, _ in find_conflicts(versions)] == [*step.broken]
        assert bool(step.pairs) == (len(step.changes) > 1)
    assert versions == after


@given(VERSIONS)
def test_no_step_is_needed_for_the_same_versions(versions: dict[str, str]) -> None:
    assert find_steps(versions, versions) == []


BASE = {"trainer": "2.2", "jobset": "0.11", "kueue": "0.19", "kubernetes": "1.33"}


@pytest.mark.parametrize(
    ("to", "order"),
    [
        ({"kubernetes": "1.34"}, ["kubernetes=1.34"]),
        ({"trainer": "2.3", "jobset": "0.12"}, ["jobset=0.12 trainer=2.3"]),
        ({"trainer": "2.4", "jobset": "0.12"}, ["jobset=0.12 trainer=2.3", "trainer=2.4"]),
        ({"trainer": "2.3", "jobset": "0.12", "kueue": "0.20"}, ["jobset=0.12 trainer=2.3", "kueue=0.20"]),
        ({"trainer": "2.4"}, ["trainer=2.3", "trainer=2.4"]),
        ({"trainer": "2.3"}, []),
        ({"kueue": "0.20"}, []),
        ({"kubernetes": "1.36"}, ["kubernetes=1.34", "kubernetes=1.35", "kubernetes=1.36"]),
    ],
    ids=str,
)
def test_the_order_of_steps(to: dict[str, str], order: list[str]) -> None:
    steps = find_steps(BASE, {**BASE, **to})
    found = [" ".join(f"{name}={now}" for name, (_, now) in step.changes.items()) for step in steps]
    assert found == order


def test_a_pair_that_no_order_avoids_is_named() -> None:
    steps = find_steps(BASE, {**BASE, "trainer": "2.4"})
    assert [[need.requirement for need in step.broken] for step in steps] == [["Trainer 2.3 needs JobSet 0.12"], []]
    (entry,) = of_steps(steps)
    assert (entry.impact, entry.step, entry.pair) == (Impact.BLOCKED, 1, steps[0].broken[0])
    assert [*of_steps(find_steps(BASE, {**BASE, "trainer": "2.4", "jobset": "0.12"}))] == []


def test_kueue_skips_a_minor_version_and_kubernetes_does_not() -> None:
    before = {"kueue": "0.18", "kubernetes": "1.33", "trainer": "2.3", "jobset": "0.12"}
    after = {**before, "kueue": "0.20", "kubernetes": "1.35"}
    steps = find_steps(before, after)
    assert [step.changes for step in steps if "kueue" in step.changes] == [{"kueue": ("0.18", "0.20")}]
    (note,) = find_stops(steps, before, after)
    assert note.startswith(
        "Kubernetes goes through 1.34, because the API server must not skip a minor version (https://"
    )


def test_versions_are_separated_by_commas() -> None:
    assert read_versions(("kueue=0.20, trainer=2.4", "argocd=3.6"), "--to") == (
        {"kueue": "0.20", "trainer": "2.4", "argocd": "3.6"},
        [],
    )
    _, problems = read_versions(("kueue=0.20,kueue=0.19",), "--to")
    assert [problem.message for problem in problems] == ["Kueue has two versions: 0.20 and 0.19"]
