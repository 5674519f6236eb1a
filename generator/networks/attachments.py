"""The objects that attach the pods of a team to a fabric: networks, their addresses, and claims.

A runtime is shared by all teams and names networks without a namespace, so a rail has the same name in every namespace,
and Multus of OpenShift takes none from elsewhere. MacvlanNetwork, HostDeviceNetwork and IPoIBNetwork of NVIDIA's
operator are cluster-scoped and give their own name to the one definition that they make, so two teams could not both
have one. SriovNetwork and SriovIBNetwork in a team's namespace make it there: SR-IOV operator from August 2025 on
(commit 04ec4a590), which is after v1.6.0, and OpenShift 4.20.

Sources: network-attachment-definition-client v1.7.7; multus-cni 95a0932 pkg/k8sclient/k8sclient.go
getKubernetesDelegate; sriov-network-operator 249e200 api/v1/helper.go RenderNetAttDef; sriov-cni 1b7acc5
docs/configuration-reference.md; ib-sriov-cni 543060d pkg/types/types.go; rdma-cni 449bfbc README.md; ipoib-cni bc0726f
README.md; containernetworking/plugins plugins/{main/macvlan,main/host-device,meta/tuning,meta/sbr}; whereabouts 3a262bd
doc/extended-configuration.md, pkg/types/types.go; nvidia-k8s-ipam v0.4.0 api/v1alpha1/ippool_types.go,
ippool_validate.go, pkg/cni/types/types.go; kubernetes v1.34.2 staging/src/k8s.io/api/resource/v1/types.go;
kubernetes-sigs/dranet f258477 README.md (the default class). The builders set no `extendedResourceName`: in 1.34 it is
behind a gate that is off (DRAExtendedResource, alpha).
"""

from __future__ import annotations

import json
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
from generator.manifests import Body
from generator.networks.nodes import SRIOV_API_GROUP


def pools_with(fabric: Fabric, platform: Platform) -> list[Pool]:
    """Return the pools whose nodes are on a fabric."""
    return [pool for pool in platform.pools if pool.fabric == fabric.name]


def fabrics_of(tenant: Tenant, platform: Platform) -> list[Fabric]:
    """Return the fabrics of the pools in which a team owns or borrows quota; empty for jobs on other clusters."""
    if tenant.multi_kueue:
        return []
    held = holding(tenant, platform.supplies)
    named = {*held.quota, *(held.borrow or {})}
    return [fabric for fabric in platform.fabrics if any(pool.name in named for pool in pools_with(fabric, platform))]


_CNI_VERSION = "1.0.0"


def cni_configuration(fabric: Fabric, rail: Rail, share: FabricShare | None, ipam: Body) -> Body:
    """Return the CNI configuration of a NetworkAttachmentDefinition."""
    plugins = [{**_main_plugin(fabric, rail, share), "ipam": ipam}, *chained_plugins(fabric, ipam)]
    return {"cniVersion": _CNI_VERSION, "name": rail.network, "plugins": plugins}


def chained_plugins(fabric: Fabric, ipam: Body) -> Iterator[Body]:
    """Yield the CNI plugins that follow the plugin of the interface in the chain."""
    if fabric.mtu and fabric.attached in ("sriov", "host-device") and not operator_sets_mtu(fabric):
        yield {"type": "tuning", "mtu": fabric.mtu}
    if fabric.addresses and fabric.addresses.gateway and ipam:
        # Answers leave by the rail that received the request, over its router; the default route does not change.
        yield {"type": "sbr"}
    if fabric.is_exclusive:
        yield {"type": "rdma"}


def operator_sets_mtu(fabric: Fabric) -> bool:
    """Return True if the operator sets the MTU of the virtual functions."""
    return fabric.attached == "sriov" and fabric.operated != "none"


def _main_plugin(fabric: Fabric, rail: Rail, share: FabricShare | None) -> Body:
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
    """Return the `pkey` of a share. ib-kubernetes reads it, makes a GUID a member in UFM, and passes the GUID on."""
    key = (share.pkey if share else None) or fabric.pkey
    if not key:
        return {}
    return {"pkey": key, "ibKubernetesEnabled": True, "capabilities": {"infinibandGUID": True}}


def network_attachments(fabric: Fabric, tenant: Tenant, namespace: str) -> Iterator[Body]:
    """Yield the networks of a fabric in a namespace of a team."""
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
    annotations = {"annotations": {RESOURCE_NAME: rail.resource}} if rail.resource else {}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": rail.network, "namespace": namespace, **annotations},
        "spec": {"config": to_json(config)},
    }


def _sriov_network(fabric: Fabric, rail: Rail, share: FabricShare | None, addresses: Body, namespace: str) -> Body:
    """Return a SriovNetwork or SriovIBNetwork. The operator adds its prefix to the name of the resource."""
    chained = ",".join(to_json(plugin) for plugin in chained_plugins(fabric, addresses))
    spec: Body = {"resourceName": rail.resource.rpartition("/")[2]}
    if addresses:
        spec["ipam"] = to_json(addresses)
    if chained:
        spec["metaPlugins"] = chained
    if fabric.type == "infiniband":
        kind = "SriovIBNetwork"
        spec["linkState"] = "enable"
    else:
        kind = "SriovNetwork"
        spec |= {"spoofChk": "on", "trust": "off"}
        if vlan := (share.vlan if share else None) or fabric.vlan:
            spec["vlan"] = vlan
    return {
        "apiVersion": f"{SRIOV_API_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": rail.network, "namespace": namespace},
        "spec": spec,
    }


def to_json(config: Body) -> str:
    """Return JSON text with a stable order of keys."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"))


_RESOURCE_API = "resource.k8s.io/v1"
_DRANET_DEVICES = 'device.driver == "dra.net"'


def device_class(fabric: Fabric) -> Body:
    """Return the DeviceClass of a fabric's NICs."""
    selectors = fabric.selectors or (_DRANET_DEVICES,)
    return {
        "apiVersion": _RESOURCE_API,
        "kind": "DeviceClass",
        "metadata": {"name": fabric.name},
        "spec": {"selectors": _cel_selectors(selectors)},
    }


def resource_claim_template(fabric: Fabric, namespace: str) -> Body:
    """Return the ResourceClaimTemplate of a host: exclusive use of all NICs of the fabric on a node."""
    exactly: Body = {
        "deviceClassName": fabric.claimed,
        "allocationMode": "ExactCount",
        "count": fabric.per_node,
    }
    if fabric.device_class and fabric.selectors:
        exactly["selectors"] = _cel_selectors(fabric.selectors)
    return {
        "apiVersion": _RESOURCE_API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": fabric.name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "nic", "exactly": exactly}]}}},
    }


def _cel_selectors(selectors: tuple[str, ...]) -> list[Body]:
    return [{"cel": {"expression": expression}} for expression in selectors]


def ipam(fabric: Fabric, rail: int, share: FabricShare | None, owner: str) -> Body:
    """Return the `ipam` of an attachment; empty if pods have no addresses on the fabric."""
    ranges = rail_ranges(fabric, share.range if share else None)
    if not ranges:
        return {}
    if allocator(fabric) == "nv-ipam":
        return {"type": "nv-ipam", "poolName": _ip_pool_name(fabric, rail, owner if share and share.range else "")}
    rail_range = ranges[rail]
    taken = [str(part) for part in whereabouts_exclude(rail_range)]
    return {
        "type": "whereabouts",
        "range": str(rail_range.network),
        **({"exclude": taken} if taken else {}),
        **({"gateway": rail_range.gateway} if rail_range.gateway else {}),
    }


def ip_pools(
    fabric: Fabric, pools: Sequence[Pool], shares: Sequence[tuple[str, FabricShare]], namespace: str
) -> Iterator[Body]:
    """Yield an IPPool of nv-ipam for each rail, and one for each rail of a team with addresses of its own."""
    if fabric.addresses is None or allocator(fabric) != "nv-ipam":
        return
    owners = [("", None), *((team, share.range) for team, share in shares if share.range)]
    for owner, own in owners:
        for number, rail_range in enumerate(rail_ranges(fabric, own)):
            name = _ip_pool_name(fabric, number, owner)
            yield _ip_pool(name, namespace, rail_range, addresses_per_node(fabric), pools)


def _ip_pool(name: str, namespace: str, rail_range: RailRange, size: int, pools: Sequence[Pool]) -> Body:
    spec: Body = {
        "subnet": str(rail_range.network),
        "perNodeBlockSize": size,
        "nodeSelector": {"nodeSelectorTerms": [_node_selector_term(pool) for pool in pools if pool.labels]},
    }
    if not all(pool.labels for pool in pools):
        del spec["nodeSelector"]
    if rail_range.gateway:
        spec["gateway"] = rail_range.gateway
    address = type(rail_range.network.network_address)
    exclusions = [
        {"startIP": str(address(first)), "endIP": str(address(last))}
        for first, last in ip_pool_exclusions(rail_range, size)
    ]
    if exclusions:
        spec["exclusions"] = exclusions
    return {
        "apiVersion": "nv-ipam.nvidia.com/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _node_selector_term(pool: Pool) -> Body:
    return {
        "matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in pool.labels.items()]
    }


def _ip_pool_name(fabric: Fabric, rail: int, owner: str) -> str:
    network = fabric.all_rails[rail].network
    return f"{network}-of-{owner}" if owner else network
