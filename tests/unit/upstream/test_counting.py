"""Test that transformed and ignored resources do not count as quota, in jobs and in nodes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from generator.checks import run
from generator.manifests import Manifest, read
from generator.objects.queue import Requests
from generator.upstream.kueue.configuration import Counting, Transformation
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.queues import read_queue_tree
from tests.unit.upstream.runtimes import mpi
from tests.unit.upstream.trees import door, flavor, kueue, queue

ASKED: dict[str, Any] = {"cpu": "2", "gpu": "4", "rdma/hca": "1"}
SLICE = Transformation({"example.com/memory": Fraction(5), "cpu": Fraction(1, 2)}, keeps_input=False)
CREDITS = Transformation({"credits": Fraction(3, 2)})


@pytest.mark.parametrize(
    ("counting", "asked", "counted"),
    [
        (Counting(), {"cpu": 1500}, {"cpu": 1500}),
        (Counting(("rdma/", "eph")), {"rdma/hca": 1, "ephemeral-storage": 9, "cpu": 1}, {"cpu": 1}),
        (Counting((), {"a.com/mig": SLICE}), {"a.com/mig": 2, "cpu": 250}, {"cpu": 1250, "example.com/memory": 10}),
        (Counting((), {"cpu": CREDITS}), {"cpu": 1500}, {"cpu": 1500, "credits": 3}),  # 2.25, rounded up
        (Counting((), {"memory": Transformation({}, keeps_input=False)}), {"memory": 1, "cpu": 1}, {"cpu": 1}),
        (Counting(("a.com/",), {"a.com/mig": SLICE}), {"a.com/mig": 2}, {}),
        (
            Counting((), {"a.com/mig": SLICE}),
            {"example.com/memory": 1, "a.com/mig": 1},
            {"example.com/memory": 6, "cpu": 500},
        ),
    ],
)
def test_resources_are_counted_by_the_configured_transformations(
    counting: Counting, asked: Requests, counted: Requests
) -> None:
    assert counting.of(asked) == counted


SETTINGS = """apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
resources:
  excludeResourcePrefixes: [rdma/]
  transformations: [{input: a.com/gpu, strategy: Replace, outputs: {example.com/memory: 5}}]
"""


def told(*manifests: Manifest) -> list[Manifest]:
    return [*manifests, flavor("f"), door("team", "q"), *read(SETTINGS, "kueue.yaml")]


def test_the_largest_job_is_limited_by_counted_quota_and_by_requested_capacity() -> None:
    quota = queue("q", {"f/cpu": "9", "f/example.com/memory": "60"})
    (found,) = largest_jobs(read_queue_tree(told(quota)), told(quota, mpi(**ASKED)))
    assert found.reason == "4 nodes take 80 example.com/memory of flavor `f`, and `q` never gets more than 60"
    annotations = {"mpigen.dev/nodes": "2", "mpigen.dev/allocatable": '{"cpu": "9", "a.com/gpu": "4", "rdma/hca": "1"}'}
    nodes = kueue("ResourceFlavor", "f", {}, annotations=annotations)
    known = [each for each in told(quota, mpi(**ASKED)) if each.kind != "ResourceFlavor"]
    (found,) = largest_jobs(read_queue_tree([nodes, *known]), [nodes, *known])
    assert found.reason == "a job with `numNodes: 3` does not fit on the 2 nodes of flavor `f`"


def test_an_unsupported_transformation_leaves_the_size_unknown() -> None:
    quota, runtime = queue("q", {"f/cpu": "9"}), mpi(cpu="2")
    others = told(quota, runtime)[:-1]
    text = SETTINGS.replace("outputs: {", "multiplyBy: cpu, outputs: {")
    known = [*others, *read(text, "kueue.yaml")]
    (found,) = largest_jobs(read_queue_tree(known), known)
    assert (found.idle, found.reason.partition(":")[0]) == (None, "unknown")


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ({"example.com/memory": "40"}, []),
        ({"example.com/memory": "41"}, ["quotas of 41 example.com/memory for nodes with 40"]),
        ({"a.com/gpu": "99", "rdma/hca": "99"}, []),  # nobody counts them
    ],
)
def test_nodes_offer_transformed_resources(quotas: dict[str, str], expected: list[str]) -> None:
    annotations = {"mpigen.dev/nodes": "2", "mpigen.dev/allocatable": '{"a.com/gpu": "4"}'}
    nodes = kueue("ResourceFlavor", "f", {}, annotations=annotations)
    known = [nodes, queue("q", {f"f/{name}": amount for name, amount in quotas.items()}), *read(SETTINGS, "kueue.yaml")]
    found = [breach.message.partition(": ")[2].partition(" (")[0] for _, breach in run.judge_together(known, {})]
    assert found == expected
