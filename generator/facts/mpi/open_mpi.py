"""Open MPI 4 and 5.

The launcher of Open MPI 4 reads `OMPI_MCA_*`. Open MPI 5 leaves starting ranks to PRRTE, which reads `PRTE_MCA_*`. Both
read the hostfile that Trainer writes (`HOST slots=N`). Trainer sets variables only for Open MPI 4: without the others,
Open MPI 5 runs every rank on the launcher and succeeds (kubeflow/trainer#4028, PR #4029).

Run with Open MPI 4.1.4 (UCX 1.13.1) and 5.0.11. Source: ompi opal/mca/common/ucx/common_ucx.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from generator.facts import env
from generator.facts.mpi.implementation import NO_TCP, Changes, Launch, Mpi


def _launcher_variables(launch: Launch) -> Mapping[str, str]:
    agents = " ".join(launch.agents)  # each agent starts the next, and the last one starts the rank
    return {
        env.PRTE_MCA_prte_default_hostfile: launch.hostfile,
        env.PRTE_MCA_prte_keep_fqdn_hostnames: "false",
        env.PRTE_MCA_prte_set_default_slots: str(launch.slots),
        env.OMPI_MCA_oob_tcp_if_include: launch.interface,
        env.OMPI_MCA_btl_tcp_if_include: launch.interface,
        env.PRTE_MCA_prte_if_include: launch.interface,
        env.UCX_NET_DEVICES: launch.interface,
        "OMPI_MCA_hwloc_base_binding_policy": launch.binding,
        "PRTE_MCA_hwloc_default_binding_policy": "package" if launch.binding == "socket" else launch.binding,
        **({"OMPI_MCA_orte_fork_agent": agents, "PRTE_MCA_odls_base_exec_agent": agents} if agents else {}),
    }


def _over_tcp(interfaces: Sequence[str]) -> Changes:
    return dict.fromkeys((env.OMPI_MCA_btl_tcp_if_include, env.UCX_NET_DEVICES), ",".join(interfaces))


OPEN_MPI = Mpi(
    libraries=("libmpi.so.40",),
    rank_variables=("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    bandwidth_test="mpirun --map-by ppr:1:node -np 2 osu_bw",
    launcher_variables=_launcher_variables,
    over_tcp=_over_tcp,
    over_verbs={env.UCX_NET_DEVICES: None, env.OMPI_MCA_pml: "ucx", env.UCX_TLS: NO_TCP},
    over_efa={env.OMPI_MCA_pml: "cm", env.FI_PROVIDER: "efa"},
)
