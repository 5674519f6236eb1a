"""Every row of upgrades.yaml hits an object of its fixture, and spares another."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from generator.facts.upgrades import Change, upgrade_changes
from generator.manifests import Manifest
from generator.upgrade.rows import World, find_rows
from tests.conftest import ROOT

FIXTURE: dict[str, Any] = yaml.safe_load((ROOT / "tests/fixtures/upgrades.yaml").read_text("utf-8"))
FIRST = {"argocd": "3.2", "jobset": "0.11", "kubernetes": "1.33", "kueue": "0.18", "trainer": "2.2"}
LAST = {"argocd": "3.9", "kubernetes": "1.39", "kueue": "0.29", "trainer": "2.9"}


def hit_rows(change: Change, bodies: list[dict[str, Any]]) -> set[str]:
    """Return the ids of the rows that hit some objects, if only the component of a row is upgraded to its version."""
    version = change.version or LAST[change.component]
    major, minor = map(int, version.split("."))
    before = {**FIRST, change.component: f"{major}.{minor - 1}"}
    runtime = Manifest(FIXTURE["runtime"], "release.yaml")
    world = World.of([runtime], [Manifest(body, "cluster.yaml", index) for index, body in enumerate(bodies)])
    return {row.change.id for row in find_rows(world, [], before, {**before, change.component: version})}


def test_every_row_has_a_case() -> None:
    assert [change.id for change in upgrade_changes()] == list(FIXTURE["rows"])


@pytest.mark.parametrize("change", upgrade_changes(), ids=lambda change: change.id)
def test_a_row_hits_one_case_and_spares_the_other(change: Change) -> None:
    cases = FIXTURE["rows"][change.id]
    for body in cases["hits"]:
        assert change.id in hit_rows(change, [body])
    assert change.id not in hit_rows(change, cases["spares"])


@pytest.mark.parametrize("change", upgrade_changes(), ids=lambda change: change.id)
def test_a_row_is_silent_if_another_component_is_upgraded(change: Change) -> None:
    other = next(item for item in upgrade_changes() if item.component != change.component and item.version)
    assert change.id not in hit_rows(other, FIXTURE["rows"][change.id]["hits"])
    assert not change.version or not change.happens(change.version, LAST[change.component])
