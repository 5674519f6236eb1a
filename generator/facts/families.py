"""The MPI families: their MPI, the devices that they run on, and the content of their image (families.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from generator.facts.devices import DeviceKind
from generator.facts.table import read_table

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
    """A way to train with MPI.

    Attributes:
        name: the value of `use`.
        title: the name for people.
        mpi: the implementation that starts the ranks.
        framework: the value of the label `trainer.kubeflow.org/framework`, which the SDK shows.
        devices: the kinds of device that it runs on.
        image: the required content of its image, in addition to a shell and OpenSSH.
        command: an example of the command of a TrainJob.
        default_image: the default on CPU pools; empty if there is no public image.
        cpu_ranks: ranks on a CPU node; 0 for one on each whole CPU.
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
    default_image: str
    cpu_ranks: int
    rank_variables: bool
    not_on: Mapping[DeviceKind, str]
    unproven: Mapping[DeviceKind, str]


def _family(row: Mapping[str, Any]) -> Family:
    return Family(
        name=row["name"],
        title=row["title"],
        mpi=row["mpi"],
        framework=row["framework"],
        devices=tuple(row["devices"]),
        image=row["image"],
        command=tuple(row["command"]),
        default_image=row.get("defaultImage", ""),
        cpu_ranks=row.get("cpuRanks", 0),
        rank_variables=row.get("rankVariables", False),
        not_on=row.get("notOn", {}),
        unproven=row.get("unproven", {}),
    )


FAMILIES: Mapping[str, Family] = {row["name"]: _family(row) for row in read_table("families")["families"]}
"""Name → family."""
