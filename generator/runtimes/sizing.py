"""How large the pods of a runtime are: ranks, resources and shared memory of one node."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from generator import quantities
from generator.config.pools import Pool
from generator.config.runtimes import Runtime

_SHARE_OF_NODE = Fraction(9, 10)  # DaemonSets of monitoring, storage and network request the rest
_SHARED_MEMORY = Fraction(1, 8)  # of the container's memory, which it counts against
# Whole cores, so that the static CPU manager can pin them, and whole GiB; smaller units on nodes smaller than that.
_UNITS = {"cpu": (Fraction(1), Fraction(1, 100)), "memory": (Fraction(1024**3), Fraction(1024**2))}


@dataclass(frozen=True, slots=True)
class NodeSize:
    """What the pod of one node gets.

    Attributes:
        slots: ranks on the node.
        resources: requests, which are also the limits: name → quantity.
        shared_memory: size limit of /dev/shm, where ranks of one node talk (the default 64 MiB is too small for NCCL).
    """

    slots: int
    resources: dict[str, str]
    shared_memory: str


def node_size(runtime: Runtime, pool: Pool) -> NodeSize:
    """The size that a runtime asks for, else the whole node with all its devices but a tenth of cpu and memory."""
    asked = {**_whole_node(pool), **runtime.resources}
    resources = {resource: amount for resource, amount in asked.items() if quantities.parse(amount).value}
    return NodeSize(
        slots=runtime.processes_per_node or _ranks(resources, pool),
        resources=resources,
        shared_memory=str((quantities.parse(resources.get("memory", "0")) * _SHARED_MEMORY).floor(1024**2)),
    )


def _whole_node(pool: Pool) -> dict[str, str]:
    """All accelerators; other extended resources, such as network functions, are asked for by name only."""
    resources = {resource: _most_of(pool.allocatable[resource], *units) for resource, units in _UNITS.items()}
    if pool.accelerator:
        resources[pool.accelerator] = pool.allocatable[pool.accelerator]
    return resources


def _most_of(amount: str, unit: Fraction, smaller: Fraction) -> str:
    most = quantities.parse(amount) * _SHARE_OF_NODE
    return str(most.floor(unit if most.value >= unit else smaller))


def _ranks(resources: dict[str, str], pool: Pool) -> int:
    counted = resources.get(pool.accelerator) or resources.get("cpu", "1")
    return max(int(quantities.parse(counted).value), 1)
