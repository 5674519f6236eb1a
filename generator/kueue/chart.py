"""The queues of a platform as constructs."""

from __future__ import annotations

from collections.abc import Iterator

from constructs import Construct

from generator.config.model.queues import CONFIGURATION_FILE
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.constructs import Component
from generator.kueue.configuration import kueue_object
from generator.kueue.flavors import admission_checks, resource_flavor, topology, workload_priority_class
from generator.kueue.queues import cluster_queue, cohorts, local_queues, slack_queue
from generator.manifests import Body, Manifest


class KueueItself(Component):
    """The configuration of Kueue, in a file that no GitOps engine applies."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        super().__init__(
            scope, id, [Manifest(kueue_object(platform.queues, platform.cluster, platform.fabrics), CONFIGURATION_FILE)]
        )


class QueueTree(Component):
    """The objects that all queues share: flavors, topologies, Cohorts, priorities, checks, and unassigned quota."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:  # noqa: A002
        files = self._files(platform)
        super().__init__(
            scope, id, [Manifest(body, f"cluster/queues/{file}.yaml") for file, bodies in files for body in bodies]
        )

    @staticmethod
    def _files(platform: Platform) -> Iterator[tuple[str, list[Body]]]:
        yield "flavors", [resource_flavor(pool) for pool in platform.pools]
        yield "topologies", [topology(pool) for pool in platform.pools if pool.topology]
        yield "priorities", [workload_priority_class(priority) for priority in platform.queues.priorities]
        yield "cohorts", list(cohorts(platform))
        yield "admission-checks", list(admission_checks(platform.pools, platform.queues.multi_kueue))
        unowned = slack_queue(platform)
        yield "slack", [unowned] if unowned else []


class TenantQueue(Component):
    """The ClusterQueue of a tenant, and the LocalQueues that refer to it."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform, tenant: Tenant) -> None:  # noqa: A002
        file = f"tenants/{tenant.name}/queue.yaml"
        queue = cluster_queue(tenant, platform)
        super().__init__(scope, id, [Manifest(body, file) for body in (queue, *local_queues(tenant))])
