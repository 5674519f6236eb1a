"""The objects of a platform on which its jobs depend, rendered without cdk8s."""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.fields import to_seconds
from generator.config.model.runtimes import Runtime
from generator.config.platform import Platform
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


def objects_for_jobs(platform: Platform) -> list[Manifest]:
    """Return the objects of a release on which its jobs depend, not yet labelled by `label_owner`.

    These are the queues, the runtimes, the admission policies, the roles, and the namespaces of the tenants with their
    quotas, ServiceAccounts, claims and Secrets. Objects of `patches`, `extra` and an mpigen_platform.py are left out.
    """
    bodies = [*_queues(platform), *map(workload_priority_class, platform.queues.priorities)]
    bodies += access.tenant_roles(platform.isolation, features=platform.features)
    bodies += access.platform_access(platform.access, platform.features)
    for tenant in platform.tenants:
        bodies += local_queues(tenant)
        for home in tenant.homes:
            bodies += [namespace(home, tenant.name, platform), *access.role_bindings(home)]
            bodies += [service_account(home, platform.cluster), resource_quota(home), limit_range(home, platform)]
            bodies += [*persistent_volume_claims(home), *secrets(home)]
            bodies += (
                resource_claim_template(fabric, home.name) for fabric in platform.fabrics if fabric.attached == "dra"
            )
    for runtime in platform.runtimes:
        bodies += _runtimes(platform, runtime)
    tree = [*(Manifest(body, "") for body in bodies), *admission_pack(platform)]
    return add_parameters_of_tree(tree, platform.fabrics)


def _runtimes(platform: Platform, runtime: Runtime) -> list[Body]:
    users = [tenant for tenant in platform.tenants if tenant.name in runtime.tenants]
    return training_runtimes(
        runtime,
        platform.pool(runtime.pool),
        platform.cluster,
        namespaces=[home.name for tenant in users for home in tenant.homes],
        patience=to_seconds(platform.queues.wait_for_pods_ready.timeout),
        residency=platform.policies.residency.label if platform.policies.residency else "",
    )


def _queues(platform: Platform) -> Iterator[Body]:
    """Yield the objects of Kueue without LocalQueues."""
    yield kueue_object(platform.queues, platform.cluster, platform.fabrics)
    yield from map(resource_flavor, platform.pools)
    yield from (topology(pool) for pool in platform.pools if pool.topology)
    yield from admission_checks(platform.pools, platform.queues.multi_kueue)
    yield from cohorts(platform)
    for tenant in platform.tenants:
        yield cluster_queue(tenant, platform)
    if slack := slack_queue(platform):
        yield slack
