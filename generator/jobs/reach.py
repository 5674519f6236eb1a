"""The largest job of a tenant on a runtime, and the runtime and the tenant of a job if a user names neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from generator.config.model.quotas import quota_amounts
from generator.config.model.runtimes import Runtime, fabric_of
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.documents.messages import format_value
from generator.errors import MpigenError, Problem, suggest
from generator.kueue.configuration import kueue_object
from generator.kueue.flavors import admission_checks, resource_flavor, topology
from generator.kueue.queues import cluster_queue, cohorts, local_queues, slack_queue
from generator.manifests import Body, Manifest
from generator.networks.attachments import resource_claim_template
from generator.policies.namespace import namespace
from generator.runtimes.training_runtime import training_runtimes
from generator.simulate.kueue.job_limits import NO_LIMIT, Largest
from generator.simulate.kueue.largest import largest_jobs
from generator.simulate.kueue.queues import read_queue_tree


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest job of a tenant on a runtime, in hosts; a number is None if it is unknown.

    Attributes:
        owned: hosts without preemption, whatever the other queues use.
        reclaimable: hosts with the preemption that the queue allows, whatever the other queues use.
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
        """Return False if Kueue never admits a job with this number of hosts."""
        return self.idle is None or hosts <= self.idle


_NOWHERE = Reach(0, 0, 0, "it has no queue")


def reach(platform: Platform, tenant: Tenant, runtime: Runtime) -> Reach:
    """Return the size of the tenant's largest job on a runtime, computed from the rendered manifests."""
    return reaches(platform, [tenant], runtime)[tenant.name]


def reaches(platform: Platform, tenants: Sequence[Tenant], runtime: Runtime) -> dict[str, Reach]:
    """Return tenant → the size of its largest job. The queues are computed once for all tenants."""
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
    """Convert the result of the queue model, with at most the number of nodes in the pool."""
    sizes = (largest.owned, largest.reclaimable, largest.idle)
    owned, reclaimable, idle = (nodes if size == NO_LIMIT else size for size in sizes)
    return Reach(owned, reclaimable, idle, largest.reason, largest.unknown)


def _queues(platform: Platform, tenants: Sequence[Tenant]) -> Iterator[Body]:
    """Yield the ClusterQueues of all tenants, because they lend, and the LocalQueues and limits of these tenants."""
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


class JobError(MpigenError):
    """The requested job would not run on this platform."""


def runtime_for(platform: Platform, name: str, fabric: str) -> Runtime:
    """Return the runtime with a name; without a name the only runtime on a fabric.

    Raises:
        JobError: the runtime does not exist, or is not on the fabric.
    """
    if fabric and not name:
        return _only_runtime_on(platform, fabric)
    by_name = {runtime.name: runtime for runtime in platform.runtimes}
    if name not in by_name:
        fix = suggest(name, by_name) if by_name else "declare it in the platform file"
        raise JobError((Problem(f"the platform has no runtime {format_value(name)}", fix, path="--runtime"),))
    if fabric and by_name[name] not in _runtimes_on(platform, fabric):
        fix = (
            "name one that is on it" if _runtimes_on(platform, fabric) else "declare one on a pool that has the fabric"
        )
        raise JobError((Problem(f"ranks of runtime `{name}` do not use the fabric `{fabric}`", fix, path="--runtime"),))
    return by_name[name]


def _runtimes_on(platform: Platform, fabric: str) -> list[Runtime]:
    """Return the runtimes whose ranks use a fabric.

    Raises:
        JobError: the fabric does not exist.
    """
    declared = [declaration.name for declaration in platform.fabrics]
    if fabric not in declared:
        fix = suggest(fabric, declared) if declared else "declare it in the platform file"
        raise JobError((Problem(f"the platform has no fabric {format_value(fabric)}", fix, path="--fabric"),))
    with_fabrics = ((runtime, fabric_of(runtime, platform.pool(runtime.pool))) for runtime in platform.runtimes)
    return [runtime for runtime, its in with_fabrics if its is not None and its.name == fabric]


def _only_runtime_on(platform: Platform, fabric: str) -> Runtime:
    able = _runtimes_on(platform, fabric)
    if not able:
        fix = "declare one on a pool that has it"
        raise JobError((Problem(f"no runtime is on the fabric `{fabric}`", fix, path="--fabric"),))
    if len(able) > 1:
        fix = f"name one of: {', '.join(runtime.name for runtime in able)}"
        raise JobError((Problem(f"several runtimes are on the fabric `{fabric}`", fix, path="--runtime"),))
    return able[0]


def tenant_for(platform: Platform, runtime: Runtime, name: str) -> Tenant:
    """Return the tenant with a name; without a name the only one that can use the runtime."""
    by_name = {tenant.name: tenant for tenant in platform.tenants}
    if name and name not in by_name:
        raise JobError(
            (Problem(f"the platform has no tenant {format_value(name)}", suggest(name, by_name), path="--tenant"),)
        )
    if name and not is_for(runtime, name):
        message = f"runtime `{runtime.name}` is not available to `{name}`"
        raise JobError((Problem(message, others_for(platform, by_name[name]), path="--runtime"),))
    if name:
        return by_name[name]
    asking = [tenant for tenant in platform.tenants if is_for(runtime, tenant.name)]
    far = reaches(platform, asking, runtime)
    able = [tenant for tenant in asking if far[tenant.name].can_have(fewest_hosts(runtime))]
    if not able:
        has_some = any(_has_some(platform, tenant, runtime.pool) for tenant in asking)
        fix = "pass --tenant to see the reason" if has_some else f"give a tenant quota in pool `{runtime.pool}`"
        raise JobError((Problem(f"no tenant can use a host of runtime `{runtime.name}`", fix, path="--runtime"),))
    if len(able) > 1:
        fix = f"name one of: {', '.join(tenant.name for tenant in able)}"
        raise JobError((Problem(f"several tenants can use runtime `{runtime.name}`", fix, path="--tenant"),))
    return able[0]


def _has_some(platform: Platform, tenant: Tenant, pool: str) -> bool:
    """Return True if the tenant owns or can borrow quota in the pool."""
    return any(pool in quota_amounts(shares, platform.supplies) for shares in (*tenant.quotas, tenant.borrow))


def is_for(runtime: Runtime, tenant: str) -> bool:
    """Return True if the tenant may use the runtime."""
    return not runtime.tenants or tenant in runtime.tenants


def fewest_hosts(runtime: Runtime) -> int:
    """Return the lowest number of hosts of a job."""
    return 1 if runtime.has_separate_launcher else 2


def others_for(platform: Platform, tenant: Tenant) -> str:
    """Return advice that lists the runtimes that a tenant can use."""
    able = [runtime for runtime in platform.runtimes if is_for(runtime, tenant.name)]
    usable = [runtime.name for runtime in able if reach(platform, tenant, runtime).can_have(fewest_hosts(runtime))]
    return f"it can use: {', '.join(usable)}" if usable else "it can use no other runtime"
