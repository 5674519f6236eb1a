"""The MPI families: their MPI, the devices that they run on, and the content of their image (families.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from generator.facts.devices import DeviceKind
from generator.facts.table import read_rows

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


@dataclass(frozen=True, slots=True)
class Family:
    """An MPI family: a way to train with MPI.

    Attributes:
        name: the value of `use`.
        framework: the value of the label `trainer.kubeflow.org/framework`, which the SDK shows.
        image: the required content of its image, in addition to a shell and OpenSSH.
        command: an example of the command of a TrainJob.
        limits: known limits, as sentences.
        default_image: the default on CPU pools; empty if there is no public image.
        cpu_ranks: ranks on a CPU node; 0 for one rank per whole CPU.
        rank_variables: True if ranks get RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR, as PyTorch reads them.
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
    limits: tuple[str, ...]
    default_image: str = ""
    cpu_ranks: int = 0
    rank_variables: bool = False
    not_on: Mapping[DeviceKind, str] = field(default_factory=dict)
    unproven: Mapping[DeviceKind, str] = field(default_factory=dict)


FAMILIES: Mapping[str, Family] = {family.name: family for family in read_rows("families", "families", Family)}
"""Name → family."""
