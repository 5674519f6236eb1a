"""How many hosts a tenant's job can have: what the API server takes, Kueue may admit, and the nodes have room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from generator.config.platform import Platform
from generator.config.runtimes import Runtime
from generator.config.tenants import Tenant
from generator.kueue.admission_checks import admission_checks
from generator.kueue.cohorts import cohorts, slack_queue
from generator.kueue.configuration import kueue_object
from generator.kueue.flavors import resource_flavor, topology
from generator.kueue.queues import cluster_queue, local_queues
from generator.manifests import Body, Manifest
from generator.networks.dra import claim_template
from generator.policies.namespace import namespace
from generator.runtimes.training_runtime import training_runtimes
from generator.simulate.largest import Largest, largest_jobs
from generator.simulate.read import queue_tree


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a tenant gets with a runtime.

    Attributes:
        always: hosts that a job gets whatever others do.
        most: hosts while nobody else has any.
        reason: why there are never more, such as `4 nodes take 56 cpu of flavor cpu, and team-sim never gets more`.
    """

    always: int
    most: int
    reason: str


_NOWHERE = Reach(0, 0, "it has no queue")


def reach(platform: Platform, tenant: Tenant, runtime: Runtime) -> Reach:
    """How many hosts of the runtime a job of the tenant can have, computed over what mpigen renders."""
    return reaches(platform, [tenant], runtime)[tenant.name]


def reaches(platform: Platform, tenants: Sequence[Tenant], runtime: Runtime) -> dict[str, Reach]:
    """The same for several tenants, by their names: the queues are computed once."""
    rendered = [Manifest(body, "") for body in _queues(platform, tenants)]
    pool = platform.pool(runtime.pool)
    homes = [tenant.name for tenant in tenants] if runtime.tenants else []
    rendered += [Manifest(body, "") for body in training_runtimes(runtime, pool, platform.cluster, namespaces=homes)]
    found = {each.namespace: each for each in largest_jobs(queue_tree(rendered), rendered)}
    return {
        tenant.name: _reach(found[tenant.name], pool.nodes) if tenant.name in found else _NOWHERE for tenant in tenants
    }


def _reach(largest: Largest, nodes: int) -> Reach:
    """Without a limit of any kind there are still no more hosts than nodes."""
    always, most = (nodes if hosts is None else hosts for hosts in (largest.always, largest.most))
    return Reach(always, most, largest.reason)


def _queues(platform: Platform, tenants: Sequence[Tenant]) -> Iterator[Body]:
    """All queues, since others lend, and how Kueue counts; the doors and limits of those tenants that ask."""
    yield kueue_object(platform.queues, platform.cluster, platform.fabrics)
    yield from map(resource_flavor, platform.pools)
    yield from (topology(pool) for pool in platform.pools if pool.topology)
    yield from admission_checks(platform.pools, platform.queues.multi_kueue)
    yield from cohorts(platform)
    for each in platform.tenants:
        yield cluster_queue(each, platform)
    if slack := slack_queue(platform):
        yield slack
    for tenant in tenants:
        yield from local_queues(tenant)
        yield namespace(tenant, tenant.name, platform)
        yield from (claim_template(each, tenant.name) for each in platform.fabrics if each.attached == "dra")
