"""How MPI and the collective libraries send data over a fabric: without a word they would take TCP where it fails.

Control traffic stays on the interface of the pod network. Each variable here was tried for what it does where there is
no such device, with Open MPI 4.1.4 (UCX 1.13.1) and 5.0.11, MPICH 5.0.2 (UCX 1.20.1) and Intel MPI 2021.19: ranks do
not start. Sources: ompi opal/mca/common/ucx/common_ucx.c; ucx src/ucp/core/ucp_context.c (`^` takes away from a list);
libfabric src/fabric.c (a filter of core providers); mpich src/mpid/ch4/netmod/ofi/init_provider.c; nccl
src/plugin/net.cc (NCCL_NET is the name of a network, IB and Socket its own) and docs/userguide/source/env.rst;
aws-ofi-nccl src/nccl_ofi_interface_nvidia.cpp (its name in every release is that one, if NCCL_NET says so).
"""

from __future__ import annotations

from collections.abc import Sequence

from generator.config.model.fabrics import Fabric
from generator.config.model.runtimes import Runtime
from generator.facts import env
from generator.facts.devices import DeviceKind

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
