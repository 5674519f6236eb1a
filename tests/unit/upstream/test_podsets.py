"""Test the requests that Kueue counts for pods of a TrainJob, and the flavors that they can use."""

from __future__ import annotations

from typing import Any

import pytest

from generator import Platform
from generator.errors import NotModelledError, SimulationError
from generator.manifests import Body, Manifest
from generator.objects.queue import Flavor
from generator.runtimes.training_runtime import training_runtimes
from generator.upstream.kubernetes.pod_requests import Defaults, pod_requests, read_defaults
from generator.upstream.kueue.nodes import explain_flavor_mismatch
from generator.upstream.kueue.podsets import PodSet, default_nodes, podsets
from tests.unit.upstream.runtimes import job, mpi, runtime


def box(restart: str = "", limits: Body | None = None, **asked: str) -> Body:
    resources = {"requests": asked, **({"limits": limits} if limits else {})}
    return {"name": "c", "resources": resources, **({"restartPolicy": restart} if restart else {})}


def cores(pod: Body, around: Defaults | None = None) -> float:
    return pod_requests(pod, around or Defaults(), "here").get("cpu", 0) / 1000


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({"containers": [box(cpu="1"), box(cpu="2")]}, 3),
        ({"containers": [box(cpu="1")], "initContainers": [box(cpu="5"), box(cpu="4")]}, 5),
        ({"containers": [box(cpu="1")], "initContainers": [box("Always", cpu="2")]}, 3),
        ({"containers": [box(cpu="1")], "initContainers": [box("Always", cpu="2"), box(cpu="4")]}, 6),
        ({"containers": [box(cpu="1")], "initContainers": [box(cpu="4"), box("Always", cpu="2")]}, 4),
        ({"containers": [box(cpu="1")], "overhead": {"cpu": "250m"}}, 1.25),
        ({"containers": [box(limits={"cpu": "3"})]}, 3),
        ({"containers": [box(cpu="1")], "resources": {"requests": {"cpu": "7"}}}, 7),
        ({"containers": [box(cpu="1")], "resources": {"limits": {"cpu": "9"}}, "overhead": {"cpu": "1"}}, 10),
        ({}, 0),
    ],
)
def test_a_pod_requests_its_peak(pod: Body, expected: float) -> None:
    assert cores(pod) == expected


def limit_range(**item: Any) -> Manifest:
    spec = {"limits": [{"type": "Container", **item}, {"type": "Pod", "max": {"cpu": "99"}}]}
    metadata = {"name": "tenant", "namespace": "team"}
    return Manifest({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec}, "quota.yaml")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"defaultRequest": {"cpu": "2"}}, 2 + 1),
        ({"default": {"cpu": "3"}}, 3 + 1),
        ({"max": {"cpu": "4"}}, 4 + 1),
        ({"min": {"cpu": "5"}}, 5 + 1),
        ({"max": {"cpu": "4"}, "defaultRequest": {"cpu": "2"}}, 2 + 1),
    ],
)
def test_a_container_without_requests_gets_the_defaults_of_its_namespace(item: Body, expected: float) -> None:
    pod = {"containers": [box(), box(cpu="1")]}
    assert cores(pod, read_defaults([limit_range(**item)], "team")) == expected
    assert cores(pod, read_defaults([limit_range(**item)], "other")) == 1


def test_a_runtime_class_adds_its_overhead() -> None:
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}}
    known = read_defaults([Manifest({**body, "overhead": {"podFixed": {"cpu": "2"}}}, "r.yaml")], "team")
    assert cores({"containers": [box(cpu="1")], "runtimeClassName": "kata"}, known) == 3
    assert cores({"containers": [box(cpu="1")], "runtimeClassName": "runc"}, known) == 1


def test_an_invalid_amount_is_reported_with_its_container() -> None:
    with pytest.raises(SimulationError, match="ClusterTrainingRuntime r, job node, container node: cpu is not"):
        podsets(mpi(cpu="lots").body)


def counts(manifest: Manifest, nodes: int | None = None) -> dict[str, int]:
    return {each.name: each.count for each in podsets(manifest.body, nodes)}


@pytest.mark.parametrize(
    ("as_node", "nodes", "expected"),
    [
        (True, None, {"node": 1, "launcher": 1}),
        (True, 1, {"node": 1, "launcher": 1}),
        (True, 5, {"node": 4, "launcher": 1}),
        (False, 1, {"node": 1, "launcher": 1}),
        (False, 5, {"node": 5, "launcher": 1}),
    ],
)
def test_the_launcher_of_an_mpi_job_is_a_node_or_separate(
    as_node: bool, nodes: int | None, expected: dict[str, int]
) -> None:
    assert counts(mpi(as_node=as_node, cpu="1"), nodes) == expected


def test_the_default_number_of_hosts_is_the_parallelism_of_the_job() -> None:
    both = (job("node", parallelism=3), job("launcher", step="trainer"))
    assert counts(runtime(*both, numNodes=1, mpi={})) == {"node": 3, "launcher": 1}
    assert counts(runtime(*both, numNodes=2, mpi={})) == {"node": 3, "launcher": 2}  # a mistake that is often made


def test_num_nodes_applies_to_the_trainer_without_mpi() -> None:
    found = runtime(job("model-initializer", parallelism=2), job("node", step="trainer"), numNodes=3, torch={})
    assert counts(found) == {"model-initializer": 2, "node": 3}
    assert counts(found, 8) == {"model-initializer": 2, "node": 8}


def test_replicas_multiply_pods() -> None:
    assert counts(runtime({**job("node"), "replicas": 2}, mpi={}), 3) == {"node": 6}


def test_rendered_runtimes_are_counted_as_declared(platform: Platform) -> None:
    body = training_runtimes(platform.runtimes[0], platform.pool("gpu"), platform.cluster)[0]
    node, launcher = podsets(body, 4)
    assert (node.count, launcher.count, node.requests["nvidia.com/gpu"]) == (3, 1, 8)
    assert (node.requests, node.node_selector) == (launcher.requests, {"example.com/pool": "gpu"})
    assert [each["key"] for each in node.tolerations] == ["nvidia.com/gpu"]


GPUS = Flavor("gpus", {"pool": "gpu"}, ({"key": "gpu", "value": "yes", "effect": "NoSchedule"},))
BEARS = ({"key": "gpu", "operator": "Exists"},)


@pytest.mark.parametrize(
    ("tolerations", "borne"),
    [
        ((), False),
        (BEARS, True),
        (({"operator": "Exists"},), True),
        (({"key": "gpu", "value": "yes"},), True),
        (({"key": "gpu", "value": "no"},), False),
        (({"key": "gpu", "operator": "Exists", "effect": "NoExecute"},), False),
        (({"key": "other", "operator": "Exists"},), False),
    ],
)
def test_pods_must_tolerate_the_taints_of_a_flavor(tolerations: tuple[Body, ...], borne: bool) -> None:
    assert (explain_flavor_mismatch(PodSet("node", 1, {}, tolerations=tolerations), GPUS) == "") is borne


def test_tolerations_of_a_flavor_are_added_and_soft_taints_are_ignored() -> None:
    pods = PodSet("node", 1, {})
    assert explain_flavor_mismatch(pods, Flavor("f", taints=GPUS.taints, tolerations=BEARS)) == ""
    assert explain_flavor_mismatch(pods, Flavor("f", taints=({"key": "a", "effect": "PreferNoSchedule"},))) == ""
    assert (
        explain_flavor_mismatch(pods, GPUS)
        == "the pods `node` do not tolerate the taint gpu=yes:NoSchedule of flavor `gpus`"
    )


def term(key: str, operator: str, *values: str) -> Body:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("wish", "granted"),
    [
        ({"node_selector": {"pool": "gpu"}}, True),
        ({"node_selector": {"pool": "cpu"}}, False),
        ({"node_selector": {"rack": "7"}}, True),  # no label of the flavor: its nodes may have any
        ({"affinity": (term("pool", "In", "cpu", "gpu"),)}, True),
        ({"affinity": (term("pool", "NotIn", "gpu"),)}, False),
        ({"affinity": (term("pool", "NotIn", "gpu"), term("rack", "Exists"))}, True),
        ({"affinity": (term("pool", "NotIn", "gpu"), term("pool", "Exists"))}, True),
    ],
)
def test_pods_use_flavors_that_they_select(wish: dict[str, Any], granted: bool) -> None:
    assert (explain_flavor_mismatch(PodSet("node", 1, {}, tolerations=BEARS, **wish), GPUS) == "") is granted


def test_a_toleration_with_numeric_comparison_raises_not_modelled() -> None:
    pods = PodSet("node", 1, {}, tolerations=({"key": "a", "operator": "Gt", "value": "1"},))
    with pytest.raises(NotModelledError):
        explain_flavor_mismatch(pods, Flavor("f"))


@pytest.mark.parametrize(
    ("body", "nodes"),
    [
        (runtime(job("node", step="trainer"), numNodes=3, torch={}), 3),
        (runtime(job("node", step="trainer", parallelism=5), numNodes=3), 3),
        (runtime(job("node", step="", parallelism=5), numNodes=3), 1),
        (mpi(cpu="1"), 2),
        (mpi(as_node=False, cpu="1"), 1),
        (
            runtime(
                job("node", step="", parallelism=4),
                job("launcher", step="trainer"),
                numNodes=1,
                mpi={"runLauncherAsNode": True},
            ),
            5,
        ),
    ],
)
def test_a_job_without_num_nodes_has_the_default_pods(body: Manifest, nodes: int) -> None:
    assert default_nodes(body.body) == nodes
    assert podsets(body.body) == podsets(body.body, nodes)
