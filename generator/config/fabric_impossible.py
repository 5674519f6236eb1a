"""What no fabric can be: fields that contradict one another, or say something that nothing would read."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from generator.config.fabric_parts import Nics
from generator.config.fields import refusal

if TYPE_CHECKING:
    from generator.config.fabrics import Fabric

_IB_MTU = 4092  # linux drivers/infiniband/ulp/ipoib/ipoib_main.c ipoib_change_mtu: 4096, less a header of 4
SHARED = ("rdma-shared", "macvlan", "ipoib")
"""The ways to attach pods by which several of them have the same NIC."""


def refuse_impossible(fabric: Fabric) -> None:
    """Refuse the first thing of a fabric that cannot be, once it is known how it is attached, and who operates it.

    Raises:
        PydanticCustomError: with what to write instead.
    """
    _partition_is_possible(fabric)
    _interfaces_are_possible(fabric)
    _nics_are_enough(fabric)
    _addresses_are_enough(fabric)
    _all_is_read(fabric)


def _partition_is_possible(fabric: Fabric) -> None:
    if fabric.pkey and (fabric.type != "infiniband" or fabric.attached != "sriov"):
        raise refusal("`pkey` where virtual functions of InfiniBand are not attached", "remove it")
    if fabric.vlan and (fabric.type not in ("roce", "ethernet") or fabric.attached != "sriov"):
        raise refusal("`vlan` where virtual functions of Ethernet are not attached", "remove it")
    if fabric.rdma == "exclusive" and fabric.attached in SHARED:
        raise refusal(f"`exclusive` with {fabric.attached}, which shares devices", "leave `rdma` out")
    if fabric.rdma and not fabric.has_rdma:
        raise refusal("`rdma` where there is none", "remove it")
    if fabric.fallback and not fabric.has_rdma:
        raise refusal("`fallback` to TCP, which is all that ethernet has", "remove it")
    if fabric.networks == "operator" and (fabric.attached != "sriov" or fabric.pkey):
        raise refusal("no SriovNetwork or SriovIBNetwork can say this", "leave `networks` out")


def _interfaces_are_possible(fabric: Fabric) -> None:
    if fabric.rails == "separate" and not fabric.has_networks:
        raise refusal(f"`rails: separate`, and {fabric.attached} gives pods no network", "leave it out")
    if (fabric.selectors or fabric.device_class) and fabric.attached != "dra":
        raise refusal(f"`selectors` or `deviceClass` with {fabric.attached}, which claims nothing", "remove it")
    if fabric.mtu and fabric.mtu > _IB_MTU and fabric.type == "infiniband":
        raise refusal(f"`mtu: {fabric.mtu}`, and interfaces of InfiniBand have {_IB_MTU} at most", "write less")
    if fabric.mtu and not fabric.has_networks:
        raise refusal(f"`mtu`, and {fabric.attached} gives pods no interface", "remove it")


def _nics_are_enough(fabric: Fabric) -> None:
    named = len(fabric.nics.ports or fabric.nics.addresses)
    is_told = fabric.operated != "none" or fabric.attached in ("macvlan", "ipoib")
    if fabric.operated != "none" and fabric.nics == Nics():
        raise refusal(f"the operator `{fabric.operated}` is not told which NICs", "name them in `nics`")
    if is_told and named and named != fabric.per_node:
        raise refusal(f"{named} ports, and `perNode` is {fabric.per_node}", "name as many ports as there are NICs")
    if fabric.is_separate and not named and is_told:
        raise refusal("each NIC is a network of its own, and none is named", "name them in `nics.ports`")
    if fabric.attached in ("macvlan", "ipoib") and not fabric.nics.ports:
        raise refusal(f"{fabric.attached} stands on interfaces of the node", "name them in `nics.ports`")
    if fabric.operated == "nvidia" and fabric.attached == "host-device" and fabric.nics.ports:
        # sriov-network-device-plugin 40b6f50 pkg/utils/utils.go GetPfName: only functions have the name of a NIC.
        raise refusal("the device plugin knows whole NICs by their address alone", "name them in `nics.addresses`")
    if fabric.operated == "nvidia" and fabric.shares_device and fabric.nics.addresses:
        raise refusal("the device plugin knows no addresses", "name them in `nics.ports`")
    if fabric.pods_per_node > 1 and fabric.attached in ("host-device", "efa", "dra"):
        raise refusal(f"`{fabric.pods_per_node}` pods, and {fabric.attached} gives each NIC to one", "leave it out")


def _addresses_are_enough(fabric: Fabric) -> None:
    needs = fabric.has_networks and (fabric.type != "infiniband" or fabric.attached == "ipoib")
    if needs and fabric.addresses is None:
        raise refusal("pods have no addresses on it", "add `addresses: {range: 192.168.0.0/16}`")
    if fabric.addresses and not fabric.has_networks:
        raise refusal(f"`addresses`, and {fabric.attached} gives pods none", "remove it")
    if fabric.addresses and ipaddress.ip_network(fabric.addresses.range).num_addresses < fabric.per_node * 4:
        raise refusal(f"{fabric.addresses.range} for {fabric.per_node} NICs of a node", "write a larger one")


def _all_is_read(fabric: Fabric) -> None:
    nodes = fabric.nodes
    is_plugged = fabric.operated == "nvidia" and fabric.attached != "sriov" and bool(fabric.device)
    is_drained = fabric.operated != "none" and fabric.attached == "sriov"
    if fabric.operator_namespace and fabric.operated == "none":
        raise refusal("`operatorNamespace`, and no operator is told anything", "remove it")
    if not fabric.device and (fabric.resource or fabric.pods_per_node > 1):
        raise refusal("nobody counts interfaces on top of a NIC", "leave `resource` and `podsPerNode` out")
    if (nodes.plugin_repository or nodes.plugin_version) and not is_plugged:
        raise refusal(
            "no device plugin of NVIDIA's is set up for this fabric", "remove `pluginRepository`, `pluginVersion`"
        )
    if nodes.max_unavailable > 1 and not is_drained:
        raise refusal("no SR-IOV operator drains the nodes of this fabric", "remove `maxUnavailable`")
