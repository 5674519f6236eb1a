"""The environment of a launcher: how `mpirun` finds the hosts, and what it hands to the ranks.

ssh carries all of it to every rank, so nobody needs `mpirun -x`. Names were tried with Open MPI 4.1.4 and 5.0.11,
MPICH 5.0.2 and Intel MPI 2021.19.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from generator.config.model.fabrics import Fabric
from generator.config.model.runtimes import HOME, Runtime
from generator.facts.devices import DeviceKind
from generator.runtimes import adapter
from generator.runtimes.data_paths import over_fabric
from generator.runtimes.fabric import interfaces
from generator.runtimes.sizing import NodeSize

Environment = dict[str, str]


def environment(runtime: Runtime, size: NodeSize, device: DeviceKind, fabric: Fabric | None = None) -> Environment:
    """The variables of the launcher: those of a fabric replace the ones of TCP, what the platform file says comes last.

    Args:
        runtime: as declared.
        size: of a host.
        device: that runs ranks.
        fabric: what they send their data over; None for the pod network.
    """
    found: dict[str, str | None] = {
        "HOME": HOME,
        **_MPI[runtime.family.mpi](runtime, size),
        "OMP_NUM_THREADS": str(size.threads),
        **_framework(runtime, device),
    }
    if fabric:
        found |= over_fabric(runtime, device, fabric, interfaces(fabric, size.resources))
    return {name: value for name, value in found.items() if value is not None} | runtime.environment


def _open_mpi(runtime: Runtime, size: NodeSize) -> Environment:
    """Twins for Open MPI 4 (`OMPI_MCA_orte_*`, set by Trainer) and 5, which does not read them.

    Without them Open MPI 5 runs every rank on the launcher and succeeds (kubeflow/trainer#4028, PR #4029).
    """
    interface, binding = runtime.interface, runtime.binding
    agents = [
        *([adapter.RANK] if runtime.family.rank_variables else []),
        *([adapter.LOCK] if runtime.locks_memory else []),
    ]
    through = " ".join(agents)  # each starts the next, and the last of them the rank
    ranks = {"OMPI_MCA_orte_fork_agent": through, "PRTE_MCA_odls_base_exec_agent": through} if agents else {}
    return {
        "PRTE_MCA_prte_default_hostfile": adapter.HOSTFILE,
        "PRTE_MCA_prte_keep_fqdn_hostnames": "false",
        "PRTE_MCA_prte_set_default_slots": str(size.slots),
        "OMPI_MCA_oob_tcp_if_include": interface,
        "OMPI_MCA_btl_tcp_if_include": interface,
        "PRTE_MCA_prte_if_include": interface,
        "UCX_NET_DEVICES": interface,
        "OMPI_MCA_hwloc_base_binding_policy": binding,
        "PRTE_MCA_hwloc_default_binding_policy": "package" if binding == "socket" else binding,
        **ranks,
        # MPI only carries the control traffic here: libraries of images would look for InfiniBand and find net1.
        **({} if runtime.family.framework == "mpi" else {"OMPI_MCA_pml": "ob1"}),
    }


def _intel_mpi(runtime: Runtime, _size: NodeSize) -> Environment:
    pinning = {"I_MPI_PIN": "0"}
    if runtime.binding != "none":
        pinning = {"I_MPI_PIN": "1", "I_MPI_PIN_DOMAIN": runtime.binding}
    return {
        "PATH": adapter.PATH,
        "I_MPI_HYDRA_HOST_FILE": adapter.HYDRA_HOSTFILE,
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_IFACE": runtime.interface,
        "I_MPI_FABRICS": "shm:ofi",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": runtime.interface,
        **pinning,
    }


def _mpich(runtime: Runtime, _size: NodeSize) -> Environment:
    return {
        "PATH": adapter.PATH,
        "HYDRA_HOST_FILE": adapter.HYDRA_HOSTFILE,
        "HYDRA_LAUNCHER": "ssh",
        # Every host has the environment already. Hydra would overwrite there what belongs to the host.
        "HYDRA_ENV": "none",
        "HYDRA_IFACE": runtime.interface,
        "HYDRA_BINDING": runtime.binding,
        "UCX_NET_DEVICES": runtime.interface,
        "FI_TCP_IFACE": runtime.interface,
    }


def _framework(runtime: Runtime, device: str) -> Environment:
    """Where the collective libraries meet (they would take the first interface that they see), and what they use."""
    family, interface = runtime.family, runtime.interface
    if family.framework == "mpi":
        return {}
    found = {"GLOO_SOCKET_IFNAME": interface}
    match device:
        case "cpu" if family.name == "deepspeed":
            found["DS_ACCELERATOR"] = "cpu"
        case "nvidia" | "nvidia-mig" | "amd":
            found["NCCL_SOCKET_IFNAME"] = f"={interface}"  # exactly this one; RCCL reads it too
            if family.name == "megatron":
                # NVIDIA/Megatron-LM 000c4ac megatron/training/arguments.py validate_args: before Blackwell (compute
                # capability 10; torch reports 9 for MI300X) tensor or context parallelism fails with any other value.
                # FSDP needs a larger one, which `environment` or a TrainJob sets.
                found["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
        case "gaudi":
            found["HCCL_SOCKET_IFNAME"] = interface
        case "intel":
            found |= {
                "CCL_ATL_TRANSPORT": "ofi",
                "CCL_PROCESS_LAUNCHER": "none",
                "CCL_KVS_IFACE": interface,
                "FI_PROVIDER": "tcp",
                "FI_TCP_IFACE": interface,
            }
    return found


_MPI: Mapping[str, Callable[[Runtime, NodeSize], Environment]] = {
    "openmpi": _open_mpi,
    "intel-mpi": _intel_mpi,
    "mpich": _mpich,
}
