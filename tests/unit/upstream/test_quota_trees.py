"""mpigen's largest jobs agree with the real Kueue in 200 random queue trees (tests/update_quota_trees.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from generator.manifests import Body
from generator.upstream.kueue.largest import largest_jobs
from tests.cluster.versions import NAMES, versions
from tests.quota_claims import disagreements
from tests.quota_trees import Limits, Tree, drawn, recorded_answers, recorded_trees, written

TREES = recorded_trees()
ANSWERS = {minor: recorded_answers(minor) for minor in (versions(name)["kueue"].minor for name in NAMES)}


@pytest.mark.parametrize("seed", range(len(TREES)))
@pytest.mark.parametrize("version", ANSWERS)
def test_mpigen_agrees_with_kueue(version: str, seed: int) -> None:
    assert list(disagreements(TREES[seed], version, ANSWERS[version][seed])) == []


def test_the_record_has_200_trees_per_version() -> None:
    assert {version: len(answers) for version, answers in ANSWERS.items()} == dict.fromkeys(ANSWERS, 200)
    assert [written(asdict(drawn(seed))) for seed in range(200)] == [written(asdict(tree)) for tree in TREES]


def test_the_trees_cover_every_setting() -> None:
    found = Counter(setting for tree in TREES for setting in _settings(tree))
    expected = [
        "fair", "plain", "nested", "flat", "1 groups", "2 groups", "3 groups", "None", "Hold", "HoldAndDrain",
        "borrowingLimit", "lendingLimit", "borrowWithinCohort", "quota of a cohort", "weight 0", "weight 2",
        "MayStopSearch", "TryNextFlavor", "BorrowingOverPreemption", "PreemptionOverBorrowing",
        *(f"reclaimWithinCohort {policy}" for policy in ("Any", "LowerPriority", "Never")),
        *(f"withinClusterQueue {policy}" for policy in ("LowerPriority", "LowerOrNewerEqualPriority", "Never")),
    ]  # fmt: skip
    assert min(found[each] for each in expected) >= 20, found


def _settings(tree: Tree) -> Iterator[str]:
    yield "fair" if tree.fair else "plain"
    yield "nested" if any(each["parent"] for each in tree.cohorts.values()) else "flat"
    yield from ("quota of a cohort" for each in tree.cohorts.values() if each["groups"])
    for queue in tree.queues.values():
        rules = queue["rules"]
        yield f"{len(queue['groups'])} groups"
        yield rules["stopPolicy"]
        yield f"weight {rules['fairSharing']['weight']}"
        yield from rules["flavorFungibility"].values()
        yield from (f"{field} {policy}" for field, policy in rules["preemption"].items() if isinstance(policy, str))
        yield from (field for field in ("borrowWithinCohort",) if field in rules["preemption"])
        for _, borrowing, lending in _limits(queue):
            yield from ["borrowingLimit"] * (borrowing is not None)
            yield from ["lendingLimit"] * (lending is not None)


def _limits(queue: Body) -> list[Limits]:
    return [limits for group in queue["groups"] for flavor in group.values() for limits in flavor.values()]


@pytest.mark.parametrize("version", ANSWERS)
def test_mpigen_computes_most_of_the_guarantees(version: str) -> None:
    """The comparison skips unknown numbers, so only a few may be unknown."""
    found = [each for tree in TREES for each in largest_jobs(tree.queue_tree(version), tree.objects())]
    assert all(each.idle is not None for each in found)
    assert sum(each.reclaimable is None for each in found) < len(found) / 5
    assert sum(each.owned is None for each in found) < (len(found) / 50 if version == "0.18" else 1)
