"""What mpigen predicts is what Kueue's own scheduler did: scenarios drawn by lot (tests/update_scenarios.py)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.scenarios import Outcomes, Scenario, predicted, recorded

RECORDED = list(recorded())


@pytest.mark.parametrize(("scenario", "outcomes"), RECORDED, ids=range(len(RECORDED)))
def test_kueue_did_what_is_predicted(scenario: Scenario, outcomes: Outcomes) -> None:
    assert predicted(scenario) == outcomes


def test_the_scenarios_are_worth_playing() -> None:
    """Jobs are admitted, wait and are driven out in them, with fair sharing and without, and get every flavor."""
    events: Counter[str] = Counter()
    for scenario, outcomes in RECORDED:
        for each in outcomes.values():
            kind = "fair" if scenario.fair else "plain"
            events.update(f"{kind} {event}" for event in {*each.get("history", ()), each["state"]})
            events.update(f for flavors in each.get("flavors", {}).values() for f in flavors.values())
    kinds = [
        f"{kind} {event}" for kind in ("fair", "plain") for event in ("admitted", "waits", "preempted", "finished")
    ]
    assert min(events[each] for each in (*kinds, "f", "g")) >= 5, events
