"""Environment variables of MPI and its libraries: names, values that belong to one host, and the environment of a job.

tests/unit/test_facts.py fails if a second package spells out a name. Sources of the variables that bind ranks to a
fabric: NVIDIA/nccl docs/userguide/source/env.rst; openucx/ucx docs/source/faq.md; ofiwg/libfabric man/fabric.7.md;
pmodels/mpich src/mpid/ch4/netmod/ofi/ofi_init.c; Intel MPI Library, "OFI-capable Network Fabrics Control".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from generator.facts.table import read_rows

# Open MPI: the launcher of version 4 reads `OMPI_MCA_*`. The launcher of version 5 is PRRTE, which reads `PRTE_MCA_*`.
OMPI_MCA_btl_tcp_if_include = "OMPI_MCA_btl_tcp_if_include"
OMPI_MCA_mtl_ofi_provider_include = "OMPI_MCA_mtl_ofi_provider_include"
OMPI_MCA_oob_tcp_if_include = "OMPI_MCA_oob_tcp_if_include"
OMPI_MCA_orte_default_hostfile = "OMPI_MCA_orte_default_hostfile"
OMPI_MCA_orte_keep_fqdn_hostnames = "OMPI_MCA_orte_keep_fqdn_hostnames"
OMPI_MCA_orte_set_default_slots = "OMPI_MCA_orte_set_default_slots"
OMPI_MCA_plm_rsh_args = "OMPI_MCA_plm_rsh_args"
OMPI_MCA_pml = "OMPI_MCA_pml"
PRTE_MCA_plm_ssh_args = "PRTE_MCA_plm_ssh_args"
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
MPIR_CVAR_OFI_USE_PROVIDER = "MPIR_CVAR_OFI_USE_PROVIDER"

# libfabric and UCX, with which MPI sends data
FI_PROVIDER = "FI_PROVIDER"
FI_TCP_IFACE = "FI_TCP_IFACE"
UCX_NET_DEVICES = "UCX_NET_DEVICES"
UCX_TLS = "UCX_TLS"

# Collective libraries of frameworks
GLOO_SOCKET_IFNAME = "GLOO_SOCKET_IFNAME"
HOROVOD_CPU_OPERATIONS = "HOROVOD_CPU_OPERATIONS"
NCCL_IB_DISABLE = "NCCL_IB_DISABLE"
NCCL_NET = "NCCL_NET"
NCCL_SOCKET_IFNAME = "NCCL_SOCKET_IFNAME"

RESERVED_BY_TRAINER = (
    OMPI_MCA_orte_default_hostfile,
    OMPI_MCA_orte_keep_fqdn_hostnames,
    OMPI_MCA_orte_set_default_slots,
    OMPI_MCA_plm_rsh_args,
)
"""Variables that Trainer sets in the launcher, overriding the runtime. Trainer's webhook rejects them in a TrainJob.

trainer v2.3.0 pkg/constants/constants.go MPIReservedEnvNames
"""
RESERVED_SINCE_TRAINER_2_4 = (
    PRTE_MCA_prte_default_hostfile,
    PRTE_MCA_prte_keep_fqdn_hostnames,
    PRTE_MCA_prte_set_default_slots,
    PRTE_MCA_plm_ssh_args,
)
"""Variables of Open MPI 5 that Trainer 2.4 sets and rejects too. Announced: https://github.com/kubeflow/trainer/pull/4029"""

HOSTFILES_OF_HYDRA = (HYDRA_HOST_FILE, I_MPI_HYDRA_HOST_FILE)
HOSTFILES = (PRTE_MCA_prte_default_hostfile, *HOSTFILES_OF_HYDRA)
"""Variables with the path of the hostfile that mpigen sets. Trainer itself sets the variable of Open MPI 4."""


Scope = Literal["host", "device", "process"]


@dataclass(frozen=True, slots=True)
class HostVariable:
    """A variable, or a family of variables, whose value ranks must not get from the launcher pod.

    Attributes:
        name: a name, or the start of names if it ends with `*`.
        scope: `host`: ranks get the value of their pod. `device`: ranks get the value of their pod, or if it has none,
            the launcher's. `process`: ranks get no value.
        reason: why the value belongs to one pod or process.
        source: where upstream sets the variable.
    """

    name: str
    scope: Scope
    reason: str
    source: str

    @property
    def pattern(self) -> str:
        """Return a POSIX extended regular expression that matches the name, or the names of the family."""
        return self.name.replace("*", "[^=]*")


@cache
def host_variables() -> tuple[HostVariable, ...]:
    """Return all rows of host_variables.yaml, in its order."""
    return read_rows("host_variables", "variables", HostVariable)


@cache
def host_variable_patterns() -> Mapping[Scope, str]:
    """Return scope → a POSIX extended regular expression that matches the names of its variables."""
    rows = host_variables()
    kinds = dict.fromkeys(row.scope for row in rows)
    return {kind: "|".join(row.pattern for row in rows if row.scope == kind) for kind in kinds}


def host_variable(name: str) -> HostVariable | None:
    """Return the row of host_variables.yaml for a variable that ranks never get from the launcher pod; else None.

    Rows of the scope `device` are ignored, because ranks can get their values from the launcher pod.
    """
    rows = (row for row in host_variables() if row.scope != "device")
    return next((row for row in rows if re.fullmatch(row.pattern, name)), None)


_TRANSPORTS = (
    "CCL_ATL_TRANSPORT",
    FI_PROVIDER,
    I_MPI_FABRICS,
    I_MPI_OFI_PROVIDER,
    "MPIR_CVAR_CH4_NETMOD",
    MPIR_CVAR_OFI_USE_PROVIDER,
    NCCL_NET,
    "NCCL_NET_PLUGIN",
    "OMPI_MCA_btl",
    "OMPI_MCA_mtl",
    OMPI_MCA_mtl_ofi_provider_include,
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
"""Variable → other variables that override it."""
_TCP_VALUES = ("Socket", "ob1", "tcp")
_ATTACHED_INTERFACE = re.compile(r"\bnet[0-9]")  # Multus names interfaces net1, net2, …


def transport_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the sorted variables that bind ranks to a fabric. A job that changes one of them can fall back to TCP.

    `environment` has the variables of the launcher, which reach all ranks.
    """
    names = [
        name
        for name, value in environment.items()
        if (name in _TRANSPORTS and value not in _TCP_VALUES)
        or (name in _INTERFACES and _ATTACHED_INTERFACE.search(value))
    ]
    return sorted({*names, *(synonym for name in names for synonym in _SYNONYMS.get(name, ()))})


Case = Mapping[str, str | bool]
"""Condition of environment.yaml → the value that a runtime has: `{"mpi": "openmpi", "fabric": "none", …}`."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of environment.yaml: variables with a reason and a source, or the library that sends the data of ranks.

    Attributes:
        set: variable → value, with names of `values` in braces.
        library: the library; empty for a row with variables.
        when: condition → value or values. The row applies if all conditions hold.
        unless: the same; the row does not apply if all these conditions hold.
    """

    source: str
    reason: str = ""
    set: Mapping[str, str] = field(default_factory=dict)
    library: str = ""
    when: Mapping[str, object] = field(default_factory=dict)
    unless: Mapping[str, object] = field(default_factory=dict)

    def applies(self, case: Case) -> bool:
        """Return True if the row applies to a runtime."""
        return _hold(self.when, case) and not (self.unless and _hold(self.unless, case))


def _hold(conditions: Mapping[str, object], case: Case) -> bool:
    return all(
        case[condition] in value if isinstance(value, list) else case[condition] == value
        for condition, value in conditions.items()
    )


def data_library(framework: str, device: str) -> str:
    """Return the library with which the ranks of a framework send their data, such as `nccl`."""
    rows: tuple[Row, ...] = read_rows("environment", "libraries", Row)
    return next(row.library for row in rows if row.applies({"framework": framework, "device": device}))


def job_environment(case: Case, values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a launcher pod, in the order of environment.yaml.

    Args:
        case: the runtime, with a value for each condition of the table.
        values: name in braces → its value.
    """
    rows = (row for row in read_rows("environment", "variables", Row) if row.applies(case))
    return {name: value.format_map(values) for row in rows for name, value in row.set.items()}


@cache
def variables_of_ranks() -> Mapping[str, str]:
    """Return variable → `slots` or `threads`, for the variables of a launcher that depend on the ranks of a pod."""
    places = {"{slots}": "slots", "{threads}": "threads"}
    rows = read_rows("environment", "variables", Row)
    return {name: places[value] for row in rows for name, value in row.set.items() if value in places}
