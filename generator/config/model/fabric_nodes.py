"""The operators that set up the nodes of a fabric: their namespaces, and the MachineConfigPools of OpenShift."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from generator.config.model.fabrics import Fabric

_NVIDIA = "nvidia-network-operator"


def operator_namespace(fabric: Fabric, *, is_openshift: bool) -> str:
    """Return the namespace of the SR-IOV operator of a fabric, the only one in which it reads its objects.

    Sources: OpenShift's OperatorGroup; sriov-network-operator v1.6.0 README.md; Mellanox/network-operator v26.4.1,
    whose chart contains it.
    """
    if fabric.operator_namespace:
        return fabric.operator_namespace
    if is_openshift:
        return "openshift-sriov-network-operator"
    return _NVIDIA if fabric.operated == "nvidia" else "sriov-network-operator"


def ip_pool_namespace(fabric: Fabric) -> str:
    """Return the only namespace in which nv-ipam reads its pools (`--ippools-namespace`)."""
    return fabric.operator_namespace if fabric.operated == "nvidia" and fabric.operator_namespace else _NVIDIA


def operator_namespaces(fabrics: Iterable[Fabric], *, is_openshift: bool) -> set[str]:
    """Return the namespaces of all operators that read objects of these fabrics."""
    fabrics = list(fabrics)
    sriov = {
        operator_namespace(fabric, is_openshift=is_openshift) for fabric in fabrics if _has_operator_objects(fabric)
    }
    return sriov | {ip_pool_namespace(fabric) for fabric in fabrics if _has_pools(fabric)}


def _has_operator_objects(fabric: Fabric) -> bool:
    return fabric.operated != "none" or fabric.networks == "operator"


def _has_pools(fabric: Fabric) -> bool:
    return fabric.operated == "nvidia" or (fabric.addresses is not None and fabric.addresses.by == "nv-ipam")


_WORKER = "worker"


@dataclass(frozen=True, slots=True)
class MachineConfigPool:
    """The settings of the nodes of one MachineConfigPool.

    Attributes:
        pool: the name.
        memlock: True if containers may lock memory.
        numa: the policy of the kubelet's topology manager; empty for the default.
        reserved: cores for the system; empty if not set.
        isolated: cores for pods; empty if not set.
    """

    pool: str
    memlock: bool = False
    numa: str = ""
    reserved: str = ""
    isolated: str = ""


def machine_config_pools(fabrics: Iterable[Fabric]) -> list[MachineConfigPool]:
    """Return the settings of every pool that a fabric configures, by name."""
    pools: dict[str, MachineConfigPool] = {}
    for fabric in fabrics:
        if fabric.nodes.is_of_openshift:
            mine = machine_config_pool(fabric)
            pools[mine.pool] = _merge(pools.get(mine.pool, MachineConfigPool(mine.pool)), mine)
    return [pools[name] for name in sorted(pools)]


def machine_config_pool(fabric: Fabric) -> MachineConfigPool:
    """Return what a fabric sets on the MachineConfigPool of its nodes."""
    setup = fabric.nodes
    return MachineConfigPool(
        setup.machine_config_pool or _WORKER,
        memlock=setup.memlock,
        numa=setup.numa or "",
        reserved=setup.reserved_cpus or "",
        isolated=setup.isolated_cpus or "",
    )


def _merge(one: MachineConfigPool, other: MachineConfigPool) -> MachineConfigPool:
    return replace(
        one,
        memlock=one.memlock or other.memlock,
        numa=one.numa or other.numa,
        reserved=one.reserved or other.reserved,
        isolated=one.isolated or other.isolated,
    )
