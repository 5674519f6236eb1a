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
    """The flavor of a pool's nodes.

    It names the taints and adds no tolerations: Kueue then checks that a pod tolerates them, and what it would add
    would replace the tolerations of the runtime (trainer v2.3.0 pkg/runtime/core/trainingruntime.go: `tolerations` has
    no merge key). How many nodes there are Kueue never asks; the annotations tell whoever checks quotas.
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
    """The places that a pool's nodes are in, from the widest to the narrowest; its own, for it cannot change in use."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": pool.name},
        "spec": {"levels": [{"nodeLabel": label} for label in pool.topology]},
    }


def workload_priority_class(priority: Priority) -> Body:
    """What a TrainJob names in its label `kueue.x-k8s.io/priority-class`."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": priority.name},
        "value": priority.value,
        "description": priority.description,
    }
