"""What pods of a team are attached by: a NetworkAttachmentDefinition for each rail, in each of its namespaces.

Runtimes are everybody's, and name networks without a namespace: so a rail has the same name in every namespace, and
Multus of OpenShift takes none from elsewhere. MacvlanNetwork, HostDeviceNetwork and IPoIBNetwork of NVIDIA's operator
are cluster-scoped and give their own name to the one definition they make: two teams could not both have one.
SriovNetwork and SriovIBNetwork in a team's namespace make it there: SR-IOV operator from August 2025 on (commit
04ec4a590), which is after v1.6.0, and OpenShift 4.20.

Sources: network-attachment-definition-client v1.7.7; multus-cni 95a0932 pkg/k8sclient/k8sclient.go
getKubernetesDelegate; sriov-network-operator 249e200 api/v1/helper.go RenderNetAttDef.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from generator.config.model.fabric_parts import FabricShare
from generator.config.model.fabrics import Fabric, Rail
from generator.config.model.tenants import Tenant
from generator.facts.names import RESOURCE_NAME
from generator.manifests import Body
from generator.networks.addresses import ipam
from generator.networks.plugins import conf_list, more_plugins
from generator.networks.sriov import GROUP


def attachments(fabric: Fabric, tenant: Tenant, namespace: str) -> Iterator[Body]:
    """The networks of a fabric in one of a team's namespaces."""
    share = next((each for each in tenant.fabrics if each.name == fabric.name), None)
    if not fabric.has_networks:
        return
    for number, rail in enumerate(fabric.all_rails):
        addresses = ipam(fabric, number, share, tenant.name)
        if fabric.networks == "operator":
            yield _for_the_operator(fabric, rail, share, addresses, namespace)
        else:
            yield _definition(rail, conf_list(fabric, rail, share, addresses), namespace)


def _definition(rail: Rail, config: Body, namespace: str) -> Body:
    annotations = {"annotations": {RESOURCE_NAME: rail.resource}} if rail.resource else {}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": rail.network, "namespace": namespace, **annotations},
        "spec": {"config": written(config)},
    }


def _for_the_operator(fabric: Fabric, rail: Rail, share: FabricShare | None, addresses: Body, namespace: str) -> Body:
    """The operator puts its own prefix before the name of the resource."""
    chained = ",".join(written(plugin) for plugin in more_plugins(fabric, addresses))
    spec: Body = {"resourceName": rail.resource.rpartition("/")[2]}
    if addresses:
        spec["ipam"] = written(addresses)
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
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": rail.network, "namespace": namespace},
        "spec": spec,
    }


def written(config: Body) -> str:
    """As JSON, always the same."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"))
