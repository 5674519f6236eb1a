"""The objects that attach the pods of a team to a fabric: networks, their addresses, and device claims.

All teams share a runtime, which names networks without a namespace. So the network of a rail has the same name in every
namespace of a team, and Multus on OpenShift uses no network of another namespace. MacvlanNetwork, HostDeviceNetwork and
IPoIBNetwork of NVIDIA's operator cannot do this: each is cluster-scoped and creates one NetworkAttachmentDefinition
with its own name. SriovNetwork and SriovIBNetwork create the definition in their own namespace from OpenShift 4.20 and
the SR-IOV operator of August 2025 on (commit 04ec4a590, after v1.6.0).

Sources: network-attachment-definition-client v1.7.7; multus-cni 95a0932 pkg/k8sclient/k8sclient.go
getKubernetesDelegate; sriov-network-operator 249e200 api/v1/helper.go
SriovNetwork.RenderNetAttDef; sriov-cni 1b7acc5
docs/configuration-reference.md; ib-sriov-cni 543060d pkg/types/types.go; rdma-cni 449bfbc README.md; ipoib-cni bc0726f
README.md; containernetworking/plugins plugins/{main/macvlan,main/host-device,meta/tuning,meta/sbr}; whereabouts 3a262bd
doc/extended-configuration.md; whereabouts 3a262bd pkg/types/types.go; nvidia-k8s-ipam v0.4.0
api/v1alpha1/ippool_types.go; nvidia-k8s-ipam
v0.4.0 api/v1alpha1/ippool_validate.go; nvidia-k8s-ipam v0.4.0 pkg/cni/types/types.go; api v0.34.2 resource/v1/types.go
ExactDeviceRequest; api v0.34.2 resource/v1/types.go DeviceClassSpec;
kubernetes-sigs/dranet f258477 README.md (the default class). The builders set no `extendedResourceName`: before
Kubernetes 1.36 the feature gate DRAExtendedResource is off by default, and a claim names the network of each card.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from generator.config.model.fabric_addresses import (
    RailRange,
    addresses_per_node,
    allocator,
    ip_pool_exclusions,
    rail_ranges,
    whereabouts_exclude,
)
from generator.config.model.fabric_parts import FabricShare
from generator.config.model.fabrics import Fabric, Rail
from generator.config.model.pools import Pool
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import RESOURCE_NAME
from generator.kueue.queues import holding
from generator.manifests import Body, omit_none
from generator.networks.nodes import SRIOV_API_GROUP, to_json


def pools_with(fabric: Fabric, platform: Platform) -> list[Pool]:
    """Return the pools whose nodes are on a fabric."""
    return [pool for pool in platform.pools if pool.fabric == fabric.name]


def fabrics_of(tenant: Tenant, platform: Platform) -> list[Fabric]:
    """Return the fabrics of pools in which a team owns or can borrow quota; empty if its jobs run on other clusters."""
    if tenant.multi_kueue:
        return []
    held = holding(tenant, platform.supplies)
    named = {*held.quota, *(held.borrow or {})}
    return [fabric for fabric in platform.fabrics if any(pool.name in named for pool in pools_with(fabric, platform))]


_CNI_VERSION = "1.0.0"


def cni_configuration(fabric: Fabric, rail: Rail, share: FabricShare | None, ipam: Body) -> Body:
    """Return the CNI configuration of the NetworkAttachmentDefinition for a rail."""
    plugins = [{**_main_plugin(fabric, rail, share), "ipam": ipam}, *chained_plugins(fabric, ipam)]
    return omit_none({"cniVersion": _CNI_VERSION, "name": rail.network, "plugins": plugins})


def chained_plugins(fabric: Fabric, ipam: Body) -> Iterator[Body]:
    """Yield the CNI plugins that run after the main plugin, which creates the interface."""
    if fabric.mtu and fabric.attached in ("sriov", "host-device") and not operator_sets_mtu(fabric):
        yield {"type": "tuning", "mtu": fabric.mtu}
    if fabric.addresses and fabric.addresses.gateway and ipam:
        # Replies leave by the interface that received the request, over its gateway. The default route stays.
        yield {"type": "sbr"}
    if fabric.is_exclusive:
        yield {"type": "rdma"}


def operator_sets_mtu(fabric: Fabric) -> bool:
    """Return True if an SR-IOV operator sets the MTU of the virtual functions, so that no CNI plugin needs to."""
    return fabric.attached == "sriov" and fabric.operated != "none"


def _main_plugin(fabric: Fabric, rail: Rail, share: FabricShare | None) -> Body:
    mtu = fabric.mtu or None
    match fabric.attached:
        case "sriov" if fabric.type == "infiniband":
            return {"type": "ib-sriov", "link_state": "enable", **_partition(fabric, share)}
        case "sriov":
            return {"type": "sriov", "spoofchk": "on", "trust": "off", "vlan": _vlan(fabric, share)}
        case "macvlan":
            return {"type": "macvlan", "master": rail.ports[0], "mode": "bridge", "mtu": mtu}
        case "ipoib":
            return {"type": "ipoib", "master": rail.ports[0], "mtu": mtu}
        case _:
            return {"type": "host-device"}


def _vlan(fabric: Fabric, share: FabricShare | None) -> int | None:
    """Return the VLAN of a team's share, else of the fabric; None for untagged traffic."""
    return (share.vlan if share else None) or fabric.vlan or None


def _partition(fabric: Fabric, share: FabricShare | None) -> Body:
    """Return the InfiniBand partition of a team's share, else of the fabric; empty for the default partition.

    ib-kubernetes reads `pkey`, adds a GUID to this partition in UFM, and passes the GUID to the CNI plugin.
    """
    key = (share.pkey if share else None) or fabric.pkey
    if not key:
        return {}
    return {"pkey": key, "ibKubernetesEnabled": True, "capabilities": {"infinibandGUID": True}}


def network_attachments(fabric: Fabric, tenant: Tenant, namespace: str) -> Iterator[Body]:
    """Yield the network object of each rail of a fabric, in one namespace of a team; none if pods get no interface."""
    share = next((entry for entry in tenant.fabrics if entry.name == fabric.name), None)
    if not fabric.has_networks:
        return
    for number, rail in enumerate(fabric.all_rails):
        addresses = ipam(fabric, number, share, tenant.name)
        if fabric.networks == "operator":
            yield _sriov_network(fabric, rail, share, addresses, namespace)
        else:
            yield _network_attachment_definition(rail, cni_configuration(fabric, rail, share, addresses), namespace)


def _network_attachment_definition(rail: Rail, config: Body, namespace: str) -> Body:
    return omit_none(
        {
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {
                "name": rail.network,
                "namespace": namespace,
                "annotations": {RESOURCE_NAME: rail.resource} if rail.resource else None,
            },
            "spec": {"config": to_json(config)},
        }
    )


def _sriov_network(fabric: Fabric, rail: Rail, share: FabricShare | None, addresses: Body, namespace: str) -> Body:
    """Return a SriovNetwork or SriovIBNetwork. The operator adds its own prefix to `resourceName`."""
    chained = ",".join(to_json(plugin) for plugin in chained_plugins(fabric, addresses))
    kind, link = (
        ("SriovIBNetwork", {"linkState": "enable"})
        if fabric.type == "infiniband"
        else ("SriovNetwork", {"spoofChk": "on", "trust": "off", "vlan": _vlan(fabric, share)})
    )
    return omit_none(
        {
            "apiVersion": f"{SRIOV_API_GROUP}/v1",
            "kind": kind,
            "metadata": {"name": rail.network, "namespace": namespace},
            "spec": {
                "resourceName": rail.resource.rpartition("/")[2],
                "ipam": to_json(addresses) if addresses else None,
                "metaPlugins": chained or None,
                **link,
            },
        }
    )


_RESOURCE_API = "resource.k8s.io/v1"
_DRANET_DEVICES = 'device.driver == "dra.net"'


def device_class(fabric: Fabric) -> Body:
    """Return the DeviceClass that selects the NICs of a fabric.

    Without `selectors` of the fabric, it selects all devices of the driver dranet (`dra.net`).
    """
    selectors = fabric.selectors or (_DRANET_DEVICES,)
    return {
        "apiVersion": _RESOURCE_API,
        "kind": "DeviceClass",
        "metadata": {"name": fabric.name},
        "spec": {"selectors": _cel_selectors(selectors)},
    }


def resource_claim_template(fabric: Fabric, namespace: str) -> Body:
    """Return the ResourceClaimTemplate of a pod: exclusive use of all NICs that the fabric has on a node."""
    has_own_selectors = fabric.device_class and fabric.selectors
    exactly = {
        "deviceClassName": fabric.claimed,
        "allocationMode": "ExactCount",
        "count": fabric.per_node,
        "selectors": _cel_selectors(fabric.selectors) if has_own_selectors else None,
    }
    return omit_none(
        {
            "apiVersion": _RESOURCE_API,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": fabric.name, "namespace": namespace},
            "spec": {"spec": {"devices": {"requests": [{"name": "nic", "exactly": exactly}]}}},
        }
    )


def _cel_selectors(selectors: tuple[str, ...]) -> list[Body]:
    return [{"cel": {"expression": expression}} for expression in selectors]


def ipam(fabric: Fabric, rail: int, share: FabricShare | None, owner: str) -> Body:
    """Return the CNI field `ipam` of a rail's network; empty if pods have no addresses on the fabric."""
    ranges = rail_ranges(fabric, share.range if share else None)
    if not ranges:
        return {}
    if allocator(fabric) == "nv-ipam":
        return {"type": "nv-ipam", "poolName": _ip_pool_name(fabric, rail, owner if share and share.range else "")}
    rail_range = ranges[rail]
    return omit_none(
        {
            "type": "whereabouts",
            "range": str(rail_range.network),
            "exclude": [str(part) for part in whereabouts_exclude(rail_range)] or None,
            "gateway": str(rail_range.gateway) if rail_range.gateway else None,
        }
    )


def ip_pools(
    fabric: Fabric, pools: Sequence[Pool], shares: Sequence[tuple[str, FabricShare]], namespace: str
) -> Iterator[Body]:
    """Yield an IPPool of nv-ipam for each rail, and for each rail of each team that has an address range of its own.

    Yield none if nv-ipam does not assign the addresses of the fabric.
    """
    if fabric.addresses is None or allocator(fabric) != "nv-ipam":
        return
    owners = [("", None), *((team, share.range) for team, share in shares if share.range)]
    for owner, own in owners:
        for number, rail_range in enumerate(rail_ranges(fabric, own)):
            name = _ip_pool_name(fabric, number, owner)
            yield _ip_pool(name, namespace, rail_range, addresses_per_node(fabric), pools)


def _ip_pool(name: str, namespace: str, rail_range: RailRange, size: int, pools: Sequence[Pool]) -> Body:
    selects_nodes = all(pool.labels for pool in pools)
    address = type(rail_range.network.network_address)
    exclusions = [
        {"startIP": str(address(first)), "endIP": str(address(last))}
        for first, last in ip_pool_exclusions(rail_range, size)
    ]
    return omit_none(
        {
            "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
            "kind": "IPPool",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "subnet": str(rail_range.network),
                "perNodeBlockSize": size,
                "nodeSelector": {"nodeSelectorTerms": [*map(_node_selector_term, pools)]} if selects_nodes else None,
                "gateway": str(rail_range.gateway) if rail_range.gateway else None,
                "exclusions": exclusions or None,
            },
        }
    )


def _node_selector_term(pool: Pool) -> Body:
    return {
        "matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in pool.labels.items()]
    }


def _ip_pool_name(fabric: Fabric, rail: int, owner: str) -> str:
    network = fabric.all_rails[rail].network
    return f"{network}-of-{owner}" if owner else network
