"""Server types of clouds, by the names that the clouds give them.

Amazon's devices and what they carry: karpenter-provider-aws 1d92708 website/content/en/preview/reference/
instance-types.md, which is made from EC2's own API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generator.config.server import Measured, Server, ServerName

ORACLE_SHAPES = "https://docs.oracle.com/en-us/iaas/Content/Compute/References/computeshapes.htm"
_OKE = "https://github.com/oracle-quickstart/oci-hpc-oke/blob/61d210a/"
_ORACLE_RUNS = f"{_OKE}docs/running-nccl-rccl-tests-from-slurm-operator.md"
_AKS = "https://github.com/Azure/aks-rdma-infiniband/blob/700dabb/"
_AZURE_BASELINE = (
    "https://github.com/Azure/ai-infrastructure-on-azure/blob/a01b073/skills/slurm/sku_performance_baseline/SKILL.md"
)
_AZURE_SIZES = "https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/"
_AMAZON_RUNS = "https://github.com/aws-samples/awsome-distributed-training/blob/7217859/micro-benchmarks/nccl-tests/"
_DRANET = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/allocate-network-resources-dra"

_AMAZON_PLACES = tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3))
_GOOGLE_PLACES = tuple(f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock", "host"))
_ORACLE_PLACES = tuple(
    f"oci.oraclecloud.com/rdma.{level}_id" for level in ("hpc_island", "network_block", "local_block")
)


def _amazon(
    name: ServerName,
    accelerators: str,
    nics: int,
    link: int,
    measured: tuple[Measured, ...] = (),
    *,
    sockets: tuple[int, str] | None = None,
) -> Server:
    return Server(
        name=name,
        title=f"Amazon EC2 {name}",
        accelerators=accelerators,
        link=link,
        fabric={"type": "efa", "perNode": nics},
        sources=(
            "https://karpenter.sh/preview/reference/instance-types/",
            "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html",
            *([sockets[1]] if sockets else []),
        ),
        sockets=sockets[0] if sockets else None,
        topology=_AMAZON_PLACES,
        measured=measured,
    )


def _azure(name: ServerName, accelerators: str, link: int, device: str, page: str, *measured: Measured) -> Server:
    """The NICs of a virtual machine are functions already: NVIDIA's shared device plugin hands them out."""
    nics: Mapping[str, Any] = {"vendor": "15b3", "device": device}
    return Server(
        name=name,
        title=f"Azure {name}",
        accelerators=accelerators,
        link=link,
        fabric={
            "type": "infiniband",
            "attach": "rdma-shared",
            "resource": "rdma/shared_ib",
            "perNode": 8,
            "nics": nics,
        },
        sources=(f"{_AZURE_SIZES}{page}", f"{_AKS}configs/nicclusterpolicy/rdma-shared-device-plugin/rdma.yaml"),
        measured=measured,
        note="`rdma/ib`, one for each NIC and without a network, is no form of `attach`",
    )


def _oracle(name: ServerName, accelerators: str, nics: int, link: int, measured: tuple[Measured, ...] = ()) -> Server:
    """Oracle's own Terraform tells the SR-IOV operator; all functions of a node are in one network."""
    return Server(
        name=name,
        title=f"Oracle {name}",
        accelerators=accelerators,
        link=link,
        fabric={
            "type": "roce",
            "attach": "sriov",
            "operator": "none",
            "resource": "nvidia.com/rdma-vf",
            "perNode": nics,
            "rails": "shared",
            "mtu": 4220,
        },
        sources=(ORACLE_SHAPES, f"{_OKE}terraform/files/nvidia-network-operator/sriov-network-node-policy.yaml"),
        topology=_ORACLE_PLACES,
        measured=measured,
        note="with oci-hpc-oke, which makes the policies of the nodes; `addresses` are yours to give",
    )


_A100 = "8 NVIDIA A100"
_H200 = "8 NVIDIA H200"
CLOUD_SERVERS = (
    _amazon("p4d.24xlarge", _A100, 4, 100),
    _amazon("p4de.24xlarge", _A100, 4, 100, (Measured(78, "2 servers, 2 GiB", f"{_AMAZON_RUNS}README.md"),)),
    _amazon(
        "p5.48xlarge",
        "8 NVIDIA H100",
        32,
        100,
        (Measured(479, "2 servers, 8 GiB", f"{_AMAZON_RUNS}README.md"),),
        sockets=(2, "https://github.com/pytorch/ci-infra/issues/696"),
    ),
    _amazon("p5e.48xlarge", _H200, 32, 100),
    _amazon(
        "p5en.48xlarge",
        _H200,
        16,
        200,
        (Measured(369, "16 servers, 16 GiB", f"{_AMAZON_RUNS}slurm/topology-aware-nccl-tests/README.md"),),
    ),
    _amazon("p6-b200.48xlarge", "8 NVIDIA B200", 8, 400),
    Server(
        name="a3-ultragpu-8g",
        title="Google a3-ultragpu-8g",
        accelerators=_H200,
        link=400,
        fabric={"type": "roce", "attach": "dra", "perNode": 8, "deviceClass": "mrdma.google.com"},
        sources=(_DRANET, "https://github.com/GoogleCloudPlatform/cluster-toolkit/releases/tag/v1.44.1"),
        topology=_GOOGLE_PLACES,
        note="by GKE's managed DRANET; the annotation networking.gke.io/interfaces is no form of `attach`",
    ),
    _azure(
        "Standard_ND96asr_v4",
        _A100,
        200,
        "101c",
        "nda100v4-series",
        Measured(187, "2 servers, 8 GiB", f"{_AKS}tests/expected-output.md"),
    ),
    _azure(
        "Standard_ND96isr_H100_v5",
        "8 NVIDIA H100",
        400,
        "101e",
        "ndh100v5-series",
        Measured(450, "8 servers, 16 GiB, with SHARP", _AZURE_BASELINE),
    ),
    _azure("Standard_ND96isr_MI300X_v5", "8 AMD MI300X", 400, "101e", "nd-mi300x-v5-series"),
    _oracle("BM.GPU.A100-v2.8", _A100, 16, 100),
    _oracle("BM.GPU.H100.8", "8 NVIDIA H100", 16, 200),
    _oracle("BM.GPU.H200.8", _H200, 8, 400),
    _oracle("BM.GPU.B200.8", "8 NVIDIA B200", 8, 400),
    _oracle("BM.GPU.MI300X.8", "8 AMD MI300X", 8, 400, (Measured(357, "2 servers, 8 GiB", _ORACLE_RUNS),)),
)
