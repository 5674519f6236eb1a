"""How many hosts of a runtime a tenant can have at once: what Kueue may admit, and what the nodes have room for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator.config.platform import Platform
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant
from generator.kueue.cohorts import cohorts, slack_queue
from generator.kueue.flavors import resource_flavor, topology
from generator.kueue.queues import cluster_queue, local_queues
from generator.manifests import Body, Manifest
from generator.runtimes.training_runtime import training_runtimes
from generator.simulate.largest import Largest, largest_jobs
from generator.simulate.read import queue_tree


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a tenant gets with a runtime.

    Attributes:
        always: hosts that it gets whatever others do.
        most: hosts while nobody else has any.
        reason: why there are never more, such as `4 nodes take 56 cpu of flavor cpu, and team-sim never gets more`.
    """

    always: int
    most: int
    reason: str


_NOWHERE = Reach(0, 0, "it has no queue")


def reach(platform: Platform, tenant: Tenant, runtime: Runtime) -> Reach:
    """How many hosts of the runtime the tenant can have, by the arithmetic of Kueue over what mpigen renders."""
    rendered = [Manifest(body, "") for body in _queues(platform, tenant)]
    pool = platform.pool(runtime.pool)
    homes = [tenant.name] if runtime.tenants else []
    rendered += [Manifest(body, "") for body in training_runtimes(runtime, pool, platform.cluster, namespaces=homes)]
    found = largest_jobs(queue_tree(rendered), rendered)
    return next((_reach(each, pool.nodes) for each in found if each.namespace == tenant.name), _NOWHERE)


def _reach(largest: Largest, nodes: int) -> Reach:
    """Without a limit of any kind there are still no more hosts than nodes."""
    always, most = (nodes if hosts is None else hosts for hosts in (largest.always, largest.most))
    return Reach(always, most, largest.reason)


def _queues(platform: Platform, tenant: Tenant) -> Iterator[Body]:
    """All queues, since others lend; the door of the one tenant, since it is the one that asks."""
    yield from map(resource_flavor, platform.pools)
    yield from (topology(pool) for pool in platform.pools if pool.topology)
    yield from cohorts(platform)
    for each in platform.tenants:
        yield cluster_queue(each, platform.pools, each.cohort or platform.platform)
    if slack := slack_queue(platform):
        yield slack
    yield from local_queues(tenant)
