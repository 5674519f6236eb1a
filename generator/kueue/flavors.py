"""ResourceFlavor, Topology and WorkloadPriorityClass: what the queues of a platform refer to.

Fields and rules: kueue v0.19.2 apis/kueue/v1beta2/resourceflavor_types.go and topology_types.go.
"""

from __future__ import annotations

import json

from generator.config.model.pools import Pool
from generator.config.model.queues import Priority
from generator.facts.names import ALLOCATABLE, NODES
from generator.manifests import Body


def resource_flavor(pool: Pool) -> Body:
    """Return the ResourceFlavor of a pool's nodes.

    It names the taints and adds no tolerations: Kueue then checks that a pod tolerates them, and what it would add
    would replace the tolerations of the runtime (trainer v2.3.0 pkg/runtime/core/trainingruntime.go: `tolerations` has
    no merge key). Kueue does not read the number of nodes; the checks of quotas read the annotations.
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
    """Return the Topology of a pool, widest level first; each pool has its own, since a used one is immutable."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": pool.name},
        "spec": {"levels": [{"nodeLabel": label} for label in pool.topology]},
    }


def workload_priority_class(priority: Priority) -> Body:
    """Return the WorkloadPriorityClass that a TrainJob names in its label `kueue.x-k8s.io/priority-class`.

    There is no PriorityClass: with one, the scheduler would preempt single pods of other jobs, and all of their ranks
    would wait for these pods.
    """
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": priority.name},
        "value": priority.value,
        "description": priority.description,
    }
