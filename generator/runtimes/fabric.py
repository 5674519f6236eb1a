"""The devices, networks and annotations that a fabric adds to the pods of hosts.

Sources: multus-cni pkg/k8sclient/k8sclient.go (parsePodNetworkAnnotation; a network named twice is attached twice, as
net1, net2, …, and takes the devices of its resource in this order); resource.k8s.io/v1 ResourceClaimTemplate.
"""

from __future__ import annotations

from collections.abc import Mapping

from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime, fabric_of
from generator.facts.names import FABRIC, NETWORKS
from generator.manifests import Body
from generator.runtimes.sizing import NodeSize

_CLAIM = "fabric"


def pod_annotations(runtime: Runtime, pool: Pool, size: NodeSize) -> dict[str, str]:
    """Return the networks and the fabric of a host; `none` if ranks use TCP although the nodes have a fabric."""
    fabric = fabric_of(runtime, pool)
    if fabric is None:
        return {FABRIC: "none"} if pool.wiring else {}
    networks = attachments(fabric, size.resources)
    return {**({NETWORKS: ", ".join(networks)} if networks else {}), FABRIC: fabric.name}


def attachments(fabric: Fabric, resources: Mapping[str, str]) -> list[str]:
    """Return the network of each interface of a host, one for each device that the host requests.

    Args:
        fabric: of the host.
        resources: that the host asks for.
    """
    return [
        rail.network
        for rail in fabric.all_rails
        if rail.network
        for _ in range(int(resources.get(rail.resource, "0")) if rail.resource else rail.count)
    ]


def interfaces(fabric: Fabric, resources: Mapping[str, str]) -> list[str]:
    """Return the names of the interfaces in pods."""
    return [f"net{number}" for number, _ in enumerate(attachments(fabric, resources), start=1)]


def pod_claims(runtime: Runtime, pool: Pool) -> list[Body]:
    """Return the claim of a host on devices of a DRA driver."""
    fabric = fabric_of(runtime, pool)
    is_claimed = fabric is not None and fabric.attached == "dra"
    return [{"name": _CLAIM, "resourceClaimTemplateName": fabric.name}] if fabric and is_claimed else []


def resources(runtime: Runtime, pool: Pool, requested: Mapping[str, str], *, is_node: bool) -> Body:
    """Return the resources of a container, with limits equal to requests. A claim replaces the resources of a fabric.

    Args:
        runtime: as declared.
        pool: the pool of the runtime.
        requested: resource → quantity that the container requests.
        is_node: whether ranks run in it.
    """
    fabric = fabric_of(runtime, pool) if is_node else None
    if fabric is None or fabric.attached != "dra":
        return {"requests": dict(requested), "limits": dict(requested)}
    counted = {name: amount for name, amount in requested.items() if name not in fabric.requests}
    return {"requests": counted, "limits": dict(counted), "claims": [{"name": _CLAIM}]}
