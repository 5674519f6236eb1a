"""fabric/environment: do variables of NCCL, UCX, libfabric and MPI lead to the fabric that a job has?

Most of them are better left out: the libraries find a fabric by themselves, and what one cluster needed stops another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from generator.checks.fabric.boxes import Variable
from generator.checks.fabric.workload import Workload, Workloads
from generator.checks.finding import Breach, Severity
from generator.checks.gathered import Gathered
from generator.facts import env
from generator.manifests import Manifest

CHECK = "fabric/environment"
_UNUSED = "the device is reserved, and the data goes by TCP all the same"
_ON = frozenset({"1", "true", "yes", "y", "on"})
_PORTLESS = re.compile(r"^(mlx|bnxt_re|irdma|rocep|ibp)\w+$")
_MATCHES_MORE = re.compile(r"(?<!\d)(?<!^mlx)[1-9]\d*$")  # `mlx5` is how all names of a driver begin
_SECOND = re.compile(r"^=?net\d*$")


class Advice(NamedTuple):
    """Why a value is wrong where it stands, and what to write."""

    why: str
    fix: str


def _gid_index(value: str, workload: Workload) -> Advice | None:
    """NVIDIA/nccl docs/userguide/source/env.rst NCCL_IB_GID_INDEX: found by itself since 2.21."""
    if value == "-1" or workload.has_plugin_of_its_own:
        return None
    why = (
        "each node has its own table: a VF, IPv6 or InfiniBand has another address there, or none, and NCCL then fails"
    )
    return Advice(why, "leave it out: NCCL finds the entry by itself since 2.21; `NCCL_IB_ADDR_FAMILY` narrows it")


def _hca(value: str, workload: Workload) -> Advice | None:
    """env.rst NCCL_IB_HCA: names are beginnings of names, unless `=` comes first."""
    items = value.lstrip("^").split(",")
    more = next((name for name in (each.partition(":")[0] for each in items) if _MATCHES_MORE.search(name)), "")
    if not more or value.lstrip("^").startswith("=") or workload.has_plugin_of_its_own:
        return None
    fix = f"write `{'^' if value.startswith('^') else ''}={value.lstrip('^')}`, or leave it out"
    return Advice(f"without `=` it is how names begin: `{more}` means `{more}0` too, which nodes with VFs have", fix)


def _socket(value: str, workload: Workload) -> Advice | None:
    """env.rst NCCL_SOCKET_IFNAME: of an RDMA job it is how ranks meet, not where data goes."""
    if not workload.device or not any(_SECOND.match(each) for each in value.split(",")):
        return None
    why = "data goes by the device, and ranks only meet here, where pods have neither their names nor their policies"
    return Advice(why, "write `=eth0`, the interface of the cluster's own network")


def _no_fabric(value: str, workload: Workload) -> Advice | None:
    is_off = value.lower() in _ON
    return Advice(_UNUSED, "remove it, or the device") if is_off and workload.device and not workload.is_efa else None


def _net(value: str, workload: Workload) -> Advice | None:
    """env.rst NCCL_NET."""
    is_off = value.lower() == "socket" and workload.device
    fix = "write `IB`, which fails where there is no fabric, or remove it"
    return Advice(_UNUSED, "remove it" if workload.is_efa else fix) if is_off else None


def _ucx_transports(value: str, workload: Workload) -> Advice | None:
    names = {each.strip() for each in value.split(",")}
    if not _is_of_data(workload) or "tcp" not in names or names - {"tcp", "self", "sm", "shm", "posix", "sysv", "cma"}:
        return None
    return Advice(
        _UNUSED, "leave it out, so that UCX takes the fastest; or name what is to be used, such as `rc,sm,self`"
    )


def _ucx_devices(value: str, workload: Workload) -> Advice | None:
    """A port became optional with UCX 1.21 (openucx/ucx pull request 11142)."""
    items = [each.strip() for each in value.split(",")]
    portless = next((each for each in items if _PORTLESS.match(each)), "")
    if portless:
        return Advice("UCX before 1.21 knows no device without its port, and then finds none", f"write `{portless}:1`")
    if _is_of_data(workload) and all(re.match(r"^(eth|ens|eno)\w*$", each) for each in items):
        return Advice(_UNUSED, "name the device of the fabric and its port, such as `mlx5_0:1`, or leave it out")
    return None


def _libfabric(value: str, workload: Workload) -> Advice | None:
    if not _is_of_data(workload) or value not in {"tcp", "sockets", "tcp;ofi_rxm"}:
        return None
    better = "`efa`" if workload.is_efa else "`verbs;ofi_rxm`, `mlx` or `psm3`, as the image has"
    return Advice(_UNUSED, f"write {better}")


def _intel(value: str, workload: Workload) -> Advice | None:
    return Advice(_UNUSED, "write `shm:ofi`") if _is_of_data(workload) and "tcp" in value.split(":") else None


def _pml(value: str, workload: Workload) -> Advice | None:
    """`ob1` sends by BTLs, of which Open MPI 5 has none for InfiniBand (open-mpi/ompi, openib BTL removed in 5.0)."""
    if value != "ob1" or not _is_of_data(workload):
        return None
    return Advice(_UNUSED, f"write `{'cm' if workload.is_efa else 'ucx'}`, which fails where there is no fabric")


def _fork_safe(_value: str, _workload: Workload) -> Advice | None:
    """ofiwg/libfabric issue 6332; a kernel since 5.12 copies registered pages by itself."""
    why = "it makes each registration of memory dear, whatever its value, and keeps EFA from using huge pages"
    return Advice(
        why, "remove it: kernels since 5.12 need none, and where they do, libfabric's `FI_EFA_FORK_SAFE` does it"
    )


def _is_of_data(workload: Workload) -> bool:
    """Whether what MPI is told decides how data goes; where NCCL carries it, MPI is rightly kept off the fabric."""
    return bool(workload.device) and workload.is_plain_mpi


_JUDGES: Mapping[str, Callable[[str, Workload], Advice | None]] = {
    "NCCL_IB_GID_INDEX": _gid_index,
    "NCCL_IB_HCA": _hca,
    env.NCCL_SOCKET_IFNAME: _socket,
    env.NCCL_IB_DISABLE: _no_fabric,
    env.NCCL_NET: _net,
    env.UCX_TLS: _ucx_transports,
    env.UCX_NET_DEVICES: _ucx_devices,
    env.FI_PROVIDER: _libfabric,
    env.I_MPI_FABRICS: _intel,
    env.I_MPI_OFI_PROVIDER: _libfabric,
    env.OMPI_MCA_pml: _pml,
    "RDMAV_FORK_SAFE": _fork_safe,
    "IBV_FORK_SAFE": _fork_safe,
}


def environment(gathered: Gathered) -> Iterator[tuple[Manifest, Breach]]:
    """Each variable that is said by its value; what comes from elsewhere, or from another variable, is not known."""
    for workload in gathered.view(Workloads.read):
        for variable in workload.variables:
            if variable.value and "$" not in variable.value and (advice := _advice(variable, workload)):
                yield workload.manifest, _breach(variable, workload, advice)


def _advice(variable: Variable, workload: Workload) -> Advice | None:
    if variable.name.startswith("NCCL_IB_") and workload.has_plugin_of_its_own:
        what = "aws-ofi-nccl" if workload.is_efa else "the plugin of GPUDirect-TCPXO"
        return Advice(f"NCCL goes by {what} here, which reads none of `NCCL_IB_*`", "remove it")
    judge = _JUDGES.get(variable.name)
    return judge(variable.value, workload) if judge else None


def _breach(variable: Variable, workload: Workload, advice: Advice) -> Breach:
    return Breach(
        variable.path,
        CHECK,
        f"`{variable.name}` is `{variable.value}`{workload.beside}",
        advice.why,
        advice.fix,
        Severity.WARNING,
        value=variable.value,
    )
