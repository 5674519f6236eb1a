"""Test the queue tree of manifests, including missing and invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator.errors import SimulationError
from generator.manifests import Manifest, read
from generator.objects.queue import (
    FlavorResource,
    Fungibility,
    Preemption,
    Quota,
    ResourceGroup,
    format_amount,
    parse_amount,
)
from generator.upstream.kueue.queues import QueueTree, read_queue_tree
from tests.unit.upstream.trees import cohort, door, flavor, kueue, queue, tree

OUTPUT = Path(__file__).parents[3] / "output"


def test_missing_fields_get_the_defaults_of_the_api_server() -> None:
    found = tree(queue("q", {"f/cpu": ("2", None, "1")})).queues["q"]
    assert found.quotas == {FlavorResource("f", "cpu"): Quota(2000, None, 1000)}
    assert found.groups == (ResourceGroup(("cpu",), ("f",)),)
    assert (found.preemption, found.fungibility, found.weight) == (Preemption(), Fungibility(), 1.0)
    assert (found.strategy, found.stop_policy) == ("BestEffortFIFO", "None")


def test_the_older_api_version_is_read_by_its_field_names() -> None:
    spec = {"cohort": "c", "flavorFungibility": {"whenCanPreempt": "Preempt"}, "admissionChecks": ["check"]}
    found = tree(kueue("ClusterQueue", "q", spec)).queues["q"]
    assert (found.cohort, found.checks) == ("c", ("check",))
    assert found.fungibility.when_can_preempt == "MayStopSearch"


def test_an_undeclared_cohort_exists() -> None:
    found = tree(queue("q", {"f/cpu": "1"}, "named"), cohort("inner", "outer"))
    assert {name: each.is_declared for name, each in found.cohorts.items()} == {
        "named": False,
        "inner": True,
        "outer": False,
    }
    assert [each.name for each in found.roots()] == ["named", "outer"]
    assert [each.name for each in found.child_cohorts("outer")] == ["inner"]


def circle() -> QueueTree:
    return tree(
        cohort("a", "b"), cohort("b", "a"), cohort("below", "a"), cohort("sound"),
        queue("stuck", {"f/cpu": "1"}, "below"), queue("free", {"f/cpu": "1"}, "sound"),
    )  # fmt: skip


def test_cohorts_in_a_cycle_are_marked_as_cyclic() -> None:
    found = circle()
    assert [name for name in sorted(found.cohorts) if found.is_cyclic(name)] == ["a", "b", "below"]
    assert [each.name for each in found.roots()] == ["a", "sound"]
    assert "cycle: `below` → `a` → `b`" in found.inactive_reason(found.queues["stuck"])
    assert found.inactive_reason(found.queues["free"]) == ""


def test_a_long_cycle_is_reported_in_one_line() -> None:
    many = 5000
    ring = [cohort(f"c{number}", f"c{(number + 1) % many}") for number in range(many)]
    found = tree(*ring, cohort("below", "c7"), queue("stuck", {"f/cpu": "1"}, "below"))
    assert all(found.is_cyclic(name) for name in found.cohorts)
    assert [each.name for each in found.roots()] == ["below"]
    said = found.inactive_reason(found.queues["stuck"])
    assert said.startswith("the parents of its cohort form a cycle: `below` → `c7` → `c8`")
    assert len(said) < 300


def test_a_stopped_queue_or_one_without_its_flavor_is_inactive() -> None:
    lacking = read_queue_tree([queue("q", {"f/cpu": "1"}), queue("held", {}, stopPolicy="Hold")])
    assert lacking.inactive_reason(lacking.queues["q"]) == "there is no ResourceFlavor `f`"
    assert lacking.inactive_reason(lacking.queues["held"]) == "its `stopPolicy` is `Hold`"


@pytest.mark.parametrize(
    ("selector", "takes"),
    [
        ({}, True),
        ({"matchLabels": {"kubernetes.io/metadata.name": "team"}}, True),
        ({"matchLabels": {"kubernetes.io/metadata.name": "other"}}, False),
        ({"matchExpressions": [{"key": "who", "operator": "In", "values": ["us"]}]}, True),
        ({"matchExpressions": [{"key": "who", "operator": "NotIn", "values": ["us"]}]}, False),
        ({"matchExpressions": [{"key": "where", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "where", "operator": "Exists"}]}, False),
        (None, False),
    ],
)
def test_a_namespace_selector_limits_the_jobs_of_a_queue(selector: dict[str, object] | None, takes: bool) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"who": "us"}}}
    found = read_queue_tree(
        [kueue("ClusterQueue", "q", {"namespaceSelector": selector}), Manifest(namespace, "n.yaml")]
    )
    assert (found.rejection(found.queues["q"], "team") == "") is takes


def test_a_namespace_outside_the_files_is_not_rejected() -> None:
    found = tree(queue("q", {}, namespaceSelector={"matchLabels": {"who": "us"}}))
    assert found.rejection(found.queues["q"], "elsewhere") == ""


def test_a_flavor_has_its_annotated_number_of_nodes() -> None:
    annotations = {"mpigen.dev/nodes": "4", "mpigen.dev/allocatable": '{"cpu": "16", "memory": "64Gi", "a.com/b": 2}'}
    found = read_queue_tree([kueue("ResourceFlavor", "f", {}, annotations=annotations)]).flavors["f"]
    assert (found.nodes, found.allocatable) == (4, {"cpu": 16000, "memory": 64 * 2**30, "a.com/b": 2})


@pytest.mark.parametrize(
    "manifests",
    [
        [queue("q", {"f/cpu": "many"})],
        [queue("q", {}, fairSharing={"weight": "much"})],
        [kueue("ResourceFlavor", "f", {}, annotations={"mpigen.dev/nodes": "four"})],
        [kueue("ResourceFlavor", "f", {}, annotations={"mpigen.dev/allocatable": "[1]"})],
        [flavor("f"), flavor("f", nodeLabels={"a": "b"})],
    ],
    ids=["quota", "weight", "nodes", "allocatable", "twice"],
)
def test_invalid_values_are_rejected(manifests: list[Manifest]) -> None:
    with pytest.raises(SimulationError):
        read_queue_tree(manifests)


def test_identical_duplicates_are_one_object() -> None:
    assert list(read_queue_tree([flavor("f"), flavor("f")]).flavors) == ["f"]


def test_manifests_with_malformed_fields_are_read() -> None:
    bodies = [{"resourceGroups": 3}, {"resourceGroups": [4, {"flavors": [None, {"name": "f", "resources": [5]}]}]}, []]
    manifests = [kueue("ClusterQueue", f"q{number}", body) for number, body in enumerate(bodies)]  # type: ignore[arg-type]
    assert [len(each.quotas) for each in read_queue_tree(manifests).queues.values()] == [0, 0, 0]


def test_local_queues_belong_to_their_cluster_queue() -> None:
    found = tree(queue("q", {}), door("team", "q"), door("team", "other", "wrong"))
    assert [(each.namespace, each.name) for each in found.local_queues_of("q")] == [("team", "default")]


def test_amounts_are_counted_as_kueue_does() -> None:
    amounts: list[tuple[str, object]] = [("cpu", "1500u"), ("cpu", 2), ("memory", "1.5Gi"), ("memory", "100m")]
    counts = [parse_amount(resource, value, "here") for resource, value in amounts]
    assert counts == [2, 2000, 3 * 2**29, 1]
    assert [
        format_amount("cpu", 2500),
        format_amount("cpu", 2000),
        format_amount("memory", 3 * 2**29),
        format_amount("a.com/b", 1000),
    ] == [
        "2500m",
        "2",
        "1536Mi",
        "1000",
    ]


def test_every_rendered_queue_is_active_and_used() -> None:
    files = sorted((OUTPUT / "university").rglob("*.yaml"))
    found = read_queue_tree(manifest for file in files for manifest in read(file.read_bytes(), str(file)))
    assert {door.queue for door in found.local_queues} <= found.queues.keys()
    assert (len(found.local_queues), sorted(found.flavors)) == (13, ["cpu", "mi300x"])
    assert [each.name for each in found.roots()] == ["university"]
    assert [*found.ancestors("science")][-1].name == "university"
    assert not any(map(found.inactive_reason, found.queues.values()))
    assert not any(found.rejection(found.queues[door.queue], door.namespace) for door in found.local_queues)
