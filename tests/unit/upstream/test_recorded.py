"""mpigen predicts the outcomes of random scenarios in the real Kueue's scheduler (tests/update_scenarios.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from tests.cluster.versions import NAMES, versions
from tests.scenarios import Outcomes, Scenario, predicted, recorded

RECORDED = list(recorded())
MINORS = [versions(name)["kueue"].minor for name in NAMES]


@pytest.mark.parametrize("version", MINORS)
@pytest.mark.parametrize(("scenario", "outcomes"), RECORDED, ids=range(len(RECORDED)))
def test_mpigen_predicts_the_outcomes_of_kueue(
    scenario: Scenario, outcomes: Mapping[str, Outcomes], version: str
) -> None:
    assert predicted(scenario, version) == outcomes[version]


def test_the_record_has_every_event_and_every_kind_of_queue() -> None:
    """Jobs are admitted, stay pending and are preempted, with fair sharing and without, in every flavor."""
    events: Counter[str] = Counter()
    for scenario, both in RECORDED:
        specs = [each["spec"] for each in scenario.objects if each["kind"] == "ClusterQueue"]
        events.update(f"{len(spec['resourceGroups'])} groups" for spec in specs)
        events.update(spec["stopPolicy"] for spec in specs)
        for each in both[MINORS[0]].values():
            kind = "fair" if scenario.fair else "plain"
            events.update(f"{kind} {event}" for event in {*each.get("history", ()), each["state"]})
            events.update(f for flavors in each.get("flavors", {}).values() for f in flavors.values())
    kinds = [
        f"{kind} {event}" for kind in ("fair", "plain") for event in ("admitted", "waits", "preempted", "finished")
    ]
    expected = (*kinds, *"fghn", "1 groups", "2 groups", "3 groups")
    assert min(events[each] for each in expected) >= 5, events
    assert min(events[each] for each in ("k", "Hold", "HoldAndDrain")) >= 2, events
