"""The queues of a platform as constructs."""

from __future__ import annotations

from collections.abc import Iterator

from constructs import Construct

from generator.config.platform import Platform
from generator.config.tenants import Tenant
from generator.constructs import Component
from generator.kueue.flavors import resource_flavor
from generator.kueue.queues import cluster_queue, cohort, local_queue
from generator.manifests import Manifest


class QueueTree(Component):
    """What all tenants share: a ResourceFlavor for each pool, and the Cohorts."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        super().__init__(scope, id, self._build(platform))

    @staticmethod
    def _build(platform: Platform) -> Iterator[Manifest]:
        for pool in platform.pools:
            yield Manifest(resource_flavor(pool), "cluster/queues/flavors.yaml")
        yield Manifest(cohort(platform.platform), "cluster/queues/cohorts.yaml")
        for group in sorted({tenant.cohort for tenant in platform.tenants if tenant.cohort}):
            yield Manifest(cohort(group, parent=platform.platform), "cluster/queues/cohorts.yaml")


class TenantQueue(Component):
    """One tenant's ClusterQueue, and the LocalQueue that leads to it."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform, tenant: Tenant) -> None:  # noqa: A002
        file = f"tenants/{tenant.name}/queue.yaml"
        queue = cluster_queue(tenant, platform.pools, tenant.cohort or platform.platform)
        super().__init__(scope, id, [Manifest(queue, file), Manifest(local_queue(tenant), file)])
