"""The server types that are known. Ids of PCI devices: sriov-network-operator 249e200 deploy/configmap.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generator.config.cloud_servers import CLOUD_SERVERS, ORACLE_SHAPES
from generator.config.server import Measured, Server
from generator.facts.names import GPU_CLIQUE

_BASEPOD = (
    "https://docs.nvidia.com/dgx-basepod/reference-architecture-infrastructure-foundation-enterprise-ai/latest/"
    "core-components.html"
)
_HGX = "https://docs.nvidia.com/enterprise-reference-architectures/hgx-ai-factory-h100-h200-b200/latest/"
_HGX_2_8_9 = "https://docs.nvidia.com/ai-enterprise/reference-architecture/latest/compute-node-hardware.html"
"""HGX systems are 2-8-9: two sockets, eight GPUs evenly on both, nine NICs."""
_COREWEAVE = "https://github.com/coreweave/nccl-tests/blob/0120901/README.md"
_AZURE = (
    "https://github.com/Azure/ai-infrastructure-on-azure/blob/a01b073/skills/slurm/sku_performance_baseline/SKILL.md"
)


def _infiniband(nics: int, device: str) -> Mapping[str, Any]:
    return {"type": "infiniband", "perNode": nics, "nics": {"vendor": "15b3", "device": device}}


_OWN = (
    Server(
        name="dgx-a100",
        title="DGX A100 with eight ConnectX-6",
        accelerators="8 NVIDIA A100",
        link=200,
        fabric=_infiniband(8, "101b"),
        sources=(
            "https://docs.nvidia.com/dgx/dgxa100-user-guide/introduction-to-dgxa100.html",
            "https://www.microway.com/hpc-tech-tips/dgx-a100-review-throughput-and-hardware-summary/",  # its CPUs
        ),
        sockets=2,
    ),
    Server(
        name="hgx-h100",
        title="HGX H100 with eight ConnectX-7",
        accelerators="8 NVIDIA H100",
        link=400,
        fabric=_infiniband(8, "1021"),
        sources=(_BASEPOD, "https://docs.nvidia.com/dgx/dgxh100-user-guide/introduction-to-dgxh100.html", _HGX_2_8_9),
        sockets=2,
        measured=(Measured(386, "12 servers, 8 GiB", _COREWEAVE),),
    ),
    Server(
        name="hgx-h200",
        title="HGX H200 with eight ConnectX-7",
        accelerators="8 NVIDIA H200",
        link=400,
        fabric=_infiniband(8, "1021"),
        sources=(_BASEPOD, _HGX_2_8_9),
        sockets=2,
    ),
    Server(
        name="hgx-b200",
        title="HGX B200 with eight ConnectX-7",
        accelerators="8 NVIDIA B200",
        link=400,
        fabric=_infiniband(8, "1021"),
        sources=(_BASEPOD, _HGX_2_8_9),
        sockets=2,
    ),
    Server(
        name="hgx-spectrum-x",
        title="HGX with eight BlueField-3, on Spectrum-X",
        accelerators="8 NVIDIA H100, H200 or B200",
        link=400,
        fabric={"type": "roce", "perNode": 8, "nics": {"vendor": "15b3", "device": "a2dc"}},
        sources=(
            f"{_HGX}networking-physical-topologies.html",
            "https://docs.nvidia.com/networking/display/bf3dpu/port-configurations",
            _HGX_2_8_9,
        ),
        sockets=2,
        note="each NIC is a network of its own: name the interfaces in `nics.ports`, and give `addresses`",
    ),
    Server(
        name="gb200-nvl72",
        title="GB200 NVL72: a compute tray with four ConnectX-7",
        accelerators="4 NVIDIA B200",
        link=400,
        fabric=_infiniband(4, "1021"),
        sources=(
            ORACLE_SHAPES,
            "https://github.com/oracle-quickstart/oci-hpc-oke/blob/61d210a/manifests/nccl-tests/kueue/BM.GPU.GB200.4.yaml",
        ),
        architecture="arm64",
        topology=(GPU_CLIQUE,),
        measured=(Measured(200, "between two racks of GB300 with the same links, 16 GiB", _AZURE),),
        note="NCCL joins the trays of one rack by NVLink and does not use the fabric: measure it between racks",
    ),
)
SERVERS: Mapping[str, Server] = {server.name: server for server in (*_OWN, *CLOUD_SERVERS)}
"""Name → server type."""
