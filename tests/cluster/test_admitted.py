"""Test that the largest admitted jobs of random platforms get their pods on a real API server and scheduler."""

from __future__ import annotations

from contextlib import suppress

import pytest

from generator import App, Platform
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.jobs.request import JobRequest
from generator.pipeline import render
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.nodes import add_nodes
from tests.cluster.training import JOB, wait_for_queue
from tests.offers import job_of, reach_of
from tests.random_platforms import random_platform

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
_PLATFORMS = 20
_PATIENCE = 180


def test_the_largest_job_of_a_team_gets_all_of_its_pods(cluster: Cluster, admin: Client) -> None:
    platforms = [random_platform(number, slack=False) for number in range(120)]
    if cluster.versions["kueue"].minor == "0.18":  # for which mpigen refuses a topology
        platforms = [each for each in platforms if not any(pool.topology for pool in each.pools)]
    wanted = [found for platform in platforms if (found := _largest(platform))][:_PLATFORMS]
    assert len(wanted) == _PLATFORMS
    jobs = [_submit(admin, *each) for each in wanted]
    with suppress(TimeoutError):
        wait_until("every job runs", lambda: not _lacking(admin, jobs), _PATIENCE)
    assert _lacking(admin, jobs) == []


def _largest(platform: Platform) -> tuple[Platform, Tenant, Runtime, int] | None:
    """Return the largest job of the first team with its own hosts."""
    for tenant in platform.tenants:
        for runtime in platform.runtimes:
            far = reach_of(platform, tenant, runtime)
            if far.idle and (far.reclaimable or 0) >= 2:
                return platform, tenant, runtime, far.idle
    return None


def _submit(admin: Client, platform: Platform, tenant: Tenant, runtime: Runtime, nodes: int) -> tuple[Body, int]:
    """The TrainJob, and how many pods it should get."""
    add_nodes(admin, platform)
    for found in render(platform, App(platform)):
        admin.apply(found.body, "tests")
    job = job_of(platform, JobRequest(runtime.name, tenant.name, "largest", nodes)).body
    (edit,) = tenant.access.edit
    wait_for_queue(admin, tenant.name)
    admin.as_group(edit.removeprefix("group:")).create(job)
    return job, nodes + runtime.has_separate_launcher


def _lacking(admin: Client, jobs: list[tuple[Body, int]]) -> list[str]:
    """Jobs without all of their pods, or with some that do not run."""
    lacking = []
    for job, wanted in jobs:
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        pods = [pod for pod in admin.items("v1", "Pod", namespace) if pod["metadata"]["labels"].get(JOB) == name]
        running = sum(pod["status"]["phase"] == "Running" for pod in pods)
        if running != wanted:
            lacking.append(f"{namespace}: {running} of {wanted} pods run")
    return lacking
