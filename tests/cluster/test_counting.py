"""Test that Kueue counts resources as a platform configures, and that mpigen computes the same quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import pytest

from generator import App, Platform
from generator.manifests import Manifest
from generator.objects.queue import parse_amount, parse_amounts
from generator.pipeline import render
from generator.upstream.kueue.job_limits import Limit
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.podsets import podsets, read_pod_context
from generator.upstream.kueue.queues import read_queue_tree
from tests.cluster import trees
from tests.cluster.client import Body, Client, wait_for, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.nodes import add_nodes
from tests.cluster.training import Training, conditions

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SLICE, MEMORY, CREDITS = "nvidia.com/mig-1g.10gb", "example.com/gpu-memory", "example.com/credits"
PLATFORM = Platform.model_validate(
    {
        "platform": "counting-platform",
        "release": "1.0.0",
        "pools": [
            {
                "name": "counting",
                "nodes": 3,
                "allocatable": {"cpu": 16, "memory": "64Gi", SLICE: 7, "rdma/hca": 2},
                "labels": {"example.com/pool": "counting"},
            }
        ],
        "queues": {
            "slack": False,
            "excludeResourcePrefixes": ["rdma/"],
            "transformations": [
                {"input": SLICE, "strategy": "replace", "outputs": {MEMORY: 10}},
                {"input": "cpu", "outputs": {CREDITS: "300m"}},
            ],
        },
        "runtimes": [
            {
                "name": "counting",
                "pool": "counting",
                "image": "registry.example.com/mpi:1",
                "launcher": "separate",
                "resources": {"cpu": 5, "memory": "16Gi", SLICE: 1, "rdma/hca": 1},
            }
        ],
        "tenants": [
            {
                "name": "counting-team",
                "quota": {"counting": {MEMORY: 40, CREDITS: 12, "cpu": 30}},
                "access": {"edit": ["group:counting"]},
            }
        ],
    }
)


@pytest.fixture(scope="module")
def tree(cluster: Cluster) -> Iterator[list[Manifest]]:
    """Deploy the platform with its Kueue configuration."""
    found = render(PLATFORM, App(PLATFORM))
    with cluster.told(PLATFORM.queues):
        nodes = add_nodes(cluster.admin, PLATFORM)
        for each in found:
            cluster.admin.apply(each.body, "tests")
        yield found
        for body in [*(each.body for each in reversed(found)), *nodes]:
            cluster.admin.delete(body)


def submitted(admin: Client, nodes: int) -> Training:
    """Return a job of the team with so many hosts."""
    training = Training(PLATFORM.tenants[0], PLATFORM.runtimes[0], PLATFORM.pools[0], nodes)
    training.submit(admin)
    return training


def used(workload: Body) -> dict[str, Mapping[str, int]]:
    """Kind of pods → what Kueue charges for all of them."""
    assignments = workload["status"]["admission"]["podSetAssignments"]
    return {each["name"]: parse_amounts(each["resourceUsage"], "") for each in assignments}


def test_the_largest_computed_job_is_admitted_and_a_larger_one_is_not(tree: list[Manifest], cluster: Cluster) -> None:
    (found,) = largest_jobs(read_queue_tree(tree), tree)
    assert (found.idle, found.reason) == (
        4,
        f"5 nodes take 50 {MEMORY} of flavor `counting`, and `counting-team` never gets more than 40",
    )
    most = found.idle or 0
    too_many = submitted(cluster.admin, most + 1)
    wait_until("Kueue names the resource", lambda: MEMORY in (too_many.obstacle(cluster.admin) or ""))
    cluster.admin.delete(too_many.body)
    wait_until("it is gone", partial(trees.is_gone, cluster.admin, too_many.body))
    fits = submitted(cluster.admin, most)
    workload = wait_for("Kueue admits it", lambda: _admitted(fits, cluster.admin))
    around = read_pod_context(tree, "counting-team", read_queue_tree(tree).settings.counting)
    (runtime,) = [each.body for each in tree if each.kind == "ClusterTrainingRuntime"]
    expected = {
        pods.name: {name: amount * pods.count for name, amount in pods.counted.items()}
        for pods in podsets(runtime, most, around)
    }
    assert used(workload) == expected
    assert {name: set(amounts) for name, amounts in expected.items()} == {
        "launcher": {"cpu", "memory", CREDITS},
        "node": {"cpu", "memory", CREDITS, MEMORY},
    }
    assert expected["node"][CREDITS] == 4 * parse_amount(CREDITS, 2, "")  # 1.5 of each host, rounded up
    wait_until("all of its pods run", lambda: len(_running(fits, cluster.admin)) == fits.pod_count)


def test_a_limit_range_rejects_a_job_within_quota(tree: list[Manifest], cluster: Cluster) -> None:
    metadata = {"name": "narrow", "namespace": "counting-team"}
    limits = {"limits": [{"type": "Pod", "max": {"cpu": "4"}}]}
    narrow: Body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": limits}
    cluster.admin.create(narrow)
    (found,) = largest_jobs(read_queue_tree(tree), [*tree, Manifest(narrow, "narrow.yaml")])
    assert (found.idle, found.limit) == (0, Limit.LIMIT_RANGE)
    assert "`narrow` allows a pod to set at most 4 cpu, and `node` sets 5" in found.reason
    training = submitted(cluster.admin, 1)
    assert "LimitRange" in wait_for("Kueue says why not", lambda: training.obstacle(cluster.admin) or None)
    cluster.admin.delete(training.body)
    cluster.admin.delete(narrow)


def _admitted(training: Training, admin: Client) -> Body | None:
    workload = training.workload(admin)
    is_admitted = any(each["type"] == "Admitted" and each["status"] == "True" for each in conditions(workload or {}))
    return workload if is_admitted else None


def _running(training: Training, admin: Client) -> list[Body]:
    return [pod for pod in training.pods(admin) if pod["status"]["phase"] == "Running"]
