"""Test the flavors of pods with and without a topology request, and the largest jobs on them."""

from __future__ import annotations

from typing import Any

import pytest

from generator.errors import NotModelledError
from generator.manifests import Body, Manifest
from generator.upstream.kueue.job_limits import Largest
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.podsets import podsets
from generator.upstream.kueue.queues import read_queue_tree
from generator.upstream.kueue.topology import (
    FlavorTopology,
    TopologyMode,
    TopologyRequest,
    explain_topology_mismatch,
    topology_request,
)
from tests.unit.upstream.nodes import node, racks
from tests.unit.upstream.runtimes import job, runtime
from tests.unit.upstream.trees import door, flavor, kueue, queue, topology

RACK, HOST = "example.com/rack", "kubernetes.io/hostname"


def asking(**annotations: str) -> dict[str, str]:
    return {f"kueue.x-k8s.io/podset-{name.replace('_', '-')}": value for name, value in annotations.items()}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({"group_name": "hosts"}, None),
        ({"required_topology": RACK}, TopologyRequest(TopologyMode.REQUIRED, RACK)),
        ({"preferred_topology": RACK, "group_name": "hosts"}, TopologyRequest(TopologyMode.PREFERRED, RACK, "hosts")),
        ({"unconstrained_topology": "true"}, TopologyRequest(TopologyMode.UNCONSTRAINED)),
        ({"unconstrained_topology": "false"}, None),
        ({"unconstrained_topology": "true", "group_name": "hosts"}, TopologyRequest(TopologyMode.UNCONSTRAINED)),
        (
            {"required_topology": RACK, "slice_required_topology": HOST, "slice_size": "2"},
            TopologyRequest(TopologyMode.REQUIRED, RACK, is_sliced=True),
        ),
        (
            {"slice_required_topology": HOST, "slice_size": "2"},
            TopologyRequest(TopologyMode.UNCONSTRAINED, is_sliced=True),
        ),
    ],
)
def test_annotations_set_the_topology_request(annotations: dict[str, str], expected: TopologyRequest | None) -> None:
    body = job("node", cpu="1")
    body["template"]["spec"]["template"]["metadata"] = {"annotations": asking(**annotations)}
    assert podsets(runtime(body).body)[0].topology == expected == topology_request(asking(**annotations))


ASKS = TopologyRequest(TopologyMode.REQUIRED, RACK)


@pytest.mark.parametrize(
    ("asks", "levels", "is_implied", "refused"),
    [
        (None, (), False, ""),
        (None, (RACK,), False, "requests no topology, but flavor `f` requires a topology request"),
        (None, (RACK,), True, ""),
        (ASKS, (RACK, HOST), False, ""),
        (ASKS, (HOST,), True, "requests the level example.com/rack, which the topology of flavor `f` lacks"),
        (ASKS, (), False, "requests a topology, but flavor `f` has none"),
        (TopologyRequest(TopologyMode.UNCONSTRAINED), (HOST,), False, ""),
    ],
)
def test_pods_with_a_topology_request_need_a_flavor_with_that_level(
    asks: TopologyRequest | None, levels: tuple[str, ...], is_implied: bool, refused: str
) -> None:
    found = explain_topology_mismatch("node", asks, {"cpu": 1}, FlavorTopology("f", levels, ("cpu",), is_implied))
    assert found == (f"`node` {refused}" if refused else "")


def test_a_flavor_of_other_resources_needs_no_topology() -> None:
    assert (
        explain_topology_mismatch(
            "node", ASKS, {"cpu": 1}, FlavorTopology("f", (), ("a.com/license",), is_implied=False)
        )
        == ""
    )


def test_sliced_topologies_raise_not_modelled() -> None:
    with pytest.raises(NotModelledError, match="slices"):
        explain_topology_mismatch(
            "node",
            TopologyRequest(TopologyMode.REQUIRED, RACK, is_sliced=True),
            {},
            FlavorTopology("f", (RACK,), ("cpu",), is_implied=False),
        )


def grouped(how: str = "required", launcher: str = "2", host: str = "2") -> Manifest:
    """Return hosts and a separate launcher that request one rack."""
    both: list[Body] = [job("node", cpu=host), job("launcher", step="trainer", cpu=launcher)]
    for each in both:
        annotations = asking(**{f"{how}_topology": RACK, "group_name": "hosts"})
        each["template"]["spec"]["template"]["metadata"] = {"annotations": annotations}
    return runtime(*both, numNodes=1, mpi={"runLauncherAsNode": False})


def largest(*manifests: Manifest) -> Largest:
    known = [*manifests, door("team", "q")]
    (found,) = largest_jobs(read_queue_tree(known), known)
    return found


RACKS = topology("racks", RACK, HOST)


def by_rack(name: str = "f", **metadata: Any) -> Manifest:
    return kueue("ResourceFlavor", name, {"topologyName": "racks", "nodeLabels": {"pool": name}}, **metadata)


def test_a_job_on_a_pool_with_a_topology_is_as_large_as_its_quota() -> None:
    found = largest(RACKS, by_rack(), queue("q", {"f/cpu": "9"}), grouped("preferred"))
    assert (found.reclaimable, found.idle) == (3, 3)
    assert found.reason == "4 nodes take 10 cpu of flavor `f` (`node` 8, `launcher` 2), and `q` never gets more than 9"


def test_a_size_without_nodes_notes_the_required_rack() -> None:
    found = largest(RACKS, by_rack(), queue("q", {"f/cpu": "9"}), grouped())
    assert found.reason.endswith("and `q` never gets more than 9; all pods must be in one example.com/rack")


def test_a_group_uses_one_flavor() -> None:
    """Without the group, the hosts would fit in `f` and the launcher in `g`."""
    two = (by_rack("f"), by_rack("g"), queue("q", {"f/cpu": "8", "g/cpu": "6"}))
    assert largest(RACKS, *two, grouped()).idle == 3
    assert largest(RACKS, *two, grouped(launcher="6")).idle == 1


def test_pods_of_a_group_are_packed_on_whole_nodes() -> None:
    sized = {"mpigen.dev/nodes": "4", "mpigen.dev/allocatable": '{"cpu": "16"}'}
    flavors = (by_rack(annotations=sized), queue("q", {"f/cpu": "99"}))
    assert largest(RACKS, *flavors, grouped(host="9", launcher="8")).idle == 3


def test_pods_without_a_request_skip_topology_flavors_if_another_exists() -> None:
    plain = runtime(job("node", step="trainer", cpu="1"), torch={})
    found = largest(RACKS, by_rack("f"), flavor("g"), queue("q", {"f/cpu": "8", "g/cpu": "3"}), plain)
    assert found.idle == 3
    found = largest(RACKS, by_rack("f"), by_rack("g"), queue("q", {"f/cpu": "8", "g/cpu": "3"}), plain)
    assert found.idle == 8


def test_a_queue_with_a_missing_topology_admits_nothing() -> None:
    found = largest(by_rack(), queue("q", {"f/cpu": "9"}), grouped())
    assert (found.idle, found.reason) == (0, "`q` admits no job: there is no Topology `racks`")


@pytest.mark.parametrize(
    ("how", "most", "reason"),
    [
        (
            "required",
            2,
            (
                "the nodes of flavor `f` have no room in one example.com/rack "
                "for these pods: 3 of `node` and 1 of `launcher`"
            ),
        ),
        ("preferred", 7, "the nodes of flavor `f` have no room for these pods: 8 of `node` and 1 of `launcher`"),
    ],
)
def test_the_largest_rack_limits_a_job_if_nodes_are_given(how: str, most: int, reason: str) -> None:
    """A node has room for one host, and the launcher needs its own node."""
    found = largest(RACKS, by_rack(), queue("q", {"f/cpu": "99"}), grouped(how), *racks(2, 3, 3, cpu=3))
    assert (found.reclaimable, found.idle, found.reason) == (most, most, reason)


def test_quota_limits_a_job_even_if_nodes_are_given() -> None:
    found = largest(RACKS, by_rack(), queue("q", {"f/cpu": "5"}), grouped(), *racks(2, 3, cpu=9))
    assert (found.idle, found.reason) == (
        1,
        "2 nodes take 6 cpu of flavor `f` (`node` 4, `launcher` 2), and `q` never gets more than 5",
    )


def test_nodes_outside_the_flavor_do_not_count() -> None:
    found = largest(
        RACKS, by_rack(), queue("q", {"f/cpu": "99"}), grouped(), *racks(2), node("other", "r0", labels={"pool": "g"})
    )
    assert found.idle == 3


def test_flavors_without_a_topology_have_their_annotated_size() -> None:
    sized = {"mpigen.dev/nodes": "4", "mpigen.dev/allocatable": '{"cpu": "16"}'}
    plain = runtime(job("node", step="trainer", cpu="9"), torch={})
    flavors = (kueue("ResourceFlavor", "f", {}, annotations=sized), queue("q", {"f/cpu": "99"}))
    assert largest(*flavors, plain, *racks(2)).idle == 4


def test_provisioned_nodes_limit_no_job() -> None:
    """Kueue places the job after the ProvisioningRequest has created its nodes, whatever nodes exist now."""
    check = kueue("AdmissionCheck", "nodes", {"controllerName": "kueue.x-k8s.io/provisioning-request"})
    asks: Body = {"admissionChecksStrategy": {"admissionChecks": [{"name": "nodes", "onFlavors": ["f"]}]}}
    flavor_with_racks = kueue("ResourceFlavor", "f", {"topologyName": "t", "nodeLabels": {"pool": "f"}})
    host = job("node", step="trainer", cpu="4")
    host["template"]["spec"]["template"]["metadata"] = {"annotations": asking(required_topology=RACK)}
    known = [topology("t", RACK, HOST), flavor_with_racks, door("team", "q"), check]
    cases: list[tuple[Body, int]] = [(asks, 5), ({}, 2)]
    for spec, size in cases:
        manifests = [*known, queue("q", {"f/cpu": "20"}, **spec), *racks(2), runtime(host, torch={})]
        (found,) = largest_jobs(read_queue_tree(manifests), manifests)
        assert found.idle == size
