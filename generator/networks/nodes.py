"""The objects from which the SR-IOV operator, NVIDIA's network operator and OpenShift configure the nodes of a fabric.

SR-IOV network operator: sriov-network-operator v1.6.0 api/v1. Rules of its webhook, which is off outside OpenShift:
sriov-network-operator v1.6.0 pkg/webhook/validate.go; sriov-network-operator v1.6.0 pkg/webhook/mutate.go (249e200 of
August 2026).

NVIDIA's network operator: a NicNodePolicy for each pool, because the cluster's only NicClusterPolicy belongs to the
admin. No node may be in two NicNodePolicies, and the NicClusterPolicy must not have the same plugin (pkg/policyoverlap,
v26.4.1). A change restarts the device plugin, but no node. network-operator v26.4.1
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
from generator.kueue.flavors import tolerations
from generator.manifests import Body, omit_none

SRIOV_API_GROUP = "sriovnetwork.openshift.io"
_MCO_API_GROUP = "machineconfiguration.openshift.io"
_LOWEST_PRIORITY = 99
"""The default that the webhook of the SR-IOV operator sets. Without the webhook, the default is 0, the highest."""
_PLUGIN_REPOSITORY, _PLUGIN_VERSION = "nvcr.io/nvidia/mellanox", "network-operator-v26.4.1"
"""The default repository and version of the device plugins of NVIDIA's network operator."""
# characters: network-operator v26.4.1 api/v1alpha1/validator/nicpolicy_webhook.go maxNicNodePolicyNameLength
_LONGEST_POLICY_NAME = 30


def to_json(config: Body) -> str:
    """Return a configuration as JSON text with sorted keys."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"))


def _reboots_annotation(action: str, pool: Pool, at_a_time: int, condition: str) -> dict[str, str]:
    """Return the annotation of an object whose change restarts or drains (`action`) the nodes of a pool."""
    return {REBOOTS: f"{action} the {pool.nodes} nodes of pool {pool.name}, {at_a_time} at a time, {condition}"}


def sriov_node_objects(fabric: Fabric, pool: Pool, namespace: str) -> Iterator[Body]:
    """Yield the SR-IOV operator's objects for a pool: the SriovNetworkPoolConfig, and a policy for each rail."""
    yield _sriov_network_pool_config(fabric, pool, namespace)
    for rail in fabric.all_rails:
        yield _sriov_network_node_policy(fabric, rail, pool, namespace)


def _sriov_network_pool_config(fabric: Fabric, pool: Pool, namespace: str) -> Body:
    """Return the SriovNetworkPoolConfig of a pool: the number of nodes that change at a time, and the RDMA mode.

    The operator rejects a node that two of these objects select (sriov-network-operator v1.6.0 controllers/helper.go
    findNodePoolConfig).
    """
    mode = "exclusive" if fabric.is_exclusive else "shared"
    action, condition = (
        ("restarts", "if their RDMA mode changes") if fabric.has_rdma else ("drains", "if their NICs change")
    )
    return omit_none(
        {
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
                "rdmaMode": mode if fabric.has_rdma else None,
            },
        }
    )


def _sriov_network_node_policy(fabric: Fabric, rail: Rail, pool: Pool, namespace: str) -> Body:
    suffix = f"-rail{rail.index}" if rail.index >= 0 else ""
    return omit_none(
        {
            "apiVersion": f"{SRIOV_API_GROUP}/v1",
            "kind": "SriovNetworkNodePolicy",
            "metadata": {
                "name": f"{fabric.name}-{pool.name}{suffix}",
                "namespace": namespace,
                "annotations": _reboots_annotation(
                    "drains", pool, fabric.nodes.max_unavailable, "and restarts them if their NICs require it"
                ),
            },
            "spec": {
                "deviceType": "netdevice",
                "isRdma": fabric.has_rdma,
                "linkType": "ib" if fabric.type == "infiniband" else "eth",
                "nicSelector": {  # a NIC must meet all conditions
                    "vendor": fabric.nics.vendor or None,
                    "deviceID": fabric.nics.device or None,
                    "pfNames": [*rail.ports] or None,
                    "rootDevices": [*rail.addresses] or None,
                },
                "nodeSelector": dict(pool.labels),
                "numVfs": fabric.pods_per_node,
                "priority": _LOWEST_PRIORITY,
                "resourceName": rail.resource.rpartition("/")[2],
                "mtu": fabric.mtu or None,
            },
        }
    )


def nic_node_policy(fabric: Fabric, pool: Pool) -> Body:
    """Return the NicNodePolicy of a pool: its device plugin offers each NIC, or one RDMA device that pods share."""
    section, image, config = (
        ("rdmaSharedDevicePlugin", "k8s-rdma-shared-dev-plugin", _shared_device_plugin(fabric))
        if fabric.shares_device
        else ("sriovDevicePlugin", "sriov-network-device-plugin", _sriov_device_plugin(fabric))
    )
    return omit_none(
        {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "NicNodePolicy",
            "metadata": {"name": _shorten_policy_name(f"{fabric.name}-{pool.name}")},
            "spec": {
                "nodeSelector": dict(pool.labels),
                section: {
                    "image": image,
                    "repository": fabric.nodes.plugin_repository or _PLUGIN_REPOSITORY,
                    "version": fabric.nodes.plugin_version or _PLUGIN_VERSION,
                    "imagePullSecrets": [],
                    "config": to_json(config),
                },
                "tolerations": tolerations(pool) or None,
            },
        }
    )


def _shorten_policy_name(name: str) -> str:
    if len(name) <= _LONGEST_POLICY_NAME:
        return name
    return f"{name[: _LONGEST_POLICY_NAME - 9].rstrip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _shared_device_plugin(fabric: Fabric) -> Body:
    """Return the configuration of k8s-rdma-shared-dev-plugin, which offers one device for all NICs."""
    prefix, _, name = fabric.device.rpartition("/")
    return omit_none(
        {
            "periodicUpdateInterval": 300,
            "configList": [
                {
                    "resourcePrefix": prefix,
                    "resourceName": name,
                    "rdmaHcaMax": fabric.pods_per_node,
                    "selectors": {
                        "vendors": [fabric.nics.vendor] if fabric.nics.vendor else None,
                        "deviceIDs": [fabric.nics.device] if fabric.nics.device else None,
                        "ifNames": [*fabric.nics.ports] or None,
                    },
                }
            ],
        }
    )


def _sriov_device_plugin(fabric: Fabric) -> Body:
    """Return the configuration of sriov-network-device-plugin, which offers the NICs of each rail as a resource."""
    return omit_none(
        {
            "resourceList": [
                {
                    "resourcePrefix": rail.resource.rpartition("/")[0],
                    "resourceName": rail.resource.rpartition("/")[2],
                    "selectors": {
                        "vendors": [fabric.nics.vendor] if fabric.nics.vendor else None,
                        "devices": [fabric.nics.device] if fabric.nics.device else None,
                        "pciAddresses": [*rail.addresses] or None,
                        "isRdma": fabric.has_rdma or None,
                    },
                }
                for rail in fabric.all_rails
            ]
        }
    )


def machine_setup(fabrics: Iterable[Fabric]) -> Iterator[Body]:
    """Yield the OpenShift objects that configure the nodes of all fabrics, in the order of the MachineConfigPools."""
    for pool in machine_config_pools(fabrics):
        if pool.memlock:
            yield _memlock_machine_config(pool)
        if pool.reserved:
            yield _performance_profile(pool)
        elif pool.numa:
            yield _kubelet_config(pool)


def _restarts_pool(pool: str) -> dict[str, str]:
    """Return the annotation of an object whose change restarts the nodes of a MachineConfigPool."""
    return {REBOOTS: f"restarts every node of the MachineConfigPool {pool}, at most maxUnavailable at a time"}


def _memlock_machine_config(machines: MachineConfigPool) -> Body:
    """Return a MachineConfig that lifts CRI-O's limit of locked memory. In a container, only root could raise it."""
    content = base64.b64encode(b'[crio.runtime]\ndefault_ulimits = ["memlock=-1:-1"]\n').decode()
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
            "name": f"99-{machines.pool}-mpigen-memlock",
            "annotations": _restarts_pool(machines.pool),
            "labels": {f"{_MCO_API_GROUP}/role": machines.pool},
        },
        "spec": {"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}}},
    }


def _kubelet_config(machines: MachineConfigPool) -> Body:
    """Return a KubeletConfig that aligns the devices and cores of a pod by NUMA node.

    The topology manager aligns cores only if the CPU manager assigns whole cores. With the scope `container`, the init
    container that requests the NICs would bind the main container to the NUMA node of these NICs.
    """
    return {
        "apiVersion": f"{_MCO_API_GROUP}/v1",
        "kind": "KubeletConfig",
        "metadata": {"name": f"mpigen-{machines.pool}-numa", "annotations": _restarts_pool(machines.pool)},
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
    return omit_none(
        {
            "apiVersion": "performance.openshift.io/v2",
            "kind": "PerformanceProfile",
            "metadata": {
                "name": f"mpigen-{machines.pool}",
                "annotations": {
                    **_restarts_pool(machines.pool),
                    # A profile has no field for the scope of the kubelet (cluster-node-tuning-operator).
                    "kubeletconfig.experimental": '{"topologyManagerScope": "pod"}' if machines.numa else None,
                },
            },
            "spec": {
                "cpu": {"isolated": machines.isolated, "reserved": machines.reserved},
                "machineConfigPoolSelector": _pool_label(machines.pool),
                "nodeSelector": {f"node-role.kubernetes.io/{machines.pool}": ""},
                "workloadHints": {"realTime": False},  # the default, true, trades throughput for latency
                "numa": {"topologyPolicy": machines.numa} if machines.numa else None,
            },
        }
    )


def _pool_label(pool: str) -> dict[str, str]:
    return {f"pools.operator.{_MCO_API_GROUP}/{pool}": ""}
