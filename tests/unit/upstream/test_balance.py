"""Test quota trees: hand-computed cases, and properties of every tree."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.manifests import Manifest
from generator.objects.queue import ClusterQueue, Cohort, FlavorResource, Preemption, Quota
from generator.upstream.kueue.capacity import compute_capacity
from generator.upstream.kueue.queues import Node, QueueTree, build_quota_tree
from tests.unit.upstream.trees import Quotas, cohort, queue, tree

CPU = FlavorResource("f", "cpu")
GPU = FlavorResource("f", "a.com/gpu")


def nodes(*manifests: Any) -> Mapping[str, Node]:
    return build_quota_tree(tree(*manifests))


def cores(node: Node) -> tuple[int, int]:
    """Return the available and the potentially available cores."""
    return node.available(CPU) // 1000, node.potential(CPU) // 1000


def use(node: Node, amount: int) -> None:
    node.add(CPU, amount * 1000)


def test_a_queue_without_a_cohort_has_its_quota() -> None:
    found = nodes(queue("q", {"f/cpu": "5"}))["q"]
    use(found, 2)
    assert cores(found) == (3, 5)


def test_unused_quota_of_other_queues_can_be_borrowed() -> None:
    found = nodes(queue("a", {"f/cpu": "5"}, "c"), queue("b", {"f/cpu": "3"}, "c"))
    use(found["b"], 1)
    assert (cores(found["a"]), cores(found["b"])) == ((7, 8), (7, 8))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (("5", "2"), (7, 7)),  # no more than 2 beyond its own
        (("5", "9"), (8, 8)),  # no more than there is
        (("5", "0"), (5, 5)),
    ],
)
def test_a_borrowing_limit_caps_available_quota(limits: tuple[str, ...], expected: tuple[int, int]) -> None:
    found = nodes(queue("a", {"f/cpu": limits}, "c"), queue("b", {"f/cpu": "3"}, "c"))
    assert cores(found["a"]) == expected


def test_quota_above_the_lending_limit_is_kept() -> None:
    found = nodes(queue("a", {"f/cpu": "5"}, "c"), queue("b", {"f/cpu": ("4", None, "1")}, "c"))
    assert (cores(found["a"]), cores(found["b"])) == ((6, 6), (9, 9))
    use(found["a"], 6)  # with the one that b lends
    assert (cores(found["a"]), cores(found["b"])) == ((0, 6), (3, 9))
    use(found["b"], 3)
    assert found["b"].root().uses(CPU) == 6000


def test_usage_above_a_lending_limit_counts_in_the_cohort() -> None:
    found = nodes(queue("a", {"f/cpu": ("4", "2", "1")}, "c"), queue("b", {"f/cpu": "6"}, "c"))
    use(found["a"], 5)  # 3 kept, 1 its own above, 1 borrowed
    assert cores(found["a"]) == (1, 6)
    use(found["b"], 5)
    assert (cores(found["a"]), cores(found["b"])) == ((0, 6), (0, 7))


def three_levels(inner: Quotas | None = None) -> Mapping[str, Node]:
    """root( x( a 4 ), y( b 2, d 2 ) )."""
    return nodes(
        cohort("root", quotas={"f/cpu": "1"}), cohort("x", "root", inner), cohort("y", "root"),
        queue("a", {"f/cpu": "4"}, "x"), queue("b", {"f/cpu": "2"}, "y"), queue("d", {"f/cpu": "2"}, "y"),
    )  # fmt: skip


def test_a_cohort_has_its_own_quota_and_that_of_its_children() -> None:
    found = three_levels()
    assert {name: cores(node) for name, node in found.items()} == {"a": (9, 9), "b": (9, 9), "d": (9, 9)}
    assert found["a"].root().subtree == {CPU: 9000}
    assert (found["a"].root().height(), [node.name for node in found["a"].path()]) == (2, ["x", "root"])


def test_limits_of_a_cohort_apply_to_all_its_children() -> None:
    found = three_levels({"f/cpu": ("0", "1", "1")})
    assert {name: cores(node) for name, node in found.items()} == {"a": (5, 5), "b": (6, 6), "d": (6, 6)}
    use(found["b"], 6)  # 4 of y, 1 of root and the one that x lends
    assert {name: cores(node) for name, node in found.items()} == {"a": (3, 5), "b": (0, 6), "d": (0, 6)}


def test_removing_usage_restores_the_tree() -> None:
    found = three_levels({"f/cpu": ("2", "3", "1")})
    use(found["a"], 7)
    before = [dict(node.usage) for node in (found["a"], *found["a"].path())]
    use(found["a"], 3)
    found["a"].remove(CPU, 3000)
    assert [node.usage for node in (found["a"], *found["a"].path())] == before


def test_queues_in_a_cohort_cycle_are_left_out_and_stopped_ones_still_lend() -> None:
    found = nodes(
        cohort("a", "b"), cohort("b", "a"), queue("stuck", {"f/cpu": "1"}, "a"),
        queue("held", {"f/cpu": "3"}, "c", stopPolicy="Hold"), queue("free", {"f/cpu": "1"}, "c"),
    )  # fmt: skip
    assert sorted(found) == ["free", "held"]
    assert cores(found["free"]) == (4, 4)
    assert [node.name for node in found["free"].root().below()] == ["free"]


def test_cohorts_may_be_nested_deeper_than_the_recursion_limit() -> None:
    deep = 3 * sys.getrecursionlimit()
    chain = [cohort(f"c{number}", f"c{number - 1}" if number else "") for number in range(deep)]
    found = nodes(
        *chain, queue("low", {"f/cpu": ("5", None, "3")}, chain[-1].name), queue("high", {"f/cpu": "2"}, "c0")
    )
    low, high = found["low"], found["high"]
    assert (cores(low), cores(high)) == ((7, 7), (5, 5))
    use(low, 6)
    assert (cores(low), cores(high), low.root().uses(CPU)) == ((1, 7), (1, 5), 4000)
    low.remove(CPU, 6000)
    assert (cores(low), low.root().uses(CPU)) == ((7, 7), 0)
    assert [each.name for each in low.root().below()] == ["low", "high"]
    assert low.root().height() == deep


@pytest.mark.parametrize(
    ("policy", "lending", "owned", "reclaimable"),
    [
        ("Any", None, 0, 4),
        ("LowerPriority", None, 0, 0),
        ("Never", None, 0, 0),
        ("Never", "1", 3, 3),
        ("Any", "1", 3, 4),
        ("Never", "9", 0, 0),
    ],
)
def test_a_queue_owns_quota_it_never_lends_and_reclaims_the_rest(
    policy: str, lending: str | None, owned: int, reclaimable: int
) -> None:
    preemption = {"reclaimWithinCohort": policy}
    found = nodes(
        queue("a", {"f/cpu": ("4", None, lending)}, "c", preemption=preemption), queue("b", {"f/cpu": "0"}, "c")
    )
    own = compute_capacity(found["a"], CPU)
    assert (own.owned, own.reclaimable, own.idle) == (owned * 1000, reclaimable * 1000, 4000)


@pytest.mark.parametrize(
    "other",
    [
        queue("b", {"f/cpu": ("2", "0")}, "c"),
        queue("b", {"g/cpu": "2", "g/memory": "9"}, "c"),
        queue("b", {"f/memory": "2"}, "c"),
        queue("b", {"f/cpu": "2"}, "c", stopPolicy="HoldAndDrain"),
        queue("b", {"f/cpu": ("2", "0", "0")}, "d"),
        queue("b", {"f/cpu": "2"}, "c", namespaceSelector=None),
    ],
)
def test_a_queue_owns_all_of_its_quota_if_no_other_can_borrow_it(other: Manifest) -> None:
    own = compute_capacity(nodes(queue("a", {"f/cpu": "4"}, "c"), other)["a"], CPU)
    assert own.owned >= 4000


def test_a_queue_alone_in_its_cohort_owns_all_of_its_quota() -> None:
    assert compute_capacity(nodes(queue("a", {"f/cpu": "4"}, "c"))["a"], CPU).owned == 4000


def test_no_job_of_a_queue_on_hold_is_preempted() -> None:
    mine = queue("a", {"f/cpu": "4"}, "c", preemption={"reclaimWithinCohort": "Any"})
    other = queue("b", {"f/cpu": "2"}, "c", stopPolicy="Hold")
    own = compute_capacity(nodes(mine, other)["a"], CPU)
    assert (own.owned, own.reclaimable, own.idle) == (0, 0, 6000)


def test_a_stopped_queue_gets_no_quota() -> None:
    own = compute_capacity(nodes(queue("a", {"f/cpu": "4"}, "c", stopPolicy="Hold"))["a"], CPU)
    assert (own.nominal, own.owned, own.reclaimable, own.idle) == (4000, 0, 0, 0)
    assert own.reason == "the queue admits no job: its `stopPolicy` is `Hold`"


AMOUNTS = st.integers(0, 20)
LIMITS = st.none() | AMOUNTS
QUOTAS = st.builds(Quota, AMOUNTS, LIMITS, LIMITS)


@st.composite
def trees(draw: st.DrawFn) -> QueueTree:
    """Draw cohort trees without cycles, with queues."""
    count = draw(st.integers(1, 4))
    cohorts = {}
    for number in range(count):
        parent = f"c{draw(st.integers(0, number - 1))}" if number and draw(st.booleans()) else ""
        cohorts[f"c{number}"] = Cohort(f"c{number}", parent, {CPU: draw(QUOTAS)} if draw(st.booleans()) else {})
    queues = {}
    for number in range(draw(st.integers(1, 5))):
        where = f"c{draw(st.integers(0, count - 1))}"
        quotas = {CPU: draw(QUOTAS), GPU: draw(QUOTAS)}
        any_time = Preemption(reclaim_within_cohort="Any")
        queues[f"q{number}"] = ClusterQueue(f"q{number}", where, quotas=quotas, preemption=any_time)
    return QueueTree({}, cohorts, queues)


@given(trees())
def test_a_queue_has_at_least_its_quota_and_at_most_its_borrowing_limit(found: QueueTree) -> None:
    for node in build_quota_tree(found).values():
        for key in (CPU, GPU):
            own = compute_capacity(node, key)
            assert own.owned <= (own.reclaimable or own.owned) <= own.idle
            assert own.nominal <= (own.reclaimable or own.idle)
            assert own.borrowing is None or own.idle <= own.nominal + own.borrowing
            assert own.idle <= sum(each.quota(key).nominal for each in _everything(node.root()))
            assert node.available(key) == own.idle  # while nothing is in use


def _everything(root: Node) -> list[Node]:
    return [root, *root.queues, *(each for cohort in root.cohorts for each in _everything(cohort))]


@given(trees(), st.data())
@settings(max_examples=60)
def test_taking_available_quota_never_exceeds_the_quota_of_a_cohort(found: QueueTree, data: st.DataObject) -> None:
    placed = build_quota_tree(found)
    taken = dict.fromkeys(placed, 0)
    for name in data.draw(st.lists(st.sampled_from(sorted(placed)), max_size=8)):
        node = placed[name]
        amount = data.draw(st.integers(0, max(0, node.available(CPU))))
        node.add(CPU, amount)
        taken[name] += amount
        assert all(each.uses(CPU) <= each.has(CPU) for each in placed.values() if each.quota(CPU).borrowing == 0)
        assert all(each.root().uses(CPU) <= each.root().has(CPU) for each in placed.values())
    for name, amount in taken.items():
        placed[name].remove(CPU, amount)
    assert all(used == 0 for each in placed.values() for node in (each, *each.path()) for used in node.usage.values())


@given(trees(), st.data())
@settings(max_examples=60)
def test_usage_of_other_queues_within_their_quota_never_reduces_ones_own(found: QueueTree, data: st.DataObject) -> None:
    placed = build_quota_tree(found)
    mine = data.draw(st.sampled_from(sorted(placed)))
    for name, node in placed.items():
        if name != mine:
            node.add(CPU, data.draw(st.integers(0, node.quota(CPU).nominal)))
    own = compute_capacity(placed[mine], CPU)
    assert placed[mine].available(CPU) >= min(own.nominal, own.reclaimable or own.nominal)
