"""The hosts of a runtime: ranks, resources and shared memory, and the devices, networks and annotations of a fabric.

Sources: multus-cni pkg/k8sclient/k8sclient.go (parsePodNetworkAnnotation; a network named twice is attached twice, as
net1, net2, …, and takes the devices of its resource in this order); resource.k8s.io/v1 ResourceClaimTemplate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from generator import quantities
from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime, fabric_of
from generator.facts.names import FABRIC, NETWORKS
from generator.manifests import Body

_SHARE_OF_NODE = Fraction(9, 10)  # if the requests of DaemonSets are unknown
_SHARED_MEMORY = Fraction(1, 8)  # of the container's memory, which it counts against
# Whole cores, so that the static CPU manager can pin them, and whole GiB; smaller units on nodes smaller than that.
_UNITS = {"cpu": (Fraction(1), Fraction(1, 100)), "memory": (Fraction(1024**3), Fraction(1024**2))}


@dataclass(frozen=True, slots=True)
class NodeSize:
    """The size of the pod on one node.

    Attributes:
        slots: ranks on the node.
        threads: cores for each rank.
        resources: name → quantity of the requests, which are also the limits.
        shared_memory: size limit of /dev/shm, where ranks of one node exchange data (64 MiB is too small for NCCL).
    """

    slots: int
    threads: int
    resources: dict[str, str]
    shared_memory: str


def node_size(runtime: Runtime, pool: Pool) -> NodeSize:
    """Return the declared size. Default: all devices and NICs of a node, and nine tenths of its cpu and memory."""
    amounts = {**_default_resources(pool), **_fabric_resources(runtime, pool), **runtime.resources}
    resources = {resource: amount for resource, amount in amounts.items() if quantities.parse(amount).value}
    slots = runtime.processes_per_node or _ranks(runtime, resources, pool)
    shared = (quantities.parse(resources.get("memory", "0")) * _SHARED_MEMORY).floor(1024**2)
    return NodeSize(
        slots=slots,
        threads=max(int(quantities.parse(resources.get("cpu", "1")).value / slots), 1),
        resources=resources,
        shared_memory=runtime.shared_memory or str(shared),
    )


def launcher_resources(runtime: Runtime, size: NodeSize) -> dict[str, str]:
    """Return the resources of the launcher: of a host if the launcher is a host, else little cpu and no device."""
    if not runtime.has_separate_launcher:
        return size.resources
    return {"cpu": "1", "memory": "2Gi", **runtime.launcher_resources}


def _default_resources(pool: Pool) -> dict[str, str]:
    """Return all accelerators, cpu and memory of a node; for a MIG slice its part of the node.

    A runtime requests other extended resources by name.
    """
    share, devices = Fraction(1) if pool.daemons else _SHARE_OF_NODE, pool.devices_per_host
    if pool.device == "nvidia-mig":
        share /= quantities.parse(pool.offered[pool.accelerator]).value
    resources = {resource: _share_of(pool.offered[resource], share, *units) for resource, units in _UNITS.items()}
    return {**resources, **({pool.accelerator: devices} if pool.accelerator else {})}


def _fabric_resources(runtime: Runtime, pool: Pool) -> dict[str, str]:
    """Return one virtual function of each NIC; with MIG one per network, because a node has more slices than NICs."""
    wiring = fabric_of(runtime, pool)
    requests = wiring.requests if wiring else {}
    return {name: "1" if pool.device == "nvidia-mig" else str(count) for name, count in requests.items()}


def _share_of(amount: str, share: Fraction, unit: Fraction, smaller: Fraction) -> str:
    part = quantities.parse(amount) * share
    return str(part.floor(unit if part.value >= unit else smaller))


def _ranks(runtime: Runtime, resources: dict[str, str], pool: Pool) -> int:
    if pool.device == "cpu" and runtime.family.cpu_ranks:
        return runtime.family.cpu_ranks
    counted = resources.get(pool.accelerator) or resources.get("cpu", "1")
    return max(int(quantities.parse(counted).value), 1)


_CLAIM = "fabric"


def fabric_annotations(runtime: Runtime, pool: Pool, size: NodeSize) -> dict[str, str]:
    """Return the annotations with the networks and the fabric of a host; `none` if ranks use TCP despite a fabric."""
    fabric = fabric_of(runtime, pool)
    if fabric is None:
        return {FABRIC: "none"} if pool.wiring else {}
    networks = attached_networks(fabric, size.resources)
    return {**({NETWORKS: ", ".join(networks)} if networks else {}), FABRIC: fabric.name}


def attached_networks(fabric: Fabric, resources: Mapping[str, str]) -> list[str]:
    """Return the network of each interface of a host, one for each device that the host requests."""
    return [
        rail.network
        for rail in fabric.all_rails
        if rail.network
        for _ in range(int(resources.get(rail.resource, "0")) if rail.resource else rail.count)
    ]


def fabric_interfaces(fabric: Fabric, resources: Mapping[str, str]) -> list[str]:
    """Return the names of a host's fabric interfaces in its pod: `net1`, `net2` and so on."""
    return [f"net{number}" for number, _ in enumerate(attached_networks(fabric, resources), start=1)]


def fabric_claims(runtime: Runtime, pool: Pool) -> list[Body]:
    """Return the claim of a host on devices of a DRA driver."""
    fabric = fabric_of(runtime, pool)
    is_claimed = fabric is not None and fabric.attached == "dra"
    return [{"name": _CLAIM, "resourceClaimTemplateName": fabric.name}] if fabric and is_claimed else []


def container_resources(runtime: Runtime, pool: Pool, requested: Mapping[str, str], *, is_node: bool) -> Body:
    """Return the resources of a container, with limits equal to requests. A claim replaces the resources of a fabric.

    Args:
        runtime: the runtime.
        pool: the pool of the runtime.
        requested: resource → quantity that the container requests.
        is_node: True if ranks run in the container.
    """
    fabric = fabric_of(runtime, pool) if is_node else None
    if fabric is None or fabric.attached != "dra":
        return {"requests": dict(requested), "limits": dict(requested)}
    counted = {name: amount for name, amount in requested.items() if name not in fabric.requests}
    return {"requests": counted, "limits": dict(counted), "claims": [{"name": _CLAIM}]}
