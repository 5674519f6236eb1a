"""Test that DaemonSet pods and bound pods reduce the room on nodes."""

from __future__ import annotations

from typing import Any

import pytest

from generator.manifests import Body, Manifest
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.nodes import read_machines
from tests.unit.upstream.nodes import HOST, RACK, node, racks
from tests.unit.upstream.runtimes import mpi
from tests.unit.upstream.trees import door, kueue, queue, topology, tree

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def containers(cpu: str, **others: Any) -> Body:
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **others}


def daemon_set(cpu: str = "1", name: str = "agent", **spec: Any) -> Manifest:
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "system"}}
    return Manifest({**body, "spec": {"template": {"spec": containers(cpu, **spec)}}}, "daemons.yaml")


def pod(cpu: str = "1", on: str = "n0", metadata: Body | None = None, phase: str = "Running", **spec: Any) -> Manifest:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "system", **(metadata or {})}}
    return Manifest({**body, "spec": {**containers(cpu, **spec), "nodeName": on}, "status": {"phase": phase}}, "p.yaml")


def room(*manifests: Manifest) -> list[int]:
    """Return the cores that are left on each node."""
    return [each.allocatable["cpu"] // 1000 for each in read_machines(manifests)]


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (daemon_set(), [3, 3]),
        (daemon_set(nodeSelector={RACK: "r0"}), [3, 4]),
        (daemon_set(nodeSelector={"pool": "f", RACK: "r0", HOST: "n0"}), [3, 4]),
        (daemon_set(nodeSelector={RACK: "other"}), [4, 4]),
        (daemon_set(initContainers=[{"name": "i", "resources": {"requests": {"cpu": "2"}}}]), [2, 2]),
        (
            daemon_set(
                initContainers=[{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]
            ),
            [2, 2],
        ),
        (daemon_set(overhead={"cpu": "1"}), [2, 2]),
        (pod(), [3, 4]),
        (pod(phase="Succeeded"), [4, 4]),
        (pod(on=""), [4, 4]),
        (pod(metadata={"labels": {"kueue.x-k8s.io/podset": "node"}}), [4, 4]),
        (pod(metadata={"annotations": {"kueue.x-k8s.io/podset-required-topology": RACK}}), [4, 4]),
    ],
)
def test_resident_pods_reduce_the_room_of_their_node(found: Manifest, left: list[int]) -> None:
    assert room(*racks(1, 1), found) == left


def within(key: str, value: str) -> Body:
    return {"key": key, "operator": "In", "values": [value]}


def affinity(*terms: Body) -> Body:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({}, [4, 3]),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, [3, 3]),
        ({"tolerations": [{"operator": "Exists"}]}, [3, 3]),
        ({"affinity": affinity({"matchExpressions": [{"key": HOST, "operator": "In", "values": ["n1"]}]})}, [4, 3]),
        (
            {"affinity": affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]})},
            [4, 4],
        ),
        ({"affinity": affinity({})}, [4, 4]),
    ],
)
def test_a_daemon_set_runs_on_nodes_that_its_pods_tolerate(spec: Body, left: list[int]) -> None:
    nodes = (
        node("n0", "r0", taints=[TAINT]),
        node("n1", "r0", taints=[{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]),
    )
    assert room(*nodes, daemon_set(**spec)) == left


def test_a_daemon_set_pod_counts_once() -> None:
    owner = {"ownerReferences": [{"kind": "DaemonSet", "name": "agent"}]}
    assert room(*racks(1, 1), daemon_set("1"), pod("2", "n0", owner)) == [2, 3]


def test_every_resident_takes_a_pod_slot_of_its_node() -> None:
    assert [each.allocatable["pods"] for each in read_machines([*racks(1), daemon_set(), pod()])] == [108]


@pytest.mark.parametrize(
    ("others", "size"), [([], 4), ([daemon_set("1")], 2), ([pod("4", "n1")], 2), ([daemon_set("3")], 0)]
)
def test_the_largest_job_fits_into_the_remaining_room(others: list[Manifest], size: int) -> None:
    """The nodes have four cores each, the hosts need two."""
    wish = {"kueue.x-k8s.io/podset-required-topology": RACK, "kueue.x-k8s.io/podset-group-name": "all"}
    wanted = mpi(cpu="2")
    for each in wanted.body["spec"]["template"]["spec"]["replicatedJobs"]:
        each["template"]["spec"]["template"]["metadata"] = {"annotations": wish}
    known = [
        kueue("ResourceFlavor", "f", {"topologyName": "t", "nodeLabels": {"pool": "f"}}),
        topology("t", RACK, HOST),
        queue("q", {"f/cpu": "99"}),
        door("team", "q"),
    ]
    (found,) = largest_jobs(tree(*known), [*known, *racks(2), *others, wanted])
    assert found.idle == size
