"""Compare the three numbers of a ClusterQueue with every state of small trees."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from generator.objects.queue import ClusterQueue, Cohort, Flavor, FlavorResource, Preemption, Quota, ResourceGroup
from generator.upstream.kueue import preemption
from generator.upstream.kueue import preemption as fair_preemption
from generator.upstream.kueue.capacity import Capacity, compute_capacity
from generator.upstream.kueue.configuration import Settings
from generator.upstream.kueue.flavor_assigner import Assignment, Choice, Mode, lowest_that_fits
from generator.upstream.kueue.placement import Sites
from generator.upstream.kueue.preemption import Demand
from generator.upstream.kueue.queues import Node, QueueTree, build_quota_tree
from generator.upstream.kueue.workloads import Cluster, Job, Workload

KEY = FlavorResource("f", "x.com/n")
SMALL = st.integers(0, 3)
QUOTAS = st.builds(Quota, SMALL, st.none() | SMALL, st.none() | SMALL)
STATES = 4000
"""Trees with more states than this are left out."""


@st.composite
def trees(draw: st.DrawFn, stops: Sequence[str] = ("None",), fair: bool | None = False, depth: int = 3) -> QueueTree:
    """Build a tree of up to three cohorts and four queues."""
    count = draw(st.integers(1, depth))
    cohorts = {}
    for number in range(count):
        parent = f"c{draw(st.integers(0, number - 1))}" if number else ""
        cohorts[f"c{number}"] = Cohort(f"c{number}", parent, {KEY: draw(QUOTAS)} if draw(st.booleans()) else {})
    queues = {}
    for number in range(draw(st.integers(2, 4))):
        covers = number == 0 or draw(st.integers(0, 4)) > 0
        queues[f"q{number}"] = ClusterQueue(
            f"q{number}",
            f"c{draw(st.integers(0, count - 1))}",
            groups=(ResourceGroup((KEY.resource,), ("f",)),) if covers else (),
            quotas={KEY: draw(QUOTAS)} if covers else {},
            preemption=Preemption(
                reclaim_within_cohort=draw(st.sampled_from(("Any", "Any", "Never", "LowerPriority")))
            ),
            stop_policy=draw(st.sampled_from(stops)) if number else "None",
            namespaces=None if number and draw(st.integers(0, 5)) == 0 else {},
        )
    return QueueTree({"f": Flavor("f")}, cohorts, queues, settings=Settings(is_fair=fair))


def uses(tree: QueueTree) -> list[str]:
    """Return the queues that can have running jobs."""
    return [
        name
        for name, queue in tree.queues.items()
        if name != "q0" and queue.quotas and queue.namespaces is not None and queue.stop_policy != "HoldAndDrain"
    ]


def states(nodes: Mapping[str, Node], names: Sequence[str]) -> Iterator[None]:
    """Yield all usages of the queues that Kueue can admit."""
    if not names:
        yield
        return
    node = nodes[names[0]]
    for amount in range(max(0, node.available(KEY)) + 1):
        node.add(KEY, amount)
        yield from states(nodes, names[1:])
        node.remove(KEY, amount)


def running(tree: QueueTree, nodes: Mapping[str, Node], names: Sequence[str]) -> Cluster:
    """Return the same state as jobs of one unit each, which is the worst for a preempting job."""
    found = Cluster(build_quota_tree(tree), Sites(tree.flavors, ()))
    number = 0
    for name in names:
        for _ in range(nodes[name].uses(KEY)):
            number += 1
            gets = Assignment({"p": {KEY.resource: Choice("f", Mode.FIT, 0)}}, usage={KEY: 1})
            found.add(Workload(Job(f"w{number}", name, ()), number, gets, number))
    return found


def gets(cluster: Cluster, amount: int, strategies: tuple[str, ...]) -> bool:
    """Return True if Kueue admits a job of this size, with preemption if needed."""
    node = cluster.nodes["q0"]
    if amount <= max(0, node.available(KEY)):
        return True
    may_reclaim = node.quota(KEY).nominal >= amount or lowest_that_fits(node, KEY, amount)[1]
    if amount > node.potential(KEY) or not (may_reclaim or strategies):
        return False
    demand = Demand(Workload(Job("new", "q0", ()), 10**6), node, {KEY: amount}, frozenset((KEY,)))
    held = {name: jobs for name, jobs in cluster.running.items() if cluster.nodes[name].refusal}
    for name in held:
        cluster.running[name] = {}
    found = (
        fair_preemption.find_fair_targets(cluster, demand, strategies)
        if strategies
        else preemption.find_targets(cluster, demand)
    )
    cluster.running.update(held)
    return bool(found)


def exact(tree: QueueTree, strategies: tuple[str, ...] = ()) -> tuple[int, int, int] | None:
    """Return the three numbers from all states, or None if there are too many."""
    nodes, names = build_quota_tree(tree), uses(tree)
    node = nodes["q0"]
    idle = owned = reclaimable = node.potential(KEY)
    for number, _ in enumerate(states(nodes, names)):
        if number > STATES:
            return None
        owned = min(owned, max(0, node.available(KEY)))
        cluster = running(tree, nodes, names)
        while reclaimable and not all(gets(cluster, each, strategies) for each in range(1, reclaimable + 1)):
            reclaimable -= 1
    return owned, reclaimable, idle


def computed(tree: QueueTree) -> Capacity:
    return compute_capacity(build_quota_tree(tree)["q0"], KEY)


@given(trees())
@settings(max_examples=150, deadline=None)
def test_computed_numbers_equal_the_numbers_of_all_states(tree: QueueTree) -> None:
    found, expected = computed(tree), exact(tree)
    if expected:
        assert (found.owned, found.reclaimable, found.idle) == expected


@given(trees(stops=("None", "Hold", "HoldAndDrain")))
@settings(max_examples=150, deadline=None)
def test_a_queue_on_hold_keeps_borrowed_quota(tree: QueueTree) -> None:
    check(tree)


@given(trees(fair=True), st.sampled_from(fair_preemption.STRATEGIES))
@settings(max_examples=100, deadline=None)
def test_fair_sharing_reclaims_by_shares(tree: QueueTree, strategies: tuple[str, ...]) -> None:
    check(tree, strategies)


@given(trees(fair=None), st.sampled_from(((), *fair_preemption.STRATEGIES)))
@settings(max_examples=100, deadline=None)
def test_numbers_without_a_configuration_hold_with_and_without_fair_sharing(
    tree: QueueTree, strategies: tuple[str, ...]
) -> None:
    check(tree, strategies)


def check(tree: QueueTree, strategies: tuple[str, ...] = ()) -> None:
    """Compare with all states; an unknown number has a reason and a lower bound."""
    found, expected = computed(tree), exact(tree, strategies)
    if expected:
        assert (found.owned, found.idle) == (expected[0], expected[2])
        if found.reclaimable is None:
            least = re.match(r"at least (\d+): ", found.reason)
            assert least
            assert int(least[1]) <= expected[1]
        else:
            assert found.reclaimable == expected[1]
