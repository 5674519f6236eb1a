"""The objects by which the SR-IOV network operator sets up a pool: virtual functions of NICs, and the RDMA mode.

Fields: sriov-network-operator v1.6.0 api/v1. Rules of its webhook, which is off outside OpenShift:
pkg/webhook/validate.go, mutate.go (249e200 of August 2026).
"""

from __future__ import annotations

from collections.abc import Iterator

from generator.config.model.fabrics import Fabric, Rail
from generator.config.model.pools import Pool
from generator.facts.names import REBOOTS
from generator.manifests import Body


def _reboots_annotation(action: str, pool: Pool, at_a_time: int, condition: str) -> dict[str, str]:
    """Return the annotation of an object that restarts or drains the nodes of a pool."""
    return {REBOOTS: f"{action} the {pool.nodes} nodes of pool {pool.name}, {at_a_time} at a time, {condition}"}


GROUP = "sriovnetwork.openshift.io"
_LOWEST = 99  # what the webhook adds; without it the operator reads 0, the highest


def sriov_node_objects(fabric: Fabric, pool: Pool, namespace: str) -> Iterator[Body]:
    """Yield the objects for the nodes of a pool."""
    yield _sriov_network_pool_config(fabric, pool, namespace)
    for rail in fabric.all_rails:
        yield _sriov_network_node_policy(fabric, rail, pool, namespace)


def _sriov_network_pool_config(fabric: Fabric, pool: Pool, namespace: str) -> Body:
    """Return the SriovNetworkPoolConfig: how many nodes change at a time, and the RDMA mode.

    A node in two of them is an error of the operator's (controllers/helper.go findNodePoolConfig): one for each pool.
    """
    mode = {"rdmaMode": "exclusive" if fabric.is_exclusive else "shared"} if fabric.has_rdma else {}
    action, condition = ("restarts", "if their RDMA mode changes") if mode else ("drains", "if their NICs change")
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "SriovNetworkPoolConfig",
        "metadata": {
            "name": f"{fabric.name}-{pool.name}",
            "namespace": namespace,
            "annotations": _reboots_annotation(action, pool, fabric.nodes.max_unavailable, condition),
        },
        "spec": {
            "maxUnavailable": fabric.nodes.max_unavailable,
            "nodeSelector": {"matchLabels": dict(pool.labels)},
            **mode,
        },
    }


def _sriov_network_node_policy(fabric: Fabric, rail: Rail, pool: Pool, namespace: str) -> Body:
    suffix = f"-rail{rail.index}" if rail.index >= 0 else ""
    spec: Body = {
        "deviceType": "netdevice",
        "isRdma": fabric.has_rdma,
        "linkType": "ib" if fabric.type == "infiniband" else "eth",
        "nicSelector": _nic_selector(fabric, rail),
        "nodeSelector": dict(pool.labels),
        "numVfs": fabric.pods_per_node,
        "priority": _LOWEST,
        "resourceName": rail.resource.rpartition("/")[2],
    }
    if fabric.mtu:
        spec["mtu"] = fabric.mtu
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "SriovNetworkNodePolicy",
        "metadata": {
            "name": f"{fabric.name}-{pool.name}{suffix}",
            "namespace": namespace,
            "annotations": _reboots_annotation(
                "drains", pool, fabric.nodes.max_unavailable, "and restarts them if their NICs require it"
            ),
        },
        "spec": spec,
    }


def _nic_selector(fabric: Fabric, rail: Rail) -> Body:
    """Return the conditions that a NIC must meet, all of them."""
    conditions = {
        "vendor": fabric.nics.vendor,
        "deviceID": fabric.nics.device,
        "pfNames": [*rail.ports],
        "rootDevices": [*rail.addresses],
    }
    return {key: value for key, value in conditions.items() if value}
