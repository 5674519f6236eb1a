"""The CNI configuration of one rail: the chain of plugins that attach a pod to it.

Sources: sriov-cni 1b7acc5 docs/configuration-reference.md; ib-sriov-cni 543060d pkg/types/types.go; rdma-cni 449bfbc
README.md; ipoib-cni bc0726f README.md; containernetworking/plugins plugins/{main/macvlan,main/host-device,meta/tuning,
meta/sbr}.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.fabric_parts import FabricShare
from generator.config.model.fabrics import Fabric, Rail
from generator.manifests import Body

_VERSION = "1.0.0"


def conf_list(fabric: Fabric, rail: Rail, share: FabricShare | None, ipam: Body) -> Body:
    """The whole configuration of a NetworkAttachmentDefinition."""
    plugins = [{**_main(fabric, rail, share), "ipam": ipam}, *more_plugins(fabric, ipam)]
    return {"cniVersion": _VERSION, "name": rail.network, "plugins": plugins}


def more_plugins(fabric: Fabric, ipam: Body) -> Iterator[Body]:
    """What is chained after the one that makes the interface."""
    if fabric.mtu and fabric.attached in ("sriov", "host-device") and not sets_mtu(fabric):
        yield {"type": "tuning", "mtu": fabric.mtu}
    if fabric.addresses and fabric.addresses.gateway and ipam:
        # Answers leave by the rail that was asked, over its own router, and the default route stays where it is.
        yield {"type": "sbr"}
    if fabric.is_exclusive:
        yield {"type": "rdma"}


def sets_mtu(fabric: Fabric) -> bool:
    """Whether the operator sets it on the virtual functions themselves."""
    return fabric.attached == "sriov" and fabric.operated != "none"


def _main(fabric: Fabric, rail: Rail, share: FabricShare | None) -> Body:
    mtu = {"mtu": fabric.mtu} if fabric.mtu else {}
    match fabric.attached:
        case "sriov" if fabric.type == "infiniband":
            return {"type": "ib-sriov", "link_state": "enable", **_partition(fabric, share)}
        case "sriov":
            vlan = (share.vlan if share else None) or fabric.vlan
            return {"type": "sriov", "spoofchk": "on", "trust": "off", **({"vlan": vlan} if vlan else {})}
        case "macvlan":
            return {"type": "macvlan", "master": rail.ports[0], "mode": "bridge", **mtu}
        case "ipoib":
            return {"type": "ipoib", "master": rail.ports[0], **mtu}
        case _:
            return {"type": "host-device"}


def _partition(fabric: Fabric, share: FabricShare | None) -> Body:
    """ib-kubernetes reads the key, has UFM make a GUID of it a member, and hands that GUID to the plugin."""
    key = (share.pkey if share else None) or fabric.pkey
    if not key:
        return {}
    return {"pkey": key, "ibKubernetesEnabled": True, "capabilities": {"infinibandGUID": True}}
