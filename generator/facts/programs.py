"""The programs that the image of a runtime needs (programs.yaml)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from generator.facts.table import read_rows, read_table

Pods = Literal["hosts", "launcher"]
"""The pods in which a container runs: pods with sshd, or the pod with mpirun."""


@dataclass(frozen=True, slots=True)
class Software:
    """Programs that one package or product has; programs.yaml explains the fields."""

    software: str
    programs: tuple[str, ...]
    pods: Literal["all", "hosts", "launcher"]
    mpi: str = ""
    lock: bool = False
    openssh: bool = False

    def is_in(self, pods: Pods) -> bool:
        """Return True if these pods run the programs."""
        return self.pods in ("all", pods)


def needed_software(mpi: str, pods: Pods, *, locks_memory: bool) -> Iterator[Software]:
    """Yield the software that an image needs.

    Args:
        mpi: the MPI implementation of the runtime.
        pods: the pods that run the image.
        locks_memory: True if ranks get the capability to lock memory.
    """
    for row in read_rows("programs", "programs", Software):
        if row.is_in(pods) and row.mpi in ("", mpi) and (locks_memory or not row.lock):
            yield row


def mpi_folders() -> tuple[str, ...]:
    """Return patterns of folders in which an MPI may be, beside the folders of PATH."""
    folders: list[Any] = read_table("programs")["folders"]
    return tuple(folders)


def shell() -> str:
    """Return the path of the shell that runs all scripts of the pods."""
    return str(read_table("programs")["shell"])
