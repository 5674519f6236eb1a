"""AdmissionChecks: what Kueue asks others after there is quota for a job, and before it starts.

Fields: kueue v0.19.2 apis/kueue/v1beta2/{admissioncheck,provisioningrequestconfig,multikueue}_types.go. A ClusterQueue
admits no job until all of its checks are active (pkg/cache/scheduler/clusterqueue.go `inactiveReason`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from generator.config.model.pools import Pool, Provisioning
from generator.config.model.queues import MULTI_KUEUE_CHECK, MultiKueue
from generator.config.model.tenants import Tenant
from generator.facts.names import MULTI_KUEUE, PROVISIONING
from generator.manifests import Body

_API = "kueue.x-k8s.io/v1beta2"


def admission_checks(pools: Sequence[Pool], workers: MultiKueue | None) -> Iterator[Body]:
    """Yield the checks of a platform, each after the objects that it refers to."""
    for pool in pools:
        if pool.provisioning:
            yield _provisioning_config(pool, pool.provisioning)
            yield _check(pool.name, PROVISIONING, "ProvisioningRequestConfig")
    if workers:
        yield from _clusters(workers)
        yield _check(MULTI_KUEUE_CHECK, MULTI_KUEUE, "MultiKueueConfig")


def checks_of_queue(tenant: Tenant, pools: Sequence[Pool], flavors: Collection[str]) -> Body:
    """Return the checks of a ClusterQueue: provisioning of its flavors, or dispatch to other clusters.

    Kueue rejects both together, and dispatch for single flavors. Whose quota a job borrows does not matter: it
    is the checks of its own queue that it must pass (pkg/workload/workload.go AdmissionChecksForWorkload).
    """
    checks: list[Body] = [
        {"name": pool.name, "onFlavors": [pool.name]} for pool in pools if pool.provisioning and pool.name in flavors
    ]
    if tenant.multi_kueue:
        checks = [{"name": MULTI_KUEUE_CHECK}]
    return {"admissionChecksStrategy": {"admissionChecks": checks}} if checks else {}


def _check(name: str, controller: str, kind: str) -> Body:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": kind, "name": name}
    return {
        "apiVersion": _API,
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": controller, "parameters": parameters},
    }


def _provisioning_config(pool: Pool, provisioning: Provisioning) -> Body:
    """Return the parameters of a ProvisioningRequest. Only pods that request the pool's devices need its nodes."""
    parameters = {"parameters": dict(provisioning.parameters)} if provisioning.parameters else {}
    managed = {"managedResources": [pool.accelerator]} if pool.accelerator else {}
    return {
        "apiVersion": _API,
        "kind": "ProvisioningRequestConfig",
        "metadata": {"name": pool.name},
        "spec": {
            "provisioningClassName": provisioning.class_name,
            **parameters,
            **managed,
            "retryStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800},
        },
    }


def _clusters(workers: MultiKueue) -> Iterator[Body]:
    for cluster in workers.clusters:
        source = {"kubeConfig": {"location": cluster.kube_config_secret, "locationType": "Secret"}}
        yield {
            "apiVersion": _API,
            "kind": "MultiKueueCluster",
            "metadata": {"name": cluster.name},
            "spec": {"clusterSource": source},
        }
    yield {
        "apiVersion": _API,
        "kind": "MultiKueueConfig",
        "metadata": {"name": MULTI_KUEUE_CHECK},
        "spec": {"clusters": [cluster.name for cluster in workers.clusters]},
    }
