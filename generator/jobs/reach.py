"""The largest job of a tenant on a runtime, and the default runtime and tenant of a new job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from generator.config.model.fabrics import Fabric
from generator.config.model.fields import to_seconds
from generator.config.model.quotas import quota_amounts
from generator.config.model.runtimes import Runtime
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.documents.messages import format_value
from generator.errors import MpigenError, Problem, suggest
from generator.facts.names import LOCAL_QUEUE, QUEUE_NAME
from generator.jobs.fabrics import runtimes_on
from generator.kueue.configuration import kueue_object
from generator.kueue.flavors import admission_checks, resource_flavor, topology, workload_priority_class
from generator.kueue.queues import cluster_queue, cohorts, local_queues, slack_queue
from generator.manifests import Body, Manifest
from generator.networks.attachments import resource_claim_template
from generator.policies import access
from generator.policies.admission.pack import admission_pack
from generator.policies.admission.parameters import add_parameters_of_tree
from generator.policies.namespace import (
    limit_range,
    namespace,
    persistent_volume_claims,
    resource_quota,
    service_account,
)
from generator.policies.secrets import secrets
from generator.runtimes.training_runtime import training_runtimes
from generator.upstream.kueue.job_limits import NO_LIMIT, Largest
from generator.upstream.kueue.largest import largest_jobs
from generator.upstream.kueue.queues import read_queue_tree


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest job of a tenant on a runtime, in hosts (pods that run ranks). An unknown number is None.

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
        """Return True if Kueue can admit a job with this number of hosts, or if that is unknown."""
        return self.idle is None or hosts <= self.idle


_NOWHERE = Reach(0, 0, 0, "it has no queue")


def reach(platform: Platform, tenant: Tenant, runtime: Runtime) -> Reach:
    """Return the sizes of a tenant's largest job on a runtime, computed from the rendered manifests."""
    return reaches(platform, [tenant], runtime)[tenant.name]


def reaches(platform: Platform, tenants: Sequence[Tenant], runtime: Runtime) -> dict[str, Reach]:
    """Return tenant → the sizes of its largest job on a runtime. The queues are computed once for all tenants."""
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
    """Convert the result of the queue model. A size without a limit becomes the number of nodes in the pool."""
    sizes = (largest.owned, largest.reclaimable, largest.idle)
    owned, reclaimable, idle = (nodes if size == NO_LIMIT else size for size in sizes)
    return Reach(owned, reclaimable, idle, largest.reason, largest.unknown)


def deciding_objects(platform: Platform, tenant: Tenant, runtime: Runtime) -> list[Manifest]:
    """Return the objects of a release on which a tenant's job on a runtime depends, not yet labelled by `label_owner`.

    These are the queues, the runtime, the admission policies, the roles, and the namespaces of the tenant with their
    quotas, ServiceAccounts, claims and Secrets. Objects that an mpigen_platform.py adds are omitted.
    """
    bodies = [*_queues(platform, [tenant]), *map(workload_priority_class, platform.queues.priorities)]
    bodies += [*access.tenant_roles(platform.isolation), *access.platform_access(platform.access)]
    for home in tenant.homes:
        bodies += access.role_bindings(home)
        bodies += [] if home.name == tenant.name else [namespace(home, tenant.name, platform)]
        bodies += [service_account(home, platform.cluster), resource_quota(home), limit_range(home, platform)]
        bodies += [*persistent_volume_claims(home), *secrets(home)]
    bodies += training_runtimes(
        runtime,
        platform.pool(runtime.pool),
        platform.cluster,
        namespaces=[home.name for home in tenant.homes] if runtime.tenants else [],
        patience=to_seconds(platform.queues.wait_for_pods_ready.timeout),
        residency=platform.policies.residency.label if platform.policies.residency else "",
    )
    tree = [*(Manifest(body, "") for body in bodies), *admission_pack(platform)]
    return add_parameters_of_tree(tree, platform.fabrics)


def queue_of_team(platform: Platform, tenant: Tenant, job: Body, release: Sequence[Manifest]) -> list[Manifest]:
    """Return the LocalQueue of a TrainJob if the release lacks it and the rule `queue` lets the team use it.

    The list is empty if the release has the LocalQueue, or if the admission rule `queue` rejects TrainJobs in
    LocalQueues that the release lacks.
    """
    namespace, queue = job["metadata"]["namespace"], job["metadata"].get("labels", {}).get(QUEUE_NAME, LOCAL_QUEUE)
    is_relaxed = any(relaxation.rule == "queue" for relaxation in tenant.relax)
    is_known = any((item.kind, item.namespace, item.name) == ("LocalQueue", namespace, queue) for item in release)
    if is_known or not (is_relaxed or platform.policies.admission.action("queue") != "deny"):
        return []
    home = next(home for home in tenant.homes if home.name == namespace)
    (body,) = local_queues(home)
    return [
        Manifest(
            {
                **body,
                "metadata": {"name": queue, "namespace": namespace},
                "spec": {**body["spec"], "clusterQueue": tenant.name},
            },
            "",
        )
    ]


def _queues(platform: Platform, tenants: Sequence[Tenant]) -> Iterator[Body]:
    """Yield the objects of Kueue, with the ClusterQueues of all tenants, which may lend to these tenants.

    Namespaces, LocalQueues and claim templates of other tenants are omitted.
    """
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
    """The requested job would not run on this platform, or the platform has no or several defaults for the request."""


def runtime_for(platform: Platform, name: str, fabric: str) -> Runtime:
    """Return the runtime with a name; if the name is empty, the only runtime on the fabric.

    Raises:
        JobError: no fabric or no runtime has this name, or ranks of the runtime do not use the fabric. Without the name
            of a runtime: no runtime, or several, have ranks that use the fabric.
    """
    if fabric and not name:
        return _only_runtime_on(platform, fabric)
    by_name = {runtime.name: runtime for runtime in platform.runtimes}
    if name not in by_name:
        fix = suggest(name, by_name) if by_name else "declare it in the platform file"
        raise JobError((Problem(f"the platform has no runtime {format_value(name)}", fix, path="--runtime"),))
    able = runtimes_on(platform, _find_fabric(platform, fabric)) if fabric else platform.runtimes
    if by_name[name] not in able:
        fix = "name a runtime on this fabric" if able else "declare a runtime on a pool with this fabric"
        raise JobError((Problem(f"ranks of runtime `{name}` do not use the fabric `{fabric}`", fix, path="--runtime"),))
    return by_name[name]


def _find_fabric(platform: Platform, name: str) -> Fabric:
    """Return the fabric with a name.

    Raises:
        JobError: no such fabric exists.
    """
    by_name = {fabric.name: fabric for fabric in platform.fabrics}
    if name not in by_name:
        fix = suggest(name, by_name) if by_name else "declare it in the platform file"
        raise JobError((Problem(f"the platform has no fabric {format_value(name)}", fix, path="--fabric"),))
    return by_name[name]


def _only_runtime_on(platform: Platform, fabric: str) -> Runtime:
    able = runtimes_on(platform, _find_fabric(platform, fabric))
    if not able:
        fix = "declare a runtime on a pool with this fabric"
        raise JobError((Problem(f"no runtime is on the fabric `{fabric}`", fix, path="--fabric"),))
    if len(able) > 1:
        fix = f"name one of: {', '.join(runtime.name for runtime in able)}"
        raise JobError((Problem(f"several runtimes are on the fabric `{fabric}`", fix, path="--runtime"),))
    return able[0]


def tenant_for(platform: Platform, runtime: Runtime, name: str) -> Tenant:
    """Return the tenant with a name; if the name is empty, the only tenant that can run a job on the runtime.

    Raises:
        JobError: there is no such tenant, or the runtime is not for this tenant. Without a name: no tenant, or several,
            can use the runtime.
    """
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
    """Return True if the runtime lists the tenant, or lists no tenants."""
    return not runtime.tenants or tenant in runtime.tenants


def fewest_hosts(runtime: Runtime) -> int:
    """Return the fewest hosts of a job on a runtime.

    These are 2 if the launcher runs ranks, because Trainer adds at least one worker pod, and otherwise 1.

    Source: trainer v2.3.0 pkg/runtime/framework/plugins/mpi/mpi.go MPI.EnforceMLPolicy
    """
    return 1 if runtime.has_separate_launcher else 2


def others_for(platform: Platform, tenant: Tenant) -> str:
    """Return the fix for a runtime that a tenant cannot use: the usable runtimes, or the advice to ask for one."""
    able = [runtime for runtime in platform.runtimes if is_for(runtime, tenant.name)]
    usable = [runtime.name for runtime in able if reach(platform, tenant, runtime).can_have(fewest_hosts(runtime))]
    if not usable:
        return f"ask your platform admins for quota or a runtime: `{tenant.name}` can use no runtime"
    return f"choose a runtime that `{tenant.name}` can use: {', '.join(usable)}"
