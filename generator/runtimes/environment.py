"""The environment of a launcher: how `mpirun` finds the hosts, over which network ranks send, and what ranks read.

ssh carries the whole environment to every rank, so no command needs `mpirun -x`. The facts about each MPI are in
facts/mpi. Sources about collective libraries: nccl src/plugin/net.cc (NCCL_NET is the name of a network; IB and Socket
are its own) and docs/userguide/source/env.rst; aws-ofi-nccl src/nccl_ofi_interface_nvidia.cpp (every release has the
name `AWS Libfabric` if NCCL_NET is set to it).
"""

from __future__ import annotations

from collections.abc import Sequence

from generator.config.model.fabrics import Fabric
from generator.config.model.runtimes import HOME, Runtime
from generator.facts import env
from generator.facts.devices import DeviceKind
from generator.facts.mpi import MPI
from generator.facts.mpi.implementation import NO_TCP, Changes, Launch
from generator.runtimes.hosts import NodeSize, fabric_interfaces
from generator.runtimes.init_containers import HOSTFILE, HYDRA_HOSTFILE, LOCK, PATH, RANK

_NCCL: tuple[DeviceKind, ...] = ("nvidia", "nvidia-mig", "amd")  # RCCL reads the variables of NCCL


def launcher_environment(
    runtime: Runtime, size: NodeSize, device: DeviceKind, fabric: Fabric | None = None
) -> dict[str, str]:
    """Return the variables of the launcher: the defaults for TCP, overridden by a fabric and by the platform file."""
    family = runtime.family
    variables: dict[str, str | None] = {
        "HOME": HOME,
        **MPI[family.mpi].launcher_variables(_launch(runtime, size)),
        # MPI carries only control traffic here, and libraries of images would look for InfiniBand and find net1.
        **({env.OMPI_MCA_pml: "ob1"} if family.mpi == "openmpi" and family.framework != "mpi" else {}),
        "OMP_NUM_THREADS": str(size.threads),
        **_framework(runtime, device),
    }
    if fabric:
        variables |= _over_fabric(runtime, device, fabric, fabric_interfaces(fabric, size.resources))
    return {name: value for name, value in variables.items() if value is not None} | runtime.environment


def _launch(runtime: Runtime, size: NodeSize) -> Launch:
    is_hydra = runtime.family.mpi != "openmpi"
    agents = ((RANK, bool(runtime.family.rank_variables)), (LOCK, runtime.locks_memory))
    return Launch(
        hostfile=HYDRA_HOSTFILE if is_hydra else HOSTFILE,
        slots=size.slots,
        interface=runtime.interface,
        binding=runtime.binding,
        agents=[agent for agent, is_needed in agents if is_needed],
        path=PATH,
    )


def _framework(runtime: Runtime, device: DeviceKind) -> dict[str, str]:
    """Return the variables with the interface of collective libraries, which otherwise take the first interface."""
    family, interface = runtime.family, runtime.interface
    if family.framework == "mpi":
        return {}
    variables = {env.GLOO_SOCKET_IFNAME: interface}
    match device:
        case "cpu" if family.name == "deepspeed":
            variables["DS_ACCELERATOR"] = "cpu"
        case "nvidia" | "nvidia-mig" | "amd":
            variables[env.NCCL_SOCKET_IFNAME] = f"={interface}"  # `=`: exactly this interface
            if family.name == "megatron":
                # NVIDIA/Megatron-LM 000c4ac megatron/training/arguments.py validate_args: before Blackwell (compute
                # capability 10; torch reports 9 for MI300X) tensor or context parallelism fails with any other value.
                # FSDP needs a larger one, which `environment` or a TrainJob sets.
                variables["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
        case "gaudi":
            variables["HCCL_SOCKET_IFNAME"] = interface
        case "intel":
            variables |= {
                env.CCL_ATL_TRANSPORT: "ofi",
                "CCL_PROCESS_LAUNCHER": "none",
                "CCL_KVS_IFACE": interface,
                env.FI_PROVIDER: "tcp",
                env.FI_TCP_IFACE: interface,
            }
    return variables


def _over_fabric(runtime: Runtime, device: DeviceKind, fabric: Fabric, names: Sequence[str]) -> Changes:
    """Return the changes that send the data of ranks over a fabric.

    Control traffic stays on the pod network. Without these variables the libraries fall back to TCP silently.
    """
    family = runtime.family
    # Horovod sends by MPI on CPUs. All other frameworks use MPI only to start ranks.
    if family.framework == "mpi" or (family.framework == "horovod" and device == "cpu"):
        return _mpi(runtime, device, fabric, names)
    if device in _NCCL:
        return _nccl(fabric, names)
    if device == "intel":
        return _one_ccl(fabric, names)
    if device == "cpu" and not fabric.has_rdma:
        return {env.GLOO_SOCKET_IFNAME: ",".join(names)}
    return {}


def _mpi(runtime: Runtime, device: DeviceKind, fabric: Fabric, names: Sequence[str]) -> Changes:
    mpi = MPI[runtime.family.mpi]
    if not fabric.has_rdma:
        return mpi.over_tcp(names)
    changes = dict(mpi.over_efa if fabric.type == "efa" else mpi.over_verbs)
    if fabric.fallback:  # remove the restriction to TCP and force nothing
        changes = dict.fromkeys(changes.keys() & {env.UCX_NET_DEVICES, env.FI_PROVIDER})
    if device != "cpu" and not fabric.gpu_direct:
        changes["UCX_IB_GPU_DIRECT_RDMA"] = "no"  # ucx src/uct/ib/base/ib_md.c
    return changes


def _nccl(fabric: Fabric, names: Sequence[str]) -> Changes:
    if not fabric.has_rdma:  # one variable sets the interface both for meeting and for data
        return {env.NCCL_NET: "Socket", env.NCCL_SOCKET_IFNAME: f"={','.join(names)}"}
    direct: Changes = {} if fabric.gpu_direct else {"NCCL_NET_GDR_LEVEL": "LOC"}
    if fabric.fallback:
        return direct
    if fabric.type == "efa":  # libfabric also has a provider for TCP
        return {env.NCCL_NET: "AWS Libfabric", env.FI_PROVIDER: "efa", **direct}
    return {env.NCCL_NET: "IB", **direct}


def _one_ccl(fabric: Fabric, names: Sequence[str]) -> Changes:
    if not fabric.has_rdma:
        return {env.FI_TCP_IFACE: names[0]}
    if fabric.fallback:
        return {env.FI_PROVIDER: None}
    return {env.FI_PROVIDER: "efa"} if fabric.type == "efa" else {env.FI_PROVIDER: "mlx", env.UCX_TLS: NO_TCP}
