"""The environment of a launcher: how `mpirun` finds the hosts, over which network ranks send, and what ranks read.

ssh carries the whole environment to every rank, so no command needs `mpirun -x`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from generator.config.model.fabrics import Fabric
from generator.config.model.runtimes import HOME, Runtime
from generator.facts import env
from generator.facts.devices import DeviceKind
from generator.runtimes import init_containers
from generator.runtimes.fabric import interfaces
from generator.runtimes.sizing import NodeSize

Changes = dict[str, str | None]
"""Variable → value; None leaves it out."""

_NCCL: tuple[DeviceKind, ...] = ("nvidia", "nvidia-mig", "amd")  # RCCL reads the same
_NO_TCP = "^tcp"  # all other transports of UCX: shared memory, those of the fabric, memory of devices


def over_fabric(runtime: Runtime, device: DeviceKind, fabric: Fabric, interfaces: Sequence[str]) -> Changes:
    """What replaces the variables of TCP on the pod network.

    Args:
        runtime: as declared.
        device: that runs ranks.
        fabric: what they send their data over.
        interfaces: of it, in the pods.
    """
    family = runtime.family
    # Horovod leaves what is not on GPUs to MPI, which for all other frameworks is how ranks are started.
    if family.framework == "mpi" or (family.framework == "horovod" and device == "cpu"):
        return _mpi(runtime, device, fabric, interfaces)
    if device in _NCCL:
        return _nccl(fabric, interfaces)
    if device == "intel":
        return _one_ccl(fabric, interfaces)
    if device == "cpu" and not fabric.has_rdma:
        return {env.GLOO_SOCKET_IFNAME: ",".join(interfaces)}
    return {}


def _mpi(runtime: Runtime, device: DeviceKind, fabric: Fabric, interfaces: Sequence[str]) -> Changes:
    if not fabric.has_rdma:
        return _mpi_by_tcp(runtime, interfaces)
    changes = _mpi_by_efa(runtime) if fabric.type == "efa" else _mpi_by_verbs(runtime)
    if fabric.fallback:
        changes = dict.fromkeys(changes.keys() & {env.UCX_NET_DEVICES, env.FI_PROVIDER})
    if device != "cpu" and not fabric.gpu_direct:
        changes["UCX_IB_GPU_DIRECT_RDMA"] = "no"  # ucx src/uct/ib/base/ib_md.c
    return changes


def _mpi_by_verbs(runtime: Runtime) -> Changes:
    match runtime.family.mpi:
        case "openmpi":
            return {env.UCX_NET_DEVICES: None, env.OMPI_MCA_pml: "ucx", env.UCX_TLS: _NO_TCP}
        case "intel-mpi":
            # Its provider for UCX: unlike `verbs` it needs no address on the fabric.
            return {env.FI_PROVIDER: "mlx", env.UCX_TLS: _NO_TCP}
        case "mpich":  # is built for UCX, libfabric, or both
            return {env.UCX_NET_DEVICES: None, env.UCX_TLS: _NO_TCP, env.FI_PROVIDER: "verbs"}


def _mpi_by_efa(runtime: Runtime) -> Changes:
    match runtime.family.mpi:
        case "openmpi":
            return {env.OMPI_MCA_pml: "cm", env.FI_PROVIDER: "efa"}
        case "intel-mpi":
            return {env.FI_PROVIDER: "efa"}
        case "mpich":  # UCX has nothing for EFA, but is what it takes first where it was built for both
            return {env.MPIR_CVAR_CH4_NETMOD: "ofi", env.UCX_TLS: _NO_TCP, env.FI_PROVIDER: "efa"}


def _mpi_by_tcp(runtime: Runtime, interfaces: Sequence[str]) -> Changes:
    match runtime.family.mpi:
        case "openmpi":
            return dict.fromkeys((env.OMPI_MCA_btl_tcp_if_include, env.UCX_NET_DEVICES), ",".join(interfaces))
        case "intel-mpi":
            return {env.FI_TCP_IFACE: interfaces[0]}  # libfabric takes one
        case "mpich":
            return {env.UCX_NET_DEVICES: ",".join(interfaces), env.FI_TCP_IFACE: interfaces[0]}


def _nccl(fabric: Fabric, interfaces: Sequence[str]) -> Changes:
    if not fabric.has_rdma:
        # It meets where it sends: there is one variable for both.
        return {env.NCCL_NET: "Socket", env.NCCL_SOCKET_IFNAME: f"={','.join(interfaces)}"}
    direct: Changes = {} if fabric.gpu_direct else {"NCCL_NET_GDR_LEVEL": "LOC"}
    if fabric.fallback:
        return direct
    if fabric.type == "efa":  # libfabric has a provider for TCP too
        return {env.NCCL_NET: "AWS Libfabric", env.FI_PROVIDER: "efa", **direct}
    return {env.NCCL_NET: "IB", **direct}


def _one_ccl(fabric: Fabric, interfaces: Sequence[str]) -> Changes:
    if not fabric.has_rdma:
        return {env.FI_TCP_IFACE: interfaces[0]}
    if fabric.fallback:
        return {env.FI_PROVIDER: None}
    return {env.FI_PROVIDER: "efa"} if fabric.type == "efa" else {env.FI_PROVIDER: "mlx", env.UCX_TLS: _NO_TCP}


Environment = dict[str, str]


def launcher_environment(
    runtime: Runtime, size: NodeSize, device: DeviceKind, fabric: Fabric | None = None
) -> Environment:
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
        *([init_containers.RANK] if runtime.family.rank_variables else []),
        *([init_containers.LOCK] if runtime.locks_memory else []),
    ]
    through = " ".join(agents)  # each starts the next, and the last of them the rank
    ranks = {"OMPI_MCA_orte_fork_agent": through, "PRTE_MCA_odls_base_exec_agent": through} if agents else {}
    return {
        "PRTE_MCA_prte_default_hostfile": init_containers.HOSTFILE,
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
        "PATH": init_containers.PATH,
        "I_MPI_HYDRA_HOST_FILE": init_containers.HYDRA_HOSTFILE,
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_IFACE": runtime.interface,
        "I_MPI_FABRICS": "shm:ofi",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": runtime.interface,
        **pinning,
    }


def _mpich(runtime: Runtime, _size: NodeSize) -> Environment:
    return {
        "PATH": init_containers.PATH,
        "HYDRA_HOST_FILE": init_containers.HYDRA_HOSTFILE,
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
