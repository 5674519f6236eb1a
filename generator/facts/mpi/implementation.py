"""The facts about one MPI implementation that builders and checks need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Changes = Mapping[str, str | None]
"""Environment variable → value; None removes the variable."""

NO_TCP = "^tcp"
"""A value of UCX_TLS: all transports except TCP (ucx src/ucp/core/ucp_context.c: `^` excludes a list)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The parameters with which a launcher starts ranks on the hosts of a job.

    Attributes:
        hostfile: path of the hostfile, in the format of the implementation.
        slots: ranks per host.
        interface: network interface of the pod network, which carries the control traffic.
        binding: `none`, `core`, `numa` or `socket`.
        agents: programs that start each rank, each through the next one; only Open MPI supports them.
        path: PATH of the launcher, with `mpirun` of the adapter first; only Hydra needs it.
    """

    hostfile: str
    slots: int
    interface: str
    binding: str
    agents: Sequence[str] = ()
    path: str = ""


@dataclass(frozen=True, slots=True)
class Mpi:
    """An MPI implementation.

    Each variable of a data path was tried on hosts without the device: ranks then fail instead of using TCP.

    Attributes:
        libraries: file names of the C library, the usual one first.
        rank_variables: variables of a rank with its rank, the number of ranks, and the rank on its host.
        bandwidth_test: a command that measures the bandwidth between two hosts.
        launcher_variables: returns the variables of the launcher for data over TCP on the pod network.
        over_tcp: returns the changed variables for data over TCP on other interfaces.
        over_verbs: the changed variables for data over InfiniBand or RoCE.
        over_efa: the changed variables for data over Amazon's EFA.
    """

    libraries: tuple[str, ...]
    rank_variables: tuple[str, ...]
    bandwidth_test: str
    launcher_variables: Callable[[Launch], Mapping[str, str]]
    over_tcp: Callable[[Sequence[str]], Changes]
    over_verbs: Changes
    over_efa: Changes
