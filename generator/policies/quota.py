"""Quota: what the namespace can hold of what Kueue does not count, and what a container gets that asks for nothing.

Sources: kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go (extended resources count under `requests.` only),
pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem.
"""

from __future__ import annotations

from generator import quantities
from generator.config.model.tenants import Limits, Tenant
from generator.manifests import Body


def resource_quota(tenant: Tenant) -> Body:
    """Limits on objects and storage. What pods request is left to Kueue, unless the platform asks for a second limit.

    A quota that is smaller than what Kueue admits refuses pods of jobs that then hold their share and never start, and
    one on cpu or memory refuses every pod that does not state them.
    """
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tenant", "namespace": tenant.name},
        "spec": {"hard": dict(sorted(_hard(tenant.limits).items()))},
    }


def _hard(limits: Limits) -> dict[str, str]:
    hard = {f"requests.{resource}": amount for resource, amount in limits.resources.items()}
    hard["count/trainjobs.trainer.kubeflow.org"] = str(quantities.parse(str(limits.train_jobs)))
    hard |= {"services.loadbalancers": "0", "services.nodeports": "0"}
    if limits.volumes is not None:
        hard["persistentvolumeclaims"] = str(quantities.parse(str(limits.volumes)))
    if limits.storage is not None:
        hard["requests.storage"] = limits.storage
    return hard


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
