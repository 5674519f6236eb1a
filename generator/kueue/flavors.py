"""ResourceFlavor, Topology, AdmissionCheck and WorkloadPriorityClass: the objects that ClusterQueues and jobs refer to.

Fields and rules: kueue v0.19.2
apis/kueue/v1beta2/{resourceflavor,topology,admissioncheck,provisioningrequestconfig,multikueue}_types.go. A
ClusterQueue admits no job until all of its checks are active (pkg/cache/scheduler/clusterqueue.go `inactiveReason`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

from generator.config.model.pools import Pool, Provisioning
from generator.config.model.queues import MULTI_KUEUE_CHECK, MultiKueue, Priority
from generator.config.model.tenants import Tenant
from generator.facts.names import ALLOCATABLE, MULTI_KUEUE, NODES, PROVISIONING
from generator.manifests import Body


def resource_flavor(pool: Pool) -> Body:
    """Return the ResourceFlavor of a pool's nodes.

    The flavor lists the taints, so that Kueue checks that a pod tolerates them. It adds no tolerations, because they
    would replace the tolerations of the runtime (trainer v2.3.0 pkg/runtime/core/trainingruntime.go: `tolerations` has
    no merge key). Kueue ignores the annotations with the number of nodes, which mpigen's quota checks read.
    """
    spec: Body = {}
    if pool.labels:
        spec["nodeLabels"] = dict(pool.labels)
    if pool.taints:
        spec["nodeTaints"] = [
            {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
            for taint in pool.taints
        ]
    if pool.topology:
        spec["topologyName"] = pool.name
    annotations = {NODES: str(pool.nodes), ALLOCATABLE: json.dumps(pool.offered)}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": pool.name, "annotations": annotations},
        "spec": spec,
    }


def topology(pool: Pool) -> Body:
    """Return the Topology of a pool, widest level first. Each pool has its own, because a Topology is immutable."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": pool.name},
        "spec": {"levels": [{"nodeLabel": label} for label in pool.topology]},
    }


def workload_priority_class(priority: Priority) -> Body:
    """Return the WorkloadPriorityClass that a TrainJob names in its label `kueue.x-k8s.io/priority-class`.

    There is no PriorityClass, because with it the scheduler would preempt single pods, and their jobs would hang.
    """
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": priority.name},
        "value": priority.value,
        "description": priority.description,
    }


_API = "kueue.x-k8s.io/v1beta2"


def admission_checks(pools: Sequence[Pool], workers: MultiKueue | None) -> Iterator[Body]:
    """Yield the AdmissionChecks of a platform, each after the objects that it refers to."""
    for pool in pools:
        if pool.provisioning:
            yield _provisioning_config(pool, pool.provisioning)
            yield _admission_check(pool.name, PROVISIONING, "ProvisioningRequestConfig")
    if workers:
        yield from _multi_kueue_objects(workers)
        yield _admission_check(MULTI_KUEUE_CHECK, MULTI_KUEUE, "MultiKueueConfig")


def checks_of_queue(tenant: Tenant, pools: Sequence[Pool], flavors: Collection[str]) -> Body:
    """Return the AdmissionChecks of a ClusterQueue: provisioning of its flavors, or dispatch to other clusters.

    Kueue rejects both together, and dispatch for single flavors. A job that borrows quota must pass only the checks of
    its own queue (pkg/workload/workload.go AdmissionChecksForWorkload).
    """
    checks: list[Body] = [
        {"name": pool.name, "onFlavors": [pool.name]} for pool in pools if pool.provisioning and pool.name in flavors
    ]
    if tenant.multi_kueue:
        checks = [{"name": MULTI_KUEUE_CHECK}]
    return {"admissionChecksStrategy": {"admissionChecks": checks}} if checks else {}


def _admission_check(name: str, controller: str, kind: str) -> Body:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": kind, "name": name}
    return {
        "apiVersion": _API,
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": controller, "parameters": parameters},
    }


def _provisioning_config(pool: Pool, provisioning: Provisioning) -> Body:
    """Return the ProvisioningRequestConfig of a pool, for pods that request the pool's devices."""
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


def _multi_kueue_objects(workers: MultiKueue) -> Iterator[Body]:
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
