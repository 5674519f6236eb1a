"""ResourceFlavor: one for each pool."""

from __future__ import annotations

from generator.config.pools import Pool
from generator.manifests import Body


def resource_flavor(pool: Pool) -> Body:
    """The flavor of a pool's nodes.

    It names the taints and adds no tolerations: Kueue then checks that a pod tolerates them, and what it would add
    would replace the tolerations of the runtime (trainer v2.3.0 pkg/runtime/core/trainingruntime.go: `tolerations` has
    no merge key).
    """
    spec: Body = {}
    if pool.labels:
        spec["nodeLabels"] = dict(pool.labels)
    if pool.taints:
        spec["nodeTaints"] = [
            {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
            for taint in pool.taints
        ]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": pool.name},
        "spec": spec,
    }
