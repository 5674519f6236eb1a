"""The server types that a fabric can name. PCI device ids: sriov-network-operator 249e200 deploy/configmap.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from generator.facts.names import GPU_CLIQUE

ServerName = Literal[
    "dgx-a100",
    "hgx-h100",
    "hgx-h200",
    "hgx-b200",
    "hgx-spectrum-x",
    "gb200-nvl72",
    "p4d.24xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
    "p5e.48xlarge",
    "p5en.48xlarge",
    "p6-b200.48xlarge",
    "a3-ultragpu-8g",
    "Standard_ND96asr_v4",
    "Standard_ND96isr_H100_v5",
    "Standard_ND96isr_MI300X_v5",
    "BM.GPU.A100-v2.8",
    "BM.GPU.H100.8",
    "BM.GPU.H200.8",
    "BM.GPU.B200.8",
    "BM.GPU.MI300X.8",
]
Architecture = Literal["amd64", "arm64"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What somebody saw on such servers, and published.

    Attributes:
        gigabytes: bus bandwidth of an allreduce in GB/s, as `all_reduce_perf` prints it.
        how: on how many servers, and with messages of which size.
        source: where it stands.
    """

    gigabytes: int
    how: str
    source: str


@dataclass(frozen=True, slots=True)
class Server:
    """One type of server.

    Attributes:
        name: what `server` says; of clouds what they call it themselves, the label node.kubernetes.io/instance-type.
        title: for people.
        accelerators: how many of which.
        link: Gbit/s of each NIC of the fabric.
        fabric: what a fabric of such servers is unless it says otherwise: field of `fabrics` → value.
        sources: where all of it is laid down.
        architecture: of its CPUs, as the label kubernetes.io/arch has it.
        topology: labels that say where a node is in the fabric, from the widest place to the narrowest.
        measured: what others saw on it.
        sockets: CPU sockets, over which the accelerators are evenly spread; None if no source says so.
        note: what is not obvious.
    """

    name: ServerName
    title: str
    accelerators: str
    link: int
    fabric: Mapping[str, Any]
    sources: tuple[str, ...]
    architecture: Architecture = "amd64"
    topology: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()
    note: str = ""
    sockets: int | None = None

    @property
    def line_rate(self) -> int:
        """Gbit/s of all NICs of one node."""
        return self.link * int(self.fabric["perNode"])


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
