"""Environment variables that bind ranks to a fabric; a job that changes one falls back to TCP silently.

Sources: NVIDIA/nccl docs/userguide/source/env.rst; openucx/ucx docs/source/faq.md; ofiwg/libfabric man/fabric.7.md;
pmodels/mpich src/mpid/ch4/netmod/ofi/ofi_init.c; Intel MPI Library, "OFI-capable Network Fabrics Control".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from generator.facts import env

_TRANSPORTS = (
    env.CCL_ATL_TRANSPORT,
    env.FI_PROVIDER,
    env.I_MPI_FABRICS,
    env.I_MPI_OFI_PROVIDER,
    env.MPIR_CVAR_CH4_NETMOD,
    "MPIR_CVAR_OFI_USE_PROVIDER",
    env.NCCL_NET,
    "NCCL_NET_PLUGIN",
    "OMPI_MCA_btl",
    "OMPI_MCA_mtl",
    "OMPI_MCA_mtl_ofi_provider_include",
    "OMPI_MCA_osc",
    env.OMPI_MCA_pml,
    env.UCX_TLS,
)
_INTERFACES = (
    env.FI_TCP_IFACE,
    env.GLOO_SOCKET_IFNAME,
    env.NCCL_SOCKET_IFNAME,
    env.OMPI_MCA_btl_tcp_if_include,
    env.UCX_NET_DEVICES,
)
_INSTEAD: Mapping[str, tuple[str, ...]] = {
    env.NCCL_NET: (env.NCCL_IB_DISABLE,),
    env.FI_PROVIDER: (env.I_MPI_OFI_PROVIDER,),  # Intel MPI asks for this one too
}
"""What a runtime sets → what else would undo it."""
_OF_TCP = ("Socket", "ob1", "tcp")
_ATTACHED = re.compile(r"\bnet[0-9]")  # what Multus calls the interfaces that it adds: net1, net2, …


def transport_variables(environment: Mapping[str, str]) -> list[str]:
    """The variables that keep the ranks of a runtime on its fabric, in order.

    Args:
        environment: of the launcher, which reaches all ranks.
    """
    return sorted(set(_steering(environment)))


def _steering(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        of_fabric = name in _TRANSPORTS and value not in _OF_TCP
        if of_fabric or (name in _INTERFACES and _ATTACHED.search(value)):
            yield name
            yield from _INSTEAD.get(name, ())
