"""The objects by which OpenShift's Machine Config Operator and Node Tuning Operator set up the nodes of fabrics.

Both act on a whole MachineConfigPool, so the settings of several fabrics for one pool become one object.

Sources: machine-config-operator 7ff337a docs/KubeletConfigDesign.md, manifests/worker.machineconfigpool.yaml (the label
of a pool, which a pool of one's own must be given); cri-o crio.conf `default_ulimits` (cri-o/cri-o#7703);
cluster-node-tuning-operator d2394aa pkg/apis/performanceprofile/v2.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

from generator.config.model.fabrics import Fabric, MachineConfigPool, machine_config_pools
from generator.facts.names import REBOOTS
from generator.manifests import Body

_ULIMITS = '[crio.runtime]\ndefault_ulimits = ["memlock=-1:-1"]\n'
_MCO = "machineconfiguration.openshift.io"


def machine_setup(fabrics: Iterable[Fabric]) -> Iterator[Body]:
    """Yield the objects of a cluster, in the order of the MachineConfigPools."""
    for pool in machine_config_pools(fabrics):
        if pool.memlock:
            yield _memlock(pool)
        if pool.reserved:
            yield _performance_profile(pool)
        elif pool.numa:
            yield _kubelet_config(pool)


def _metadata(name: str, pool: str) -> Body:
    how = f"restarts every node of the MachineConfigPool {pool}, at most maxUnavailable at a time"
    return {"name": name, "annotations": {REBOOTS: how}}


def _memlock(machines: MachineConfigPool) -> Body:
    """Return a MachineConfig that lifts the memlock limit of CRI-O, which only root could raise in a container."""
    content = base64.b64encode(_ULIMITS.encode()).decode()
    file = {
        "path": "/etc/crio/crio.conf.d/10-mpigen-memlock.conf",
        "mode": 0o644,
        "overwrite": True,
        "contents": {"source": f"data:text/plain;charset=utf-8;base64,{content}"},
    }
    return {
        "apiVersion": f"{_MCO}/v1",
        "kind": "MachineConfig",
        "metadata": {
            **_metadata(f"99-{machines.pool}-mpigen-memlock", machines.pool),
            "labels": {f"{_MCO}/role": machines.pool},
        },
        "spec": {"config": {"ignition": {"version": "3.2.0"}, "storage": {"files": [file]}}},
    }


def _kubelet_config(machines: MachineConfigPool) -> Body:
    """Return a KubeletConfig: the topology manager aligns cores only if the CPU manager assigns whole ones.

    Its scope is the pod: else the init container that requests the NICs would bind the main container to their NUMA
    node.
    """
    return {
        "apiVersion": f"{_MCO}/v1",
        "kind": "KubeletConfig",
        "metadata": _metadata(f"mpigen-{machines.pool}-numa", machines.pool),
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
    metadata = _metadata(f"mpigen-{machines.pool}", machines.pool)
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
    return {f"pools.operator.{_MCO}/{pool}": ""}
