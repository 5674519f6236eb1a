"""ResourceFlavors, Topologies, WorkloadPriorityClasses and AdmissionChecks, with the configuration of the checks.

ClusterQueues refer to flavors and checks, flavors to Topologies, and jobs to priority classes.

Fields and rules: kueue v0.19.2 apis/kueue/v1beta2/resourceflavor_types.go ResourceFlavorSpec; kueue v0.19.2
apis/kueue/v1beta2/topology_types.go TopologySpec; kueue v0.19.2 apis/kueue/v1beta2/admissioncheck_types.go
AdmissionCheckSpec; kueue v0.19.2 apis/kueue/v1beta2/provisioningrequestconfig_types.go ProvisioningRequestConfigSpec;
kueue v0.19.2 apis/kueue/v1beta2/multikueue_types.go MultiKueueConfigSpec; kueue v0.19.2
apis/kueue/v1beta2/multikueue_types.go MultiKueueClusterSpec. A
ClusterQueue admits no job until all of its checks are active (kueue v0.19.2 pkg/cache/scheduler/clusterqueue.go
clusterQueue.inactiveReason).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

from generator.config.model.pools import Pool, Provisioning
from generator.config.model.queues import MULTI_KUEUE_CHECK, MultiKueue, Priority
from generator.config.model.tenants import Tenant
from generator.facts.names import ALLOCATABLE, MULTI_KUEUE, NODES, PROVISIONING
from generator.manifests import Body, omit_none

_API = "kueue.x-k8s.io/v1beta2"


def resource_flavor(pool: Pool) -> Body:
    """Return the ResourceFlavor of a pool's nodes.

    It lists the taints of the nodes, so that Kueue checks that a pod tolerates them. It adds no tolerations, because
    they would replace the tolerations of the runtime (trainer v2.3.0 pkg/runtime/core/trainingruntime.go: `tolerations`
    has no merge key). Two annotations, which only mpigen reads, have the number of nodes, and the resources that a node
    offers to jobs.
    """
    return omit_none(
        {
            "apiVersion": _API,
            "kind": "ResourceFlavor",
            "metadata": {
                "name": pool.name,
                "annotations": {
                    NODES: str(pool.nodes),
                    ALLOCATABLE: json.dumps({name: str(amount) for name, amount in pool.offered.items()}),
                },
            },
            "spec": {
                "nodeLabels": dict(pool.labels) or None,
                "nodeTaints": [
                    {"key": taint.key, "value": taint.value or None, "effect": taint.effect} for taint in pool.taints
                ]
                or None,
                "topologyName": pool.name if pool.topology else None,
            },
        }
    )


def tolerations(pool: Pool) -> list[Body]:
    """Return a toleration for each taint of a pool's nodes."""
    return [
        {
            "key": taint.key,
            "operator": "Equal" if taint.value else "Exists",
            **({"value": taint.value} if taint.value else {}),
            "effect": taint.effect,
        }
        for taint in pool.taints
    ]


def topology(pool: Pool) -> Body:
    """Return the Topology of a pool, widest level first. Each pool has its own, because a Topology is immutable."""
    return {
        "apiVersion": _API,
        "kind": "Topology",
        "metadata": {"name": pool.name},
        "spec": {"levels": [{"nodeLabel": label} for label in pool.topology]},
    }


def workload_priority_class(priority: Priority) -> Body:
    """Return the WorkloadPriorityClass that a TrainJob names in its label `kueue.x-k8s.io/priority-class`.

    There is no PriorityClass: with one, the scheduler would preempt single pods, and their jobs would hang.
    """
    return {
        "apiVersion": _API,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": priority.name},
        "value": priority.value,
        "description": priority.description,
    }


def admission_checks(pools: Sequence[Pool], workers: MultiKueue | None) -> Iterator[Body]:
    """Yield the AdmissionChecks of a platform, each after the objects that the AdmissionCheck refers to."""
    for pool in pools:
        if pool.provisioning:
            yield _provisioning_config(pool, pool.provisioning)
            yield _admission_check(pool.name, PROVISIONING, "ProvisioningRequestConfig")
    if workers:
        yield from _multi_kueue_objects(workers)
        yield _admission_check(MULTI_KUEUE_CHECK, MULTI_KUEUE, "MultiKueueConfig")


def checks_of_queue(tenant: Tenant, pools: Sequence[Pool], flavors: Collection[str]) -> Body | None:
    """Return `admissionChecksStrategy` of a tenant's ClusterQueue; None if the queue needs no AdmissionCheck.

    The checks provision nodes for single flavors, or dispatch all jobs to other clusters by MultiKueue. Kueue rejects
    both together, and MultiKueue for single flavors. A job that borrows quota must pass only the checks of its own
    queue (kueue v0.19.2 pkg/workload/workload.go AdmissionChecksForWorkload).
    """
    checks: list[Body] = [
        {"name": pool.name, "onFlavors": [pool.name]} for pool in pools if pool.provisioning and pool.name in flavors
    ]
    if tenant.multi_kueue:
        checks = [{"name": MULTI_KUEUE_CHECK}]
    return {"admissionChecks": checks} if checks else None


def _admission_check(name: str, controller: str, kind: str) -> Body:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": kind, "name": name}
    return {
        "apiVersion": _API,
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": controller, "parameters": parameters},
    }


def _provisioning_config(pool: Pool, provisioning: Provisioning) -> Body:
    """Return the ProvisioningRequestConfig of a pool: for pods that request its accelerator; in a CPU pool for all."""
    return omit_none(
        {
            "apiVersion": _API,
            "kind": "ProvisioningRequestConfig",
            "metadata": {"name": pool.name},
            "spec": {
                "provisioningClassName": provisioning.class_name,
                "parameters": dict(provisioning.parameters) or None,
                "managedResources": [pool.accelerator] if pool.accelerator else None,
                "retryStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800},
            },
        }
    )


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
