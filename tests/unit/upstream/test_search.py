"""Compare the search for the largest job with trying every size, for queues with several resource groups."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generator.checks import run
from generator.manifests import Body, Manifest
from generator.objects.queue import ClusterQueue, Flavor, FlavorResource, Quota, ResourceGroup
from generator.upstream.kueue.flavor_assigner import Assigner, Mode
from generator.upstream.kueue.job_limits import Largest
from generator.upstream.kueue.largest import JobTemplate, Search, largest_jobs
from generator.upstream.kueue.nodes import has_room
from generator.upstream.kueue.podsets import PodContext, podsets
from generator.upstream.kueue.queues import Node
from tests.unit.upstream.runtimes import job, mpi, runtime
from tests.unit.upstream.trees import door, flavor, kueue, tree

MOST = 30
"""The reference tries no larger job."""


def row(name: str, amount: object) -> Body:
    return {"name": name, "nominalQuota": str(amount)}


def documented(*licenses: int, nodes: int | None = None) -> list[Manifest]:
    """Return the ClusterQueue of Kueue's documentation: compute in one resource group, licenses in another.

    Source: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resource-groups
    """
    compute = {"spot": (18, "72Gi", 9), "on-demand": (9, "36Gi", 9)}
    flavors = [
        {"name": name, "resources": [row("cpu", cpu), row("memory", memory), row("foo.com/gpu", gpus)]}
        for name, (cpu, memory, gpus) in compute.items()
    ]
    pools = [{"name": f"pool{n}", "resources": [row("bar.com/license", amount)]} for n, amount in enumerate(licenses)]
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [
            {"coveredResources": ["cpu", "memory", "foo.com/gpu"], "flavors": flavors},
            {"coveredResources": ["bar.com/license"], "flavors": pools},
        ],
    }
    written = {"mpigen.dev/nodes": str(nodes), "mpigen.dev/allocatable": '{"cpu": "8", "foo.com/gpu": "4"}'}
    labels = [{"nodeLabels": {"instance-type": name}} for name in compute]
    sized = [kueue("ResourceFlavor", *pair, annotations=written) for pair in zip(compute, labels, strict=True)]
    return [kueue("ClusterQueue", "team-a-cq", spec), door("team", "team-a-cq"), *(sized if nodes else ())]


def licensed(cpu: str) -> Manifest:
    requests: dict[str, Any] = {"cpu": cpu, "bar.com/license": "1"}
    return mpi(**requests)


def largest(*manifests: Manifest) -> Largest:
    (found,) = largest_jobs(tree(*[each for each in manifests if each.group == "kueue.x-k8s.io"]), manifests)
    return found


@pytest.mark.parametrize(
    ("licenses", "cpu", "size", "reason"),
    [
        ((20,), "2", 10, "11 nodes take 20 cpu of flavor `spot`"),  # hosts of spot, the launcher of on-demand
        ((10,), "2", 10, "11 nodes take 20 cpu of flavor `spot`"),
        ((6,), "2", 6, "7 nodes take 7 bar.com/license of flavor `pool0`"),
        ((4, 7), "2", 8, "9 nodes"),  # hosts of pool1, the launcher of pool0
        ((1,), "2", 0, "1 node take"),
        ((10,), "1", 10, "11 nodes take 11 bar.com/license"),
    ],
)
def test_every_resource_gets_a_flavor_of_its_own_group(
    licenses: tuple[int, ...], cpu: str, size: int, reason: str
) -> None:
    found = largest(*documented(*licenses), licensed(cpu=cpu))
    assert (found.owned, found.reclaimable, found.idle) == (size, size, size)
    assert found.reason.startswith(reason) or not reason


def test_nodes_of_a_group_need_only_the_resources_of_that_group() -> None:
    found = largest(*documented(99, nodes=2), licensed(cpu="3"))
    assert (found.idle, found.reason) == (4, "a job with `numNodes: 5` does not fit on the 2 nodes of flavor `spot`")
    found = largest(*documented(99, nodes=2), licensed(cpu="9"))
    assert (found.idle, found.reason) == (0, "pods of job `node` request 9 cpu, and a node of flavor `spot` has 8")


KINDS = st.lists(st.integers(0, 4), min_size=3, max_size=3)
RESOURCES = ("cpu", "x.com/a", "x.com/b")


@st.composite
def queues(draw: st.DrawFn) -> tuple[ClusterQueue, dict[str, Flavor], Manifest]:
    """Build a queue with up to three resource groups, and a runtime with up to three kinds of pods."""
    cuts = draw(st.sampled_from([(3,), (1, 2), (2, 1), (1, 1, 1)]))
    groups, quotas, at = list[ResourceGroup](), dict[FlavorResource, Quota](), 0
    flavors: dict[str, Flavor] = {}
    for number, size in enumerate(cuts):
        covered, at = RESOURCES[at : at + size], at + size
        names = [f"f{number}{each}" for each in range(draw(st.integers(1, 3)))]
        groups.append(ResourceGroup(covered, tuple(names)))
        for name in names:
            sized = draw(st.booleans())
            offer = {each: draw(st.integers(1, 6)) * unit(each) for each in covered}
            nodes = draw(st.integers(1, 6)) if sized else None
            flavors[name] = Flavor(name, nodes=nodes, allocatable=offer if sized else {})
            quotas |= {FlavorResource(name, each): Quota(draw(st.integers(0, 20)) * unit(each)) for each in covered}
    kinds = draw(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=3))
    jobs = [asks("node", kinds[0])]
    jobs += [asks(f"other{number}", amounts) for number, amounts in enumerate(kinds[1:])]
    manifest = runtime(*jobs, mpi={"runLauncherAsNode": draw(st.booleans())})
    return ClusterQueue("q", groups=tuple(groups), quotas=quotas), flavors, manifest


def unit(resource: str) -> int:
    return 1000 if resource == "cpu" else 1


def asks(name: str, amounts: list[int]) -> Body:
    requests: dict[str, Any] = {each: str(amount) for each, amount in zip(RESOURCES, amounts, strict=True) if amount}
    return job(name, **requests)


def is_admitted(queue: ClusterQueue, flavors: dict[str, Flavor], body: Body, nodes: int) -> bool:
    """Return True if Kueue admits the job, and its pods have room on empty nodes of each of their flavors."""
    node = Node("q", queue, queue.quotas, 1.0, subtree={key: each.nominal for key, each in queue.quotas.items()})
    pods = podsets(body, nodes, PodContext())
    found = Assigner(queue, node, flavors, lambda *_: (Mode.NO_FIT, 0)).assign_at_last(pods)
    if found.mode is not Mode.FIT:
        return False
    for group in queue.groups:
        for name in group.flavors:
            there = [
                (each.count, {key: amount for key, amount in each.requests.items() if key in group.resources})
                for each in pods
                if name in {choice.flavor for choice in found.podsets[each.name].values()}
            ]
            if not has_room([flavors[name]], there):
                return False
    return True


@given(queues())
@settings(max_examples=300, deadline=None)
def test_the_search_skips_no_size(case: tuple[ClusterQueue, dict[str, Flavor], Manifest]) -> None:
    queue, flavors, manifest = case
    limits = {key: quota.nominal for key, quota in queue.quotas.items()}
    found = Search(queue, flavors, limits, JobTemplate(manifest.body, PodContext(), None, MOST)).largest()
    sizes = [nodes for nodes in range(1, MOST + 1) if is_admitted(queue, flavors, manifest.body, nodes)]
    assert found == max(sizes, default=0)


@pytest.mark.parametrize(("nodes", "is_told"), [(10, False), (11, True)])
def test_a_job_within_both_group_quotas_is_admitted(nodes: int, *, is_told: bool) -> None:
    """`quota/never-admitted` reports jobs larger than the largest."""
    metadata = {"name": "j", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "default"}}
    spec = {"runtimeRef": {"name": "r"}, "trainer": {"numNodes": nodes}}
    body = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata, "spec": spec}
    flavors = [flavor(name) for name in ("spot", "on-demand", "pool0")]
    known = [*documented(10), *flavors, licensed(cpu="2"), Manifest(body, "job.yaml")]
    found = {breach.check for _, breach in run.judge_together(known, {"kueue": "0.19", "trainer": "2.3"})}
    assert ("quota/never-admitted" in found) is is_told
