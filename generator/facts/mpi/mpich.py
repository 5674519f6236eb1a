"""MPICH 4 and 5, which start ranks by Hydra and are built for UCX, for libfabric, or for both.

Hydra reads a hostfile of lines `HOST:N`. Run with MPICH 5.0.2 (UCX 1.20.1). Source: mpich
src/mpid/ch4/netmod/ofi/init_provider.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from generator.facts import env
from generator.facts.mpi.implementation import NO_TCP, Changes, Launch, Mpi


def _launcher_variables(launch: Launch) -> Mapping[str, str]:
    return {
        "PATH": launch.path,
        env.HYDRA_HOST_FILE: launch.hostfile,
        "HYDRA_LAUNCHER": "ssh",
        # Every host has the environment already. Hydra would overwrite the variables that belong to a host.
        "HYDRA_ENV": "none",
        env.HYDRA_IFACE: launch.interface,
        "HYDRA_BINDING": launch.binding,
        env.UCX_NET_DEVICES: launch.interface,
        env.FI_TCP_IFACE: launch.interface,
    }


def _over_tcp(interfaces: Sequence[str]) -> Changes:
    return {env.UCX_NET_DEVICES: ",".join(interfaces), env.FI_TCP_IFACE: interfaces[0]}


MPICH = Mpi(
    libraries=("libmpi.so.12", "libmpich.so.12"),  # the second is the name in Debian
    rank_variables=("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    bandwidth_test="mpirun -ppn 1 -n 2 osu_bw",
    launcher_variables=_launcher_variables,
    over_tcp=_over_tcp,
    over_verbs={env.UCX_NET_DEVICES: None, env.UCX_TLS: NO_TCP, env.FI_PROVIDER: "verbs"},
    # UCX does not support EFA, but an MPICH that is built for both prefers UCX.
    over_efa={env.MPIR_CVAR_CH4_NETMOD: "ofi", env.UCX_TLS: NO_TCP, env.FI_PROVIDER: "efa"},
)
