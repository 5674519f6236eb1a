"""Test topology placements that are computed by hand from Kueue's rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.errors import NotModelledError
from generator.manifests import Manifest
from generator.objects.queue import Flavor, FlavorResource
from generator.upstream.kueue.admission import predict, would_admit
from generator.upstream.kueue.nodes import is_of_flavor, read_machines
from generator.upstream.kueue.podsets import PodSet
from generator.upstream.kueue.queues import QueueTree
from generator.upstream.kueue.topology import TopologyMode, TopologyRequest
from generator.upstream.kueue.workloads import Finished, Job, Outcome, State
from tests.unit.upstream.nodes import HOST, RACK, node, racks
from tests.unit.upstream.trees import kueue, queue, topology, tree

REQUIRED, PREFERRED = (TopologyRequest(how, RACK, "hosts") for how in (TopologyMode.REQUIRED, TopologyMode.PREFERRED))
ANYWHERE = TopologyRequest(TopologyMode.UNCONSTRAINED)


def queues(*more: Manifest, cpu: int = 99, said: dict[str, str] | None = None, **spec: Any) -> QueueTree:
    """Return a queue with so many cores of a flavor with racks."""
    body = {"topologyName": "racks", "nodeLabels": {"pool": "f"}}
    by_rack = kueue("ResourceFlavor", "f", body, annotations=said or {})
    mine = queue("q", {"f/cpu": str(cpu)}, **spec)
    return tree(topology("racks", RACK, HOST), by_rack, *(more or (mine,)))


def hosts(
    name: str, count: int, wish: TopologyRequest = REQUIRED, priority: int = 0, cpu: int = 4, queue_name: str = "q"
) -> Job:
    """Return so many pods with their own cores."""
    alone = TopologyRequest(wish.mode, wish.level)
    return Job(name, queue_name, (PodSet("node", count, {"cpu": cpu * 1000}, topology=alone),), priority)


def group(name: str, count: int, wish: TopologyRequest = REQUIRED, launcher: int = 1) -> Job:
    """Return so many hosts with four cores each, and a launcher in their group."""
    pods = PodSet("node", count, {"cpu": 4000}, topology=wish)
    return Job(name, "q", (pods, PodSet("launcher", 1, {"cpu": launcher * 1000}, topology=wish)))


def where(found: Outcome) -> dict[str, str]:
    """Return kind of pods → their nodes, with the number of pods on each."""
    return {
        pods: " ".join(f"{name}*{count}" if count > 1 else name for name, count in sorted(at.items()))
        for pods, at in found.places.items()
    }


def states(nodes: list[Manifest], *steps: Job | Finished, **options: Any) -> dict[str, str]:
    found = predict(queues(**options), steps, (), nodes)
    return {name: each.state.value + ("!" if each.was_preempted else "") for name, each in found.items()}


def test_a_job_gets_the_smallest_rack_that_fits() -> None:
    found = predict(queues(), [hosts("two", 2), hosts("three", 3)], (), racks(4, 2, 3))
    assert [where(each) for each in found.values()] == [{"node": "n4 n5"}, {"node": "n6 n7 n8"}]


def test_equal_racks_are_taken_by_name() -> None:
    (found,) = predict(queues(), [hosts("j", 2)], (), racks(3, 3)[::-1]).values()
    assert where(found) == {"node": "n0 n1"}


def test_a_job_with_a_required_rack_waits_for_one_or_never_fits() -> None:
    assert states(racks(3, 3), hosts("a", 2), hosts("b", 2), hosts("c", 2), hosts("d", 4)) == {
        "a": "admitted",
        "b": "admitted",
        "c": "waits",
        "d": "never",
    }


def test_an_unplaceable_job_reports_its_reason() -> None:
    (found,) = predict(queues(), [hosts("j", 4)], (), racks(3, 3)).values()
    assert found.reason == "the nodes of flavor `f` have no room in one example.com/rack for these pods: 4 of `node`"
    (found,) = predict(queues(), [hosts("j", 7, PREFERRED)], (), racks(3, 3)).values()
    assert found.reason == "the nodes of flavor `f` have no room for these pods: 7 of `node`"


def test_a_finished_job_frees_its_nodes() -> None:
    steps = (hosts("a", 3), hosts("b", 3), hosts("c", 3), Finished("b"))
    assert states(racks(3, 3), *steps) == {"a": "admitted", "b": "finished", "c": "admitted"}
    assert where(predict(queues(), steps, (), racks(3, 3))["c"]) == {"node": "n3 n4 n5"}


def test_a_job_with_a_preferred_rack_gets_the_fewest_racks() -> None:
    """Kueue takes the largest racks first, and the smallest sufficient one last."""
    found = predict(queues(), [hosts("j", 5, PREFERRED)], (), racks(1, 3, 2, 4))
    assert where(found["j"]) == {"node": "n0 n6 n7 n8 n9"}


def test_unconstrained_pods_fill_the_fullest_nodes_first() -> None:
    nodes = [node("a", "r0", 8), node("b", "r1", 4), node("c", "r2", 6)]
    assert where(predict(queues(), [hosts("j", 1, ANYWHERE, cpu=2)], (), nodes)["j"]) == {"node": "b"}
    assert where(predict(queues(), [hosts("j", 3, ANYWHERE, cpu=2)], (), nodes)["j"]) == {"node": "c*3"}
    assert where(predict(queues(), [hosts("j", 7, ANYWHERE, cpu=2)], (), nodes)["j"]) == {"node": "a*2 b*2 c*3"}


def test_pods_without_a_request_are_placed_if_all_flavors_have_a_topology() -> None:
    job = Job("j", "q", (PodSet("node", 2, {"cpu": 4000}),))
    assert where(predict(queues(), [job], (), racks(1, 1))["j"]) == {"node": "n0 n1"}
    assert predict(queues(), [job], (), racks(1))["j"].state is State.NEVER


def test_a_launcher_is_placed_in_the_rack_of_its_hosts() -> None:
    found = predict(queues(), [group("a", 2), group("b", 2), group("c", 1)], (), racks(3, 3))
    assert where(found["a"]) == {"launcher": "n0", "node": "n1 n2"}
    assert where(found["b"]) == {"launcher": "n3", "node": "n4 n5"}
    assert found["c"].state is State.WAITS
    assert predict(queues(), [group("a", 3)], (), racks(3, 3))["a"].state is State.NEVER


def test_two_launchers_share_a_node() -> None:
    found = predict(queues(), [group("a", 1), group("b", 1)], (), racks(3))
    assert [where(each) for each in found.values()] == [
        {"launcher": "n0", "node": "n1"},
        {"launcher": "n0", "node": "n2"},
    ]


def test_a_launcher_is_placed_so_that_all_hosts_fit() -> None:
    nodes = [node("a", "r0", 4), node("b", "r0", 5)]
    assert where(predict(queues(), [group("j", 2)], (), nodes)["j"]) == {"launcher": "b", "node": "a b"}


def test_a_group_with_a_preferred_rack_spills_over() -> None:
    found = predict(queues(), [group("j", 3, PREFERRED)], (), racks(2, 2))["j"]
    assert where(found) == {"launcher": "n0", "node": "n1 n2 n3"}
    assert predict(queues(), [group("j", 4, PREFERRED)], (), racks(2, 2))["j"].state is State.NEVER


@pytest.mark.parametrize(
    "closed",
    [
        {"unschedulable": True},
        {"taints": [{"key": "broken", "effect": "NoSchedule"}]},
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"labels": {"pool": "other"}},
    ],
    ids=str,
)
def test_nodes_that_reject_the_pods_do_not_count(closed: dict[str, Any]) -> None:
    nodes = [node("a", "r0"), node("b", "r0", **closed)]
    assert states(nodes, hosts("one", 1), hosts("two", 2)) == {"one": "admitted", "two": "never"}


def test_a_node_without_a_topology_label_has_no_place() -> None:
    nowhere = node("b", "r0")
    del nowhere.body["metadata"]["labels"][RACK]
    assert states([node("a", "r0"), nowhere], hosts("two", 2)) == {"two": "never"}


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({"node_selector": {"disk": "fast"}}, "b"),
        ({"node_selector": {"pool": "f", RACK: "r1", HOST: "b", "disk": "fast"}}, "b"),
        ({"affinity": ({"matchExpressions": [{"key": "disk", "operator": "Exists"}]},)}, "b"),
        ({"affinity": ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},)}, "b"),
        ({}, "a"),
    ],
)
def test_pods_are_placed_on_selected_nodes(wish: dict[str, Any], expected: str) -> None:
    nodes = [node("a", "r0"), node("b", "r1", labels={"disk": "fast"})]
    job = Job("j", "q", (PodSet("node", 1, {"cpu": 4000}, topology=ANYWHERE, **wish),))
    assert where(predict(queues(), [job], (), nodes)["j"]) == {"node": expected}


def test_a_node_can_have_only_the_labels_of_its_flavor() -> None:
    (machine,) = read_machines([node("a", "r0")])
    assert is_of_flavor(machine, Flavor("f", machine.labels))
    assert not is_of_flavor(machine, Flavor("f", {**machine.labels, "disk": "fast"}))


def test_nodes_are_not_distinguished_below_the_lowest_level() -> None:
    mine = queue("q", {"f/cpu": "99"})
    flat = tree(topology("flat", RACK), kueue("ResourceFlavor", "f", {"topologyName": "flat"}), mine)
    found = predict(flat, [hosts("j", 1, cpu=8), hosts("k", 1, cpu=8)], (), racks(2, 1))
    assert where(found["j"]) == {"node": "r0"}
    assert found["k"].state is State.WAITS


def test_a_lower_priority_job_is_preempted_for_a_rack_despite_free_quota() -> None:
    rules = {"withinClusterQueue": "LowerPriority"}
    jobs = (hosts("a", 2, priority=1), hosts("b", 2, priority=0), hosts("c", 2, priority=2))
    found = predict(queues(preemption=rules), jobs, (), racks(3, 3))
    assert [each.state.value for each in found.values()] == ["admitted", "waits", "admitted"]
    assert found["b"].history == ("admitted", "preempted by c")
    assert where(found["c"]) == {"node": "n3 n4"}
    assert states(racks(3, 3), *jobs, preemption={}) == {"a": "admitted", "b": "admitted", "c": "waits"}


def test_a_job_is_not_preempted_if_its_rack_stays_too_small() -> None:
    """`a` is the first candidate by priority, but its rack is too small even without it."""
    rules = {"withinClusterQueue": "LowerPriority"}
    jobs = (hosts("x", 1, priority=9), hosts("a", 1), hosts("b", 3, priority=1), hosts("c", 2, priority=2))
    found = predict(queues(preemption=rules), jobs, (), racks(2, 3))
    assert {name: each.history for name, each in found.items()} == {
        "x": ("admitted",),
        "a": ("admitted",),
        "b": ("admitted", "preempted by c"),
        "c": ("admitted",),
    }
    assert where(found["c"]) == {"node": "n2 n3"}


def test_a_job_that_loses_its_place_gets_another_in_the_same_cycle() -> None:
    """Otherwise `next` would come first in the following cycle, by its priority."""
    both = [queue(name, {"f/cpu": "20"}, "c") for name in ("q", "p")]
    wanted = [hosts("mine", 2, priority=2), hosts("next", 2, priority=1), hosts("theirs", 2, queue_name="p")]
    found = predict(queues(*both), [hosts("all", 4, PREFERRED, priority=3), *wanted, Finished("all")], (), racks(2, 2))
    assert [each.state.value for each in found.values()] == ["finished", "admitted", "waits", "admitted"]


@pytest.mark.parametrize(("cohort", "theirs"), [("c", {"node": "n2 n3"}), ("", {})])
def test_jobs_requeued_together_get_different_nodes(cohort: str, theirs: dict[str, str]) -> None:
    """Both are tried in one cycle, first on r0. In another cohort, no freed place requeues the job."""
    both = [queue(name, {"f/cpu": "20"}, cohort) for name in ("q", "p")]
    wanted = [hosts("all", 4, PREFERRED), hosts("mine", 2), hosts("theirs", 2, queue_name="p")]
    found = predict(queues(*both), [*wanted, Finished("all")], (), racks(2, 2))
    assert [where(found[name]) for name in ("mine", "theirs")] == [{"node": "n0 n1"}, theirs]


def test_a_flavor_without_nodes_counts_only_whole_nodes() -> None:
    """The number of nodes is declared, but not their racks."""
    said = {"mpigen.dev/nodes": "4", "mpigen.dev/allocatable": '{"cpu": "4"}'}
    found = predict(queues(said=said), [hosts("a", 3, PREFERRED), hosts("b", 2, PREFERRED)])
    assert [each.state.value for each in found.values()] == ["admitted", "waits"]
    with pytest.raises(NotModelledError, match="topology of the nodes of flavor `f`"):
        predict(queues(said=said), [hosts("a", 3)])
    with pytest.raises(NotModelledError, match="topology of the nodes of flavor `f`"):
        predict(queues(), [hosts("a", 3, PREFERRED)])
    with pytest.raises(NotModelledError, match="depend on the topology of the nodes of flavor `f`"):
        predict(queues(said=said), [hosts("a", 1, PREFERRED, cpu=1), hosts("b", 1, PREFERRED, cpu=1)])


def test_usage_without_a_place_raises_not_modelled() -> None:
    cpu = FlavorResource("f", "cpu")
    assert would_admit(queues(), hosts("j", 2), nodes=racks(2)).state is State.ADMITTED
    with pytest.raises(NotModelledError, match="other jobs use"):
        would_admit(queues(), hosts("j", 2), {"q": {cpu: 1000}}, racks(2))


def test_a_group_that_kueue_rejects_raises_not_modelled() -> None:
    pods = tuple(PodSet(name, 2, {"cpu": 1000}, topology=REQUIRED) for name in ("a", "b"))
    for job in (Job("two", "q", pods), Job("one", "q", pods[:1])):
        with pytest.raises(NotModelledError, match="Kueue rejects the group"):
            predict(queues(), [job], (), racks(4))


WISHES = st.sampled_from([REQUIRED, PREFERRED, ANYWHERE])


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 5), WISHES, st.integers(1, 4), st.booleans()), max_size=6),
)
@settings(max_examples=200, deadline=None)
def test_every_admitted_pod_has_a_node_with_room_in_its_required_rack(
    sizes: list[int], wanted: list[tuple[int, TopologyRequest, int, bool]]
) -> None:
    nodes = racks(*sizes)
    home = {each.name: each.body["metadata"]["labels"][RACK] for each in nodes}
    sent: dict[str, tuple[Job, TopologyRequest]] = {}
    for number, (count, wish, cpu, has_launcher) in enumerate(wanted):
        name = f"j{number}"
        is_group = has_launcher and wish is not ANYWHERE
        sent[name] = (group(name, count, wish) if is_group else hosts(name, count, wish, cpu=cpu), wish)
    used = dict.fromkeys(home, 0)
    for name, outcome in predict(queues(), [job for job, _ in sent.values()], (), nodes).items():
        job, wish = sent[name]
        if outcome.state is not State.ADMITTED:
            continue
        assert {pods.name: pods.count for pods in job.podsets} == {
            pods: sum(at.values()) for pods, at in outcome.places.items()
        }
        if wish is REQUIRED:
            assert len({home[at] for places in outcome.places.values() for at in places}) == 1
        for pods in job.podsets:
            for at, count in outcome.places[pods.name].items():
                used[at] += count * pods.requests["cpu"]
    assert all(amount <= 4000 for amount in used.values())
