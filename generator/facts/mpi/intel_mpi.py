"""Intel MPI 2021, which starts ranks by Hydra and sends data by libfabric.

Hydra reads a hostfile of lines `HOST:N`. Run with Intel MPI 2021.19. Sources: Intel MPI Library, "OFI-capable Network
Fabrics Control"; libfabric src/fabric.c (FI_PROVIDER filters core providers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from generator.facts import env
from generator.facts.mpi.implementation import NO_TCP, Changes, Launch, Mpi


def _launcher_variables(launch: Launch) -> Mapping[str, str]:
    pinning = {"I_MPI_PIN": "0"} if launch.binding == "none" else {"I_MPI_PIN": "1", "I_MPI_PIN_DOMAIN": launch.binding}
    return {
        "PATH": launch.path,
        env.I_MPI_HYDRA_HOST_FILE: launch.hostfile,
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        env.I_MPI_HYDRA_IFACE: launch.interface,
        env.I_MPI_FABRICS: "shm:ofi",
        env.FI_PROVIDER: "tcp",
        env.FI_TCP_IFACE: launch.interface,
        **pinning,
    }


def _over_tcp(interfaces: Sequence[str]) -> Changes:
    return {env.FI_TCP_IFACE: interfaces[0]}  # libfabric accepts one interface


INTEL_MPI = Mpi(
    libraries=("libmpi.so.12",),
    rank_variables=("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    bandwidth_test="mpirun -ppn 1 -n 2 IMB-MPI1 PingPong",
    launcher_variables=_launcher_variables,
    over_tcp=_over_tcp,
    # The provider for UCX: unlike `verbs` it needs no address on the fabric.
    over_verbs={env.FI_PROVIDER: "mlx", env.UCX_TLS: NO_TCP},
    over_efa={env.FI_PROVIDER: "efa"},
)
