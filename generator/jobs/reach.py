"""The number of hosts of a tenant's largest job: by API server limits, Kueue's quota, and room on the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.kueue.admission_checks import admission_checks
from generator.kueue.configuration import kueue_object
from generator.kueue.flavors import resource_flavor, topology
from generator.kueue.queues import cluster_queue, cohorts, local_queues, slack_queue
from generator.manifests import Body, Manifest
from generator.networks.attachments import resource_claim_template
from generator.policies.namespace import namespace
from generator.runtimes.training_runtime import training_runtimes
from generator.simulate.kueue.largest import Largest, largest_jobs
from generator.simulate.kueue.queues import read_queue_tree
from generator.simulate.kueue.search import NO_LIMIT


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest job of a tenant on a runtime, in hosts; a number is None if it is unknown.

    Attributes:
        owned: hosts without preemption, in every state that the other queues can reach.
        reclaimable: hosts in every such state, with the preemption that the queue allows.
        idle: hosts while all other queues are idle.
        reason: why `idle` is not larger, such as `4 nodes take 56 cpu of flavor cpu, and team-sim never gets more`.
        unknown: why `reclaimable` is unknown, or both `owned` and `reclaimable`.
    """

    owned: int | None
    reclaimable: int | None
    idle: int | None
    reason: str
    unknown: str = ""

    def can_have(self, hosts: int) -> bool:
        """Return False if Kueue never admits a job of so many hosts."""
        return self.idle is None or hosts <= self.idle


_NOWHERE = Reach(0, 0, 0, "it has no queue")


def reach(platform: Platform, tenant: Tenant, runtime: Runtime) -> Reach:
    """Return the size of the tenant's largest job on a runtime, computed from the rendered manifests."""
    return reaches(platform, [tenant], runtime)[tenant.name]


def reaches(platform: Platform, tenants: Sequence[Tenant], runtime: Runtime) -> dict[str, Reach]:
    """Return the sizes for several tenants by name, with one computation of the queues."""
    rendered = [Manifest(body, "") for body in _queues(platform, tenants)]
    pool = platform.pool(runtime.pool)
    homes = [tenant.name for tenant in tenants] if runtime.tenants else []
    rendered += [Manifest(body, "") for body in training_runtimes(runtime, pool, platform.cluster, namespaces=homes)]
    tree = read_queue_tree(rendered, platform.cluster.versions.kueue)
    largest = {job_size.namespace: job_size for job_size in largest_jobs(tree, rendered)}
    return {
        tenant.name: _reach(largest[tenant.name], pool.nodes) if tenant.name in largest else _NOWHERE
        for tenant in tenants
    }


def _reach(largest: Largest, nodes: int) -> Reach:
    """Return at most as many hosts as the pool has nodes, if nothing else limits the job."""
    sizes = (largest.owned, largest.reclaimable, largest.idle)
    owned, reclaimable, idle = (nodes if size == NO_LIMIT else size for size in sizes)
    return Reach(owned, reclaimable, idle, largest.reason, largest.unknown)


def _queues(platform: Platform, tenants: Sequence[Tenant]) -> Iterator[Body]:
    """Yield all ClusterQueues, because they lend, and the LocalQueues and limits of these tenants."""
    yield kueue_object(platform.queues, platform.cluster, platform.fabrics)
    yield from map(resource_flavor, platform.pools)
    yield from (topology(pool) for pool in platform.pools if pool.topology)
    yield from admission_checks(platform.pools, platform.queues.multi_kueue)
    yield from cohorts(platform)
    for tenant in platform.tenants:
        yield cluster_queue(tenant, platform)
    if slack := slack_queue(platform):
        yield slack
    for tenant in tenants:
        yield from local_queues(tenant)
        yield namespace(tenant, tenant.name, platform)
        yield from (
            resource_claim_template(fabric, tenant.name) for fabric in platform.fabrics if fabric.attached == "dra"
        )
