"""The MPI implementations, and the families of runtimes, such as `deepspeed` (families.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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


@dataclass(frozen=True, slots=True)
class Mpi:
    """An MPI implementation; families.yaml explains the fields."""

    name: str
    libraries: tuple[str, ...]
    rank_variables: tuple[str, ...]
    daemons: str
    bandwidth_test: str


@dataclass(frozen=True, slots=True)
class Family:
    """An MPI family: a framework and an MPI implementation, for which mpigen generates runtimes.

    Attributes:
        name: the value of `use` of a runtime in the platform file.
        framework: the framework that starts ranks, such as `torch`; `mpi` for a program without a framework.
        image: the software that the image must contain, in addition to a shell and OpenSSH.
        command: an example of the command of a TrainJob.
        limits: known limits of the family, as sentences.
        default_image: the default image on CPU pools; empty if there is no public image.
        cpu_ranks: number of ranks on a CPU node; 0 for one rank per whole CPU.
        rank_variables: True if ranks get RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR, as PyTorch reads them.
        devices: kinds of devices of mpigen, and names of device types of the platform file.
        not_on: device → why the family does not run on it.
        unproven: device → why no source or test shows if the family runs on it.
        like: the family of mpigen that a family of the platform file resembles; empty for a family of mpigen.
        label: the value of the label `trainer.kubeflow.org/framework`, if it differs from `framework`.
        own_image: the default image on all devices, for a family of the platform file.
        environment: variables of all ranks, for a family of the platform file.
    """

    name: str
    title: str
    mpi: str
    framework: str
    devices: tuple[str, ...]
    image: str
    command: tuple[str, ...]
    limits: tuple[str, ...]
    default_image: str = ""
    cpu_ranks: int = 0
    rank_variables: bool = False
    not_on: Mapping[str, str] = field(default_factory=dict)
    unproven: Mapping[str, str] = field(default_factory=dict)
    like: str = ""
    label: str = ""
    own_image: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def original(self) -> str:
        """Return the family of mpigen to which the tables of mpigen and its test programs refer."""
        return self.like or self.name

    @property
    def default_image_devices(self) -> tuple[str, ...]:
        """Return the devices of pools on which the default image runs; none without a default image."""
        if self.own_image:
            return self.devices
        return ("cpu",) if self.default_image else ()

    @property
    def framework_label(self) -> str:
        """Return the value of the label `trainer.kubeflow.org/framework`, which the Kubeflow SDK shows."""
        return self.label or self.framework


MPI: Mapping[str, Mpi] = {mpi.name: mpi for mpi in read_rows("families", "mpi", Mpi)}
"""Name → MPI implementation."""
FAMILIES: Mapping[str, Family] = {family.name: family for family in read_rows("families", "families", Family)}
"""Name → family."""
