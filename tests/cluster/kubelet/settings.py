"""The settings of a node's programs, and the paths inside the node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

REGISTRY = "mpi.test"
PAUSE = f"{REGISTRY}/pause:1"
REGISTRY_PORT = 5000
KUBELET_PORT = 10250
DNS = "10.0.0.10"
"""The address of CoreDNS. It is in the range of ClusterIPs, as on other clusters."""
_PODS = "10.88.0.0/16"
_SOCKET = "/run/containerd/containerd.sock"
_DOMAIN = "cluster.local"
# kubernetes v1.34.2 cmd/kubeadm/app/phases/addons/dns/manifests.go, without probes and metrics. There is no upstream
# server, so other names do not exist.
_COREFILE = f"""\
{_DOMAIN}:53 in-addr.arpa:53 ip6.arpa:53 {{
    errors
    kubernetes {_DOMAIN} in-addr.arpa ip6.arpa {{
       kubeconfig KUBECONFIG
       pods insecure
       ttl 30
    }}
    cache 30 {{
       disable success {_DOMAIN}
       disable denial {_DOMAIN}
    }}
}}
.:53 {{
    errors
    template ANY ANY {{
       rcode NXDOMAIN
    }}
    cache 30
}}
"""
# No pod is evicted and no image is removed because the disk of a developer's machine is nearly full.
_NO_EVICTION = dict.fromkeys(
    ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"), "0%"
)


def containerd(folder: Path) -> str:
    """Return the configuration file of containerd 1.6, in TOML.

    A virtual machine can lack CAP_SYS_RESOURCE, without which root cannot protect processes from the OOM killer.
    containerd v1.6.20 pkg/cri/config/config.go.
    """
    return f"""\
version = 2
root = {json.dumps(str(folder / "containerd"))}
state = "/run/containerd/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = {json.dumps(str(folder / "cni"))}
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {json.dumps(str(folder / "registries"))}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def hosts() -> str:
    """Return the file that makes containerd pull the images of the tests from the node itself."""
    return f'[host."http://127.0.0.1:{REGISTRY_PORT}"]\n  capabilities = ["pull", "resolve"]\n'


def network() -> str:
    """Return the CNI configuration: each pod has a link to the node, which routes.

    On a bridge, pods would be neighbors of each other, and 32 pods have more of them than the 1,024 that Linux keeps in
    all networks of a machine (net.ipv4.neigh.default.gc_thresh3): then connections time out.
    """
    addresses = {"type": "host-local", "ranges": [[{"subnet": _PODS}]], "dataDir": "/run/cni"}
    link = {"type": "ptp", "ipam": {**addresses, "routes": [{"dst": "0.0.0.0/0"}]}}
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [link]})


def corefile(kubeconfig: Path) -> str:
    """Return the configuration file of CoreDNS."""
    return _COREFILE.replace("KUBECONFIG", str(kubeconfig))


def kubelet(taints: list[Mapping[str, Any]]) -> str:
    """Return the configuration file of the kubelet. What it does not set has upstream's default.

    kubelet v0.34.2 config/v1beta1/types.go KubeletConfiguration.
    """
    return yaml.safe_dump(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "clusterDNS": [DNS],
            "clusterDomain": _DOMAIN,
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "evictionHard": _NO_EVICTION,
            "failCgroupV1": False,
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "oomScoreAdj": 0,
            "makeIPTablesUtilChains": False,
            "port": KUBELET_PORT,
            "registerWithTaints": [dict(taint) for taint in taints],
            "resolvConf": "",
            "serializeImagePulls": False,
        }
    )
