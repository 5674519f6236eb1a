"""The MPI families: their MPI, the devices that they run on, and the content of their image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from generator.facts.devices import DeviceKind

FamilyName = Literal[
    "openmpi",
    "intel-mpi",
    "mpich",
    "horovod-pytorch",
    "horovod-tensorflow",
    "deepspeed",
    "pytorch-mpi",
    "megatron",
]
Mpi = Literal["openmpi", "intel-mpi", "mpich"]

_ALL: tuple[DeviceKind, ...] = ("cpu", "nvidia", "nvidia-mig", "amd", "intel", "gaudi")
_OPEN_MPI = "Open MPI 4.1 or 5"
_HOROVOD_NOT_ON: Mapping[DeviceKind, str] = {
    "amd": "Horovod 0.28.1, the last, does not build with ROCm 6",
    "intel": "Intel's fork of Horovod ended with TensorFlow 2.15",
    "gaudi": "Gaudi's fork of Horovod ended with its TensorFlow",
}
# NVIDIA/nccl issue 1716 (2026-08-23): MIG is experimental, with limited tests. Without P2P data goes by shared memory
# within a host, and by NIC beyond it.
_NCCL_UNPROVEN: Mapping[DeviceKind, str] = {
    "nvidia-mig": "NVIDIA calls NCCL on MIG slices experimental, and it has not been run here"
}


@dataclass(frozen=True, slots=True)
class Family:
    """One way to train with MPI.

    Attributes:
        name: what `use` says.
        title: for people.
        mpi: the implementation that starts the ranks.
        framework: the value of the label `trainer.kubeflow.org/framework`, which the SDK shows.
        devices: what it runs on.
        image: what its image must contain, beside a shell and OpenSSH.
        default_image: on CPU pools; empty when there is no public one.
        cpu_ranks: ranks on a CPU node; 0 for one on each whole CPU.
        rank_variables: whether ranks get RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR, as PyTorch reads them.
        command: an example of what a TrainJob runs.
        not_on: device → why the family does not run on it.
        unproven: device → why it is unknown whether the family runs on it.
    """

    name: FamilyName
    title: str
    mpi: Mpi
    framework: str
    devices: tuple[DeviceKind, ...]
    image: str
    command: tuple[str, ...]
    default_image: str = ""
    cpu_ranks: int = 0
    rank_variables: bool = False
    not_on: Mapping[DeviceKind, str] = field(default_factory=dict)
    unproven: Mapping[DeviceKind, str] = field(default_factory=dict)


# Sources: Open MPI 4.1.4, 5.0.11, MPICH 5.0.2 and Intel MPI 2021.19 were run; horovod 0.28.1 CMakeLists.txt, issues
# #3996 and #4290; deepspeed 0.19.8 accelerator/real_accelerator.py; megatron-core 0.16.1 arguments.py; rocm/primus.
FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="openmpi",
            title="Open MPI",
            mpi="openmpi",
            framework="mpi",
            devices=_ALL,
            image=_OPEN_MPI,
            command=("mpirun", "./my-program"),
            # Debian's Open MPI on the image that Trainer's own take their sshd set-up from (mpi-operator build/base).
            default_image="docker.io/mpioperator/openmpi:v0.8.2",
        ),
        Family(
            name="intel-mpi",
            title="Intel MPI",
            mpi="intel-mpi",
            framework="mpi",
            devices=("cpu", "intel"),
            image="Intel MPI 2021",
            command=("mpirun", "./my-program"),
            not_on={"amd": "Intel MPI cannot read the memory of AMD GPUs"},
        ),
        Family(
            name="mpich",
            title="MPICH",
            mpi="mpich",
            framework="mpi",
            devices=("cpu", "nvidia", "nvidia-mig", "amd", "intel"),
            image="MPICH 4 or 5",
            command=("mpirun", "./my-program"),
        ),
        Family(
            name="horovod-pytorch",
            title="Horovod with PyTorch",
            mpi="openmpi",
            framework="horovod",
            devices=("cpu", "nvidia", "nvidia-mig"),
            not_on=_HOROVOD_NOT_ON,
            image=f"Horovod built with MPI and PyTorch, {_OPEN_MPI}",
            cpu_ranks=1,
            command=("mpirun", "python", "train.py"),
            unproven=_NCCL_UNPROVEN,
        ),
        Family(
            name="horovod-tensorflow",
            title="Horovod with TensorFlow",
            mpi="openmpi",
            framework="horovod",
            devices=("cpu", "nvidia", "nvidia-mig"),
            not_on=_HOROVOD_NOT_ON,
            image=f"Horovod built with MPI and TensorFlow, {_OPEN_MPI}",
            cpu_ranks=1,
            command=("mpirun", "python", "train.py"),
            unproven=_NCCL_UNPROVEN,
        ),
        Family(
            name="deepspeed",
            title="DeepSpeed",
            mpi="openmpi",
            framework="deepspeed",
            devices=_ALL,
            image=f"PyTorch, DeepSpeed, {_OPEN_MPI}",
            cpu_ranks=1,
            command=("mpirun", "python", "train.py", "--deepspeed"),
            rank_variables=True,
            unproven=_NCCL_UNPROVEN,
        ),
        Family(
            name="pytorch-mpi",
            title="PyTorch DDP, ranks started by MPI",
            mpi="openmpi",
            framework="torch",
            devices=_ALL,
            image=f"PyTorch, {_OPEN_MPI}",
            cpu_ranks=1,
            command=("mpirun", "python", "train.py"),
            rank_variables=True,
            unproven=_NCCL_UNPROVEN,
        ),
        Family(
            name="megatron",
            title="Megatron: tensor, pipeline and data parallel",
            mpi="openmpi",
            framework="megatron",
            devices=("nvidia", "amd"),
            image=f"Megatron-LM or Megatron Core, PyTorch, {_OPEN_MPI}",
            command=("mpirun", "python", "pretrain_gpt.py", "--tensor-model-parallel-size", "8"),
            rank_variables=True,
            not_on={
                "cpu": "Megatron needs GPUs",
                "nvidia-mig": "slices of a GPU cannot reach each other, which tensor parallelism is about",
                "intel": "Megatron Core runs on CUDA and ROCm only",
                "gaudi": "Megatron Core runs on CUDA and ROCm only",
            },
        ),
    )
}
