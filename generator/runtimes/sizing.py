"""The size of a runtime's pods: ranks, resources and shared memory of one node."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from generator import quantities
from generator.config.model.pools import Pool
from generator.config.model.runtimes import Runtime, fabric_of

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
        resources: requests, which are also the limits: name → quantity.
        shared_memory: size limit of /dev/shm, where ranks of one node talk (the default 64 MiB is too small for NCCL).
    """

    slots: int
    threads: int
    resources: dict[str, str]
    shared_memory: str


def node_size(runtime: Runtime, pool: Pool) -> NodeSize:
    """Return the declared size; by default all devices and NICs of a node, and nine tenths of its cpu and memory."""
    amounts = {**_default(pool), **_of_fabric(runtime, pool), **runtime.resources}
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
    """Return the resources of the launcher: a host's resources if it is a host, else a small amount and no device."""
    if not runtime.has_separate_launcher:
        return size.resources
    return {"cpu": "1", "memory": "2Gi", **runtime.launcher_resources}


def _default(pool: Pool) -> dict[str, str]:
    """Return all accelerators, cpu and memory; a runtime requests other extended resources by name.

    A MIG slice comes with its part of the node.
    """
    share, devices = Fraction(1) if pool.daemons else _SHARE_OF_NODE, pool.devices_per_host
    if pool.device == "nvidia-mig":
        share /= quantities.parse(pool.offered[pool.accelerator]).value
    resources = {resource: _part(pool.offered[resource], share, *units) for resource, units in _UNITS.items()}
    return {**resources, **({pool.accelerator: devices} if pool.accelerator else {})}


def _of_fabric(runtime: Runtime, pool: Pool) -> dict[str, str]:
    """Return a function of each NIC; one per network with MIG, since a node has more slices than NICs."""
    wiring = fabric_of(runtime, pool)
    requests = wiring.requests if wiring else {}
    return {name: "1" if pool.device == "nvidia-mig" else str(count) for name, count in requests.items()}


def _part(amount: str, share: Fraction, unit: Fraction, smaller: Fraction) -> str:
    part = quantities.parse(amount) * share
    return str(part.floor(unit if part.value >= unit else smaller))


def _ranks(runtime: Runtime, resources: dict[str, str], pool: Pool) -> int:
    if pool.device == "cpu" and runtime.family.cpu_ranks:
        return runtime.family.cpu_ranks
    counted = resources.get(pool.accelerator) or resources.get("cpu", "1")
    return max(int(quantities.parse(counted).value), 1)
