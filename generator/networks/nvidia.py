"""The NicNodePolicy by which NVIDIA's network operator runs the device plugin of a pool's NICs.

A NicNodePolicy for each pool, and not the cluster's only NicClusterPolicy: that is the admin's, with the driver and
all else of it, and one release of ours would have to write it whole. No node may be in two NicNodePolicies, and of the
plugin that one has, the NicClusterPolicy must have none (pkg/policyoverlap, v26.4.1). Nothing restarts a node but the
plugin itself restarts.

Sources: Mellanox/network-operator v26.4.1 api/v1alpha1/nicnodepolicy_types.go, webhook-schemas, hack/release.yaml;
sriov-network-device-plugin 40b6f50 README.md; k8s-rdma-shared-dev-plugin 410b0f3 README.md.
"""

from __future__ import annotations

import hashlib
import json

from generator.config.model.fabrics import Fabric, Rail
from generator.config.model.pools import Pool
from generator.manifests import Body

_LONGEST = 30  # letters: api/v1alpha1/validator/nicpolicy_webhook.go maxNicNodePolicyNameLength
_REPOSITORY, _VERSION = "nvcr.io/nvidia/mellanox", "network-operator-v26.4.1"


def nic_node_policy(fabric: Fabric, pool: Pool) -> Body:
    """Return the device plugin of a pool, which offers NICs, or one device that pods share."""
    section, image, config = (
        ("rdmaSharedDevicePlugin", "k8s-rdma-shared-dev-plugin", _shared(fabric))
        if fabric.shares_device
        else ("sriovDevicePlugin", "sriov-network-device-plugin", _whole(fabric))
    )
    plugin = {
        "image": image,
        "repository": fabric.nodes.plugin_repository or _REPOSITORY,
        "version": fabric.nodes.plugin_version or _VERSION,
        "imagePullSecrets": [],
        "config": json.dumps(config, sort_keys=True, separators=(",", ":")),
    }
    spec: Body = {"nodeSelector": dict(pool.labels), section: plugin}
    if pool.taints:
        spec["tolerations"] = [
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
            if taint.value
            else {"key": taint.key, "operator": "Exists", "effect": taint.effect}
            for taint in pool.taints
        ]
    return {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicNodePolicy",
        "metadata": {"name": _short(f"{fabric.name}-{pool.name}")},
        "spec": spec,
    }


def _short(name: str) -> str:
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9].rstrip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _shared(fabric: Fabric) -> Body:
    prefix, _, name = fabric.device.rpartition("/")
    selectors = {
        "vendors": [fabric.nics.vendor] if fabric.nics.vendor else [],
        "deviceIDs": [fabric.nics.device] if fabric.nics.device else [],
        "ifNames": [*fabric.nics.ports],
    }
    offered = {
        "resourcePrefix": prefix,
        "resourceName": name,
        "rdmaHcaMax": fabric.pods_per_node,
        "selectors": {key: value for key, value in selectors.items() if value},
    }
    return {"periodicUpdateInterval": 300, "configList": [offered]}


def _whole(fabric: Fabric) -> Body:
    return {"resourceList": [_resource(fabric, rail) for rail in fabric.all_rails]}


def _resource(fabric: Fabric, rail: Rail) -> Body:
    prefix, _, name = rail.resource.rpartition("/")
    selectors = {
        "vendors": [fabric.nics.vendor] if fabric.nics.vendor else [],
        "devices": [fabric.nics.device] if fabric.nics.device else [],
        "pciAddresses": [*rail.addresses],
        "isRdma": fabric.has_rdma,
    }
    return {
        "resourcePrefix": prefix,
        "resourceName": name,
        "selectors": {key: value for key, value in selectors.items() if value},
    }
