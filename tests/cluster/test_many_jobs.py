"""Test that a hundred jobs are admitted at the same time and complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator import Platform, pipeline
from generator.gitops.argocd import is_applied
from tests.cluster import judges, trees
from tests.cluster.argocd_order import in_order
from tests.cluster.client import Client
from tests.cluster.runs import run
from tests.cluster.training import Training
from tests.cluster.trees import Deployed

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
PLATFORM = Path(__file__).with_name("many_jobs.yaml")
JOBS = 100


@pytest.fixture(scope="module")
def many(admin: Client, on_the_cluster: list[Deployed]) -> Platform:
    """Deploy the platform, whose nodes have room for all jobs."""
    trees.remove_all(admin, on_the_cluster)
    platform, app = pipeline.load(PLATFORM)
    tree = [found for found in pipeline.render(platform, app) if is_applied(found.file)]
    deployed = trees.deploy(admin, platform, in_order(tree))
    on_the_cluster.append(deployed)
    assert len(deployed.stored) == len(tree), [outcome.refusal for outcome in deployed.outcomes if outcome.refusal]
    return platform


def test_a_hundred_jobs_are_admitted_and_complete(many: Platform, admin: Client) -> None:
    (tenant,), (runtime,), (pool,) = many.tenants, many.runtimes, many.pools
    jobs = [Training(tenant, runtime, pool, 2, number) for number in range(1, JOBS + 1)]
    everything = run(admin, jobs)
    assert judges.never_complete(everything) == []
    assert judges.unknown_to_kueue(everything) == []
