"""Environment variables of MPI and its libraries: names, values that belong to one host, and the choice of a fabric.

tests/unit/test_facts.py finds a name that a second package spells out. Sources of the variables that bind ranks to a
fabric: NVIDIA/nccl docs/userguide/source/env.rst; openucx/ucx docs/source/faq.md; ofiwg/libfabric man/fabric.7.md;
pmodels/mpich src/mpid/ch4/netmod/ofi/ofi_init.c; Intel MPI Library, "OFI-capable Network Fabrics Control".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from generator.facts.table import read_table

# Open MPI 4 reads `OMPI_MCA_*` with its launcher, Open MPI 5 leaves the launcher to PRRTE, which reads `PRTE_MCA_*`

OMPI_MCA_btl_tcp_if_include = "OMPI_MCA_btl_tcp_if_include"
OMPI_MCA_oob_tcp_if_include = "OMPI_MCA_oob_tcp_if_include"
OMPI_MCA_orte_default_hostfile = "OMPI_MCA_orte_default_hostfile"
OMPI_MCA_orte_keep_fqdn_hostnames = "OMPI_MCA_orte_keep_fqdn_hostnames"
OMPI_MCA_orte_set_default_slots = "OMPI_MCA_orte_set_default_slots"
OMPI_MCA_plm_rsh_args = "OMPI_MCA_plm_rsh_args"
OMPI_MCA_pml = "OMPI_MCA_pml"
PRTE_MCA_prte_default_hostfile = "PRTE_MCA_prte_default_hostfile"
PRTE_MCA_prte_if_include = "PRTE_MCA_prte_if_include"
PRTE_MCA_prte_keep_fqdn_hostnames = "PRTE_MCA_prte_keep_fqdn_hostnames"
PRTE_MCA_prte_set_default_slots = "PRTE_MCA_prte_set_default_slots"

# Intel MPI, and Hydra, by which MPICH starts ranks

HYDRA_HOST_FILE = "HYDRA_HOST_FILE"
HYDRA_IFACE = "HYDRA_IFACE"
I_MPI_FABRICS = "I_MPI_FABRICS"
I_MPI_HYDRA_HOST_FILE = "I_MPI_HYDRA_HOST_FILE"
I_MPI_HYDRA_IFACE = "I_MPI_HYDRA_IFACE"
I_MPI_OFI_PROVIDER = "I_MPI_OFI_PROVIDER"
MPIR_CVAR_CH4_NETMOD = "MPIR_CVAR_CH4_NETMOD"

# libfabric and UCX, by which MPI sends data

FI_PROVIDER = "FI_PROVIDER"
FI_TCP_IFACE = "FI_TCP_IFACE"
UCX_NET_DEVICES = "UCX_NET_DEVICES"
UCX_TLS = "UCX_TLS"

# Collective libraries of frameworks

CCL_ATL_TRANSPORT = "CCL_ATL_TRANSPORT"
GLOO_SOCKET_IFNAME = "GLOO_SOCKET_IFNAME"
NCCL_IB_DISABLE = "NCCL_IB_DISABLE"
NCCL_NET = "NCCL_NET"
NCCL_SOCKET_IFNAME = "NCCL_SOCKET_IFNAME"

RESERVED_BY_TRAINER = (
    OMPI_MCA_orte_default_hostfile,
    OMPI_MCA_orte_keep_fqdn_hostnames,
    OMPI_MCA_orte_set_default_slots,
    OMPI_MCA_plm_rsh_args,
)
"""Variables that Trainer sets in the launcher, whatever a runtime sets; its webhook rejects them in a TrainJob.

trainer v2.3.0 pkg/constants/constants.go MPIReservedEnvNames
"""

HOSTFILES = (PRTE_MCA_prte_default_hostfile, HYDRA_HOST_FILE, I_MPI_HYDRA_HOST_FILE)
"""Variables that name the hostfile, besides the one that Trainer sets for Open MPI 4."""


Keeper = Literal["host", "device", "process"]


@dataclass(frozen=True, slots=True)
class HostVariable:
    """A variable, or a family of them, whose value is not shared by all hosts of a job.

    Attributes:
        name: a name, or the start of names if it ends with `*`.
        keeps: which value ranks get. `host`: the host's. `device`: the host's if it has one, else the launcher's.
            `process`: none.
        reason: why the value belongs to one host.
        source: where upstream sets the variable.
    """

    name: str
    keeps: Keeper
    reason: str
    source: str

    @property
    def pattern(self) -> str:
        """Return a POSIX extended regular expression that matches the names."""
        return self.name.replace("*", "[^=]*")


@cache
def host_variables() -> tuple[HostVariable, ...]:
    """Return all rows of the table, in its order."""
    return tuple(HostVariable(**row) for row in read_table("host_variables")["variables"])


@cache
def host_variable_patterns() -> Mapping[Keeper, str]:
    """Return one POSIX extended regular expression for the names of each kind of variable."""
    kinds: dict[Keeper, list[str]] = {}
    for row in host_variables():
        kinds.setdefault(row.keeps, []).append(row.pattern)
    return MappingProxyType({keeps: "|".join(each) for keeps, each in kinds.items()})


def host_variable(name: str) -> HostVariable | None:
    """Return the row of a variable that hosts never take from the launcher, None for any other variable."""
    rows = (row for row in host_variables() if row.keeps != "device")
    return next((row for row in rows if re.fullmatch(row.pattern, name)), None)


_TRANSPORTS = (
    CCL_ATL_TRANSPORT,
    FI_PROVIDER,
    I_MPI_FABRICS,
    I_MPI_OFI_PROVIDER,
    MPIR_CVAR_CH4_NETMOD,
    "MPIR_CVAR_OFI_USE_PROVIDER",
    NCCL_NET,
    "NCCL_NET_PLUGIN",
    "OMPI_MCA_btl",
    "OMPI_MCA_mtl",
    "OMPI_MCA_mtl_ofi_provider_include",
    "OMPI_MCA_osc",
    OMPI_MCA_pml,
    UCX_TLS,
)
_INTERFACES = (
    FI_TCP_IFACE,
    GLOO_SOCKET_IFNAME,
    NCCL_SOCKET_IFNAME,
    OMPI_MCA_btl_tcp_if_include,
    UCX_NET_DEVICES,
)
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    NCCL_NET: (NCCL_IB_DISABLE,),
    FI_PROVIDER: (I_MPI_OFI_PROVIDER,),  # Intel MPI asks for this one too
}
"""What a runtime sets → what else would undo it."""
_TCP_VALUES = ("Socket", "ob1", "tcp")
_ATTACHED_INTERFACE = re.compile(r"\bnet[0-9]")  # what Multus calls the interfaces that it adds: net1, net2, …


def transport_variables(environment: Mapping[str, str]) -> list[str]:
    """The variables that keep the ranks of a runtime on its fabric, in order.

    Args:
        environment: of the launcher, which reaches all ranks.
    """
    return sorted(set(_bind_to_fabric(environment)))


def _bind_to_fabric(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        of_fabric = name in _TRANSPORTS and value not in _TCP_VALUES
        if of_fabric or (name in _INTERFACES and _ATTACHED_INTERFACE.search(value)):
            yield name
            yield from _SYNONYMS.get(name, ())
