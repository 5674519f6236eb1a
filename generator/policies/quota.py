"""Quota: what the namespace can hold at most, behind Kueue, and what a container gets that asks for nothing.

Sources: kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go (extended resources count under `requests.` only),
pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from generator.config.pools import Pool
from generator.config.shares import amounts
from generator.config.tenants import Tenant
from generator.manifests import Body
from generator.quantities import Quantity

_TRAINJOBS = "1k"  # as 1000 is stored; with finished ones: Trainer has no TTL for them, and each keeps about 8 objects


def resource_quota(tenant: Tenant, pools: Sequence[Pool]) -> Body:
    """Devices up to all that Kueue can admit (quota and borrowing), never less: it would admit jobs that cannot start.

    cpu and memory are left to Kueue: a quota on them refuses every pod that does not state them.
    """
    most: dict[str, Quantity] = {}
    for share in (tenant.quota, tenant.borrow):
        for resources in amounts(share, pools).values():
            for resource, amount in resources.items():
                most[resource] = most.get(resource, Quantity(Fraction(0))) + amount
    devices = {f"requests.{resource}": str(most[resource]) for resource in sorted(most) if "/" in resource}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tenant", "namespace": tenant.name},
        "spec": {
            "hard": {
                **devices,
                "count/trainjobs.trainer.kubeflow.org": _TRAINJOBS,
                "services.loadbalancers": "0",
                "services.nodeports": "0",
            }
        },
    }


def limit_range(tenant: Tenant) -> Body:
    """Small requests for containers that state none.

    No `default` limit: it would fall below the request of a container that states only that. No `max` and no devices:
    a maximum of a device becomes its default, and every container would get all of them.
    """
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "tenant", "namespace": tenant.name},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "256Mi"}}]},
    }
