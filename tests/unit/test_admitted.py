"""Test that ResourceQuotas and LimitRanges allow the largest jobs that Kueue admits, on 200 random platforms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generator import App
from generator.checks.finding import Severity
from generator.checks.run import check_rendered
from generator.manifests import Body, Manifest, write
from generator.objects.queue import parse_amount
from generator.pipeline import render
from generator.quantities import parse
from generator.schemas.catalog import Catalog
from generator.upstream.kubernetes.limit_range import find_limit_violations
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.podsets import PodSet, podsets, read_pod_context
from generator.upstream.kueue.queues import read_queue_tree
from tests.random_platforms import random_platform

pytestmark = pytest.mark.slow
_PLATFORMS, _AT_ONCE = 200, 25


@pytest.mark.parametrize("first", range(0, _PLATFORMS, _AT_ONCE))
def test_quotas_and_limit_ranges_allow_the_largest_jobs(first: int) -> None:
    jobs = 0
    for number in range(first, first + _AT_ONCE):
        platform = random_platform(number)
        tree = render(platform, App(platform))
        findings = check_rendered(tree, write(tree), Catalog.bundled()).findings
        assert [str(each) for each in findings if each.severity is Severity.ERROR] == []
        for namespace, runtime, pods in largest(tree):
            jobs += 1
            assert list(refusals(tree, namespace, pods)) == [], (number, namespace)
            assert violations(tree, namespace, runtime) == [], (number, namespace)
    assert jobs >= _AT_ONCE / 2


def largest(tree: list[Manifest]) -> Iterator[tuple[str, Body, tuple[PodSet, ...]]]:
    """Yield namespace, runtime and pods of the largest job that Kueue ever admits, for each runtime."""
    runtimes = {found.name: found.body for found in tree if found.kind.endswith("TrainingRuntime")}
    for found in largest_jobs(read_queue_tree(tree), tree):
        if found.idle:
            around = read_pod_context(tree, found.namespace)
            runtime = runtimes[found.runtime]
            yield found.namespace, runtime, podsets(runtime, found.idle, around)


def refusals(tree: list[Manifest], namespace: str, pods: tuple[PodSet, ...]) -> Iterator[str]:
    """Yield the ResourceQuota shortages of the pods."""
    for found in tree:
        if found.namespace == namespace and found.kind == "ResourceQuota":
            for key, amount in found.body["spec"]["hard"].items():
                resource = key.removeprefix("requests.")
                asked = sum(each.count * each.requests.get(resource, 0) for each in pods)
                if resource != key and asked > parse_amount(resource, amount, key):
                    yield f"{asked} {key} of {amount}"
                if key == "count/trainjobs.trainer.kubeflow.org" and parse(amount).value < 1:
                    yield "no TrainJob"


def violations(tree: list[Manifest], namespace: str, runtime: Body) -> list[str]:
    """Return the LimitRange violations of the pods of a runtime."""
    ranges = [found for found in tree if found.namespace == namespace and found.kind == "LimitRange"]
    assert ranges
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    pods = (job["template"]["spec"]["template"] for job in jobs)
    return [str(each) for pod in pods for each in find_limit_violations(pod, ranges)]


def test_an_insufficient_quota_or_limit_is_detected() -> None:
    trees = (render(platform, App(platform)) for platform in map(random_platform, range(_AT_ONCE)))
    tree, namespace, runtime, pods = next((tree, *found) for tree in trees for found in largest(tree))
    for found in tree:
        if found.kind == "ResourceQuota" and found.namespace == namespace:
            found.body["spec"]["hard"]["requests.cpu"] = "1m"
        if found.kind == "LimitRange" and found.namespace == namespace:
            found.body["spec"]["limits"][0] |= {"max": {"cpu": "1m"}}
    assert list(refusals(tree, namespace, pods))
    assert violations(tree, namespace, runtime)
