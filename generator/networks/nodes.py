"""The objects with which operators set up the nodes of a fabric: the SR-IOV and NVIDIA operators, and OpenShift's.

SR-IOV network operator: sriov-network-operator v1.6.0 api/v1. Rules of its webhook, which is off outside OpenShift:
pkg/webhook/validate.go, mutate.go (249e200 of August 2026).

NVIDIA's network operator: a NicNodePolicy for each pool, because the cluster's only NicClusterPolicy belongs to the
admin. No node may be in two NicNodePolicies, and the NicClusterPolicy must not have the same plugin (pkg/policyoverlap,
v26.4.1). Nodes do not restart, only the plugin does. Mellanox/network-operator v26.4.1
api/v1alpha1/nicnodepolicy_types.go, webhook-schemas, hack/release.yaml; sriov-network-device-plugin 40b6f50 README.md;
k8s-rdma-shared-dev-plugin 410b0f3 README.md.

OpenShift's Machine Config Operator and Node Tuning Operator act on a whole MachineConfigPool, so the settings of
several fabrics for one pool become one object. machine-config-operator 7ff337a docs/KubeletConfigDesign.md,
manifests/worker.machineconfigpool.yaml (the label of a pool, which a custom pool must be given); cri-o crio.conf
`default_ulimits` (cri-o/cri-o#7703); cluster-node-tuning-operator d2394aa pkg/apis/performanceprofile/v2.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator

from generator.config.model.fabrics import Fabric, MachineConfigPool, Rail, machine_config_pools
from generator.config.model.pools import Pool
from generator.facts.names import REBOOTS
from generator.manifests import Body


def _reboots_annotation(action: str, pool: Pool, at_a_time: int, condition: str) -> dict[str, str]:
    """Return the annotation that describes the restart or drain of a pool's nodes by an object."""
    return {REBOOTS: f"{action} the {pool.nodes} nodes of pool {pool.name}, {at_a_time} at a time, {condition}"}


SRIOV_API_GROUP = "sriovnetwork.openshift.io"
_LOWEST_PRIORITY = 99  # what the webhook adds; without it the operator reads 0, the highest


def sriov_node_objects(fabric: Fabric, pool: Pool, namespace: str) -> Iterator[Body]:
    """Yield the objects for the nodes of a pool."""
    yield _sriov_network_pool_config(fabric, pool, namespace)
    for rail in fabric.all_rails:
        yield _sriov_network_node_policy(fabric, rail, pool, namespace)


def _sriov_network_pool_config(fabric: Fabric, pool: Pool, namespace: str) -> Body:
    """Return the SriovNetworkPoolConfig: how many nodes change at a time, and the RDMA mode.

    Each pool has one, because the operator rejects a node in two of them (controllers/helper.go findNodePoolConfig).
    """
    mode = {"rdmaMode": "exclusive" if fabric.is_exclusive else "shared"} if fabric.has_rdma else {}
    action, condition = ("restarts", "if their RDMA mode changes") if mode else ("drains", "if their NICs change")
    return {
        "apiVersion": f"{SRIOV_API_GROUP}/v1",
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
        "priority": _LOWEST_PRIORITY,
        "resourceName": rail.resource.rpartition("/")[2],
    }
    if fabric.mtu:
        spec["mtu"] = fabric.mtu
    return {
        "apiVersion": f"{SRIOV_API_GROUP}/v1",
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
    """Return the `nicSelector` of a rail: a NIC must meet all of its conditions."""
    conditions = {
        "vendor": fabric.nics.vendor,
        "deviceID": fabric.nics.device,
        "pfNames": [*rail.ports],
        "rootDevices": [*rail.addresses],
    }
    return {key: value for key, value in conditions.items() if value}


_LONGEST_POLICY_NAME = 30  # letters: api/v1alpha1/validator/nicpolicy_webhook.go maxNicNodePolicyNameLength
_PLUGIN_REPOSITORY, _PLUGIN_VERSION = "nvcr.io/nvidia/mellanox", "network-operator-v26.4.1"


def nic_node_policy(fabric: Fabric, pool: Pool) -> Body:
    """Return the NicNodePolicy of a pool, whose device plugin offers NICs or one device that pods share."""
    section, image, config = (
        ("rdmaSharedDevicePlugin", "k8s-rdma-shared-dev-plugin", _shared_device_plugin(fabric))
        if fabric.shares_device
        else (
            "sriovDevicePlugin",
            "sriov-network-device-plugin",
            {"resourceList": [_device_resource(fabric, rail) for rail in fabric.all_rails]},
        )
    )
    plugin = {
        "image": image,
        "repository": fabric.nodes.plugin_repository or _PLUGIN_REPOSITORY,
        "version": fabric.nodes.plugin_version or _PLUGIN_VERSION,
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
        "metadata": {"name": _shorten_policy_name(f"{fabric.name}-{pool.name}")},
        "spec": spec,
    }


def _shorten_policy_name(name: str) -> str:
    if len(name) <= _LONGEST_POLICY_NAME:
        return name
    return f"{name[: _LONGEST_POLICY_NAME - 9].rstrip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _shared_device_plugin(fabric: Fabric) -> Body:
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


def _device_resource(fabric: Fabric, rail: Rail) -> Body:
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


_ULIMITS = '[crio.runtime]\ndefault_ulimits = ["memlock=-1:-1"]\n'
_MCO_API_GROUP = "machineconfiguration.openshift.io"


def machine_setup(fabrics: Iterable[Fabric]) -> Iterator[Body]:
    """Yield the objects of a cluster, in the order of the MachineConfigPools."""
    for pool in machine_config_pools(fabrics):
        if pool.memlock:
            yield _memlock_machine_config(pool)
        if pool.reserved:
            yield _performance_profile(pool)
        elif pool.numa:
            yield _kubelet_config(pool)


def _machine_metadata(name: str, pool: str) -> Body:
    how = f"restarts every node of the MachineConfigPool {pool}, at most maxUnavailable at a time"
    return {"name": name, "annotations": {REBOOTS: how}}


def _memlock_machine_config(machines: MachineConfigPool) -> Body:
    """Return a MachineConfig that lifts CRI-O's limit of locked memory, which only root could raise in a container."""
    content = base64.b64encode(_ULIMITS.encode()).decode()
    file = {
        "path": "/etc/crio/crio.conf.d/10-mpigen-memlock.conf",
        "mode": 0o644,
        "overwrite": True,
        "contents": {"source": f"data:text/plain;charset=utf-8;base64,{content}"},
    }
    return {
        "apiVersion": f"{_MCO_API_GROUP}/v1",
        "kind": "MachineConfig",
        "metadata": {
            **_machine_metadata(f"99-{machines.pool}-mpigen-memlock", machines.pool),
            "labels": {f"{_MCO_API_GROUP}/role": machines.pool},
        },
        "spec": {"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}}},
    }


def _kubelet_config(machines: MachineConfigPool) -> Body:
    """Return a KubeletConfig. The topology manager aligns cores only if the CPU manager assigns whole cores.

    The scope is the pod: with the scope `container`, the init container that requests the NICs would bind the main
    container to the NUMA node of these NICs.
    """
    return {
        "apiVersion": f"{_MCO_API_GROUP}/v1",
        "kind": "KubeletConfig",
        "metadata": _machine_metadata(f"mpigen-{machines.pool}-numa", machines.pool),
        "spec": {
            "machineConfigPoolSelector": {"matchLabels": _pool_label(machines.pool)},
            "kubeletConfig": {
                "cpuManagerPolicy": "static",
                "topologyManagerPolicy": machines.numa,
                "topologyManagerScope": "pod",
            },
        },
    }


def _performance_profile(machines: MachineConfigPool) -> Body:
    spec: Body = {
        "cpu": {"isolated": machines.isolated, "reserved": machines.reserved},
        "machineConfigPoolSelector": _pool_label(machines.pool),
        "nodeSelector": {f"node-role.kubernetes.io/{machines.pool}": ""},
        # By default it trades throughput for latency.
        "workloadHints": {"realTime": False},
    }
    metadata = _machine_metadata(f"mpigen-{machines.pool}", machines.pool)
    if machines.numa:
        spec["numa"] = {"topologyPolicy": machines.numa}
        # For what it has no field (cluster-node-tuning-operator …/components/kubeletconfig/kubeletconfig.go).
        metadata["annotations"]["kubeletconfig.experimental"] = '{"topologyManagerScope": "pod"}'
    return {
        "apiVersion": "performance.openshift.io/v2",
        "kind": "PerformanceProfile",
        "metadata": metadata,
        "spec": spec,
    }


def _pool_label(pool: str) -> dict[str, str]:
    return {f"pools.operator.{_MCO_API_GROUP}/{pool}": ""}
