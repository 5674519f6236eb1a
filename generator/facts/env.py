"""Environment variables of MPI and its libraries: names, values that belong to one host, and the choice of a fabric.

tests/unit/test_facts.py finds a name that a second package spells out. Sources of the variables that bind ranks to a
fabric: NVIDIA/nccl docs/userguide/source/env.rst; openucx/ucx docs/source/faq.md; ofiwg/libfabric man/fabric.7.md;
pmodels/mpich src/mpid/ch4/netmod/ofi/ofi_init.c; Intel MPI Library, "OFI-capable Network Fabrics Control".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from generator.facts.table import read_rows

# Open MPI: the launcher of version 4 reads `OMPI_MCA_*`. The launcher of version 5 is PRRTE, which reads `PRTE_MCA_*`.
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

# Intel MPI, and Hydra, with which MPICH starts ranks
HYDRA_HOST_FILE = "HYDRA_HOST_FILE"
HYDRA_IFACE = "HYDRA_IFACE"
I_MPI_FABRICS = "I_MPI_FABRICS"
I_MPI_HYDRA_HOST_FILE = "I_MPI_HYDRA_HOST_FILE"
I_MPI_HYDRA_IFACE = "I_MPI_HYDRA_IFACE"
I_MPI_OFI_PROVIDER = "I_MPI_OFI_PROVIDER"
MPIR_CVAR_CH4_NETMOD = "MPIR_CVAR_CH4_NETMOD"

# libfabric and UCX, with which MPI sends data
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
"""Variables with the path of the hostfile. Trainer sets a further variable, for Open MPI 4."""


Scope = Literal["host", "device", "process"]


@dataclass(frozen=True, slots=True)
class HostVariable:
    """A variable, or a family of variables, whose value must not be copied from the launcher to the hosts.

    Attributes:
        name: a name, or the start of names if it ends with `*`.
        scope: `host`: ranks get the value of their host. `device`: the same, but the launcher's value if the host has
            none. `process`: ranks get no value.
        reason: why the value belongs to one host.
        source: where upstream sets the variable.
    """

    name: str
    scope: Scope
    reason: str
    source: str

    @property
    def pattern(self) -> str:
        """Return a POSIX extended regular expression that matches the names."""
        return self.name.replace("*", "[^=]*")


@cache
def host_variables() -> tuple[HostVariable, ...]:
    """Return all rows of the table, in its order."""
    return read_rows("host_variables", "variables", HostVariable)


@cache
def host_variable_patterns() -> Mapping[Scope, str]:
    """Return scope → a POSIX extended regular expression that matches the names of its variables."""
    rows = host_variables()
    kinds = dict.fromkeys(row.scope for row in rows)
    return {kind: "|".join(row.pattern for row in rows if row.scope == kind) for kind in kinds}


def host_variable(name: str) -> HostVariable | None:
    """Return the row of a variable that ranks never get from the launcher; None for any other variable."""
    rows = (row for row in host_variables() if row.scope != "device")
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
    FI_PROVIDER: (I_MPI_OFI_PROVIDER,),  # Intel MPI reads it in addition to FI_PROVIDER
}
"""Variable that a runtime sets → other variables that override it."""
_TCP_VALUES = ("Socket", "ob1", "tcp")
_ATTACHED_INTERFACE = re.compile(r"\bnet[0-9]")  # the names that Multus gives to interfaces: net1, net2, …


def transport_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that keep ranks on their fabric, sorted. A job that changes one falls back to TCP silently.

    `environment` has the variables of the launcher, which reach all ranks.
    """
    names = [
        name
        for name, value in environment.items()
        if (name in _TRANSPORTS and value not in _TCP_VALUES)
        or (name in _INTERFACES and _ATTACHED_INTERFACE.search(value))
    ]
    return sorted({*names, *(synonym for name in names for synonym in _SYNONYMS.get(name, ()))})
