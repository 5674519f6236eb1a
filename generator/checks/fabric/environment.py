"""fabric/environment, fabric/environment-lost, fabric/control-network: variables of NCCL, UCX, libfabric and MPI.

They have to lead to the fabric that the job has, and to reach the ranks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from generator.checks.fabric.fabrics import Workload, Workloads
from generator.checks.fabric.pods import Box, Pods, Variable
from generator.checks.finding import Breach, Severity, listed
from generator.checks.objects import Objects
from generator.checks.registry import WARNING, check
from generator.checks.trainer import LAUNCHER, NODE, mpi_runtime
from generator.documents.load import Path
from generator.facts import env
from generator.manifests import Manifest
from generator.objects.fields import mapping

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


@check("fabric/environment", severity=WARNING, needs=Objects)
def environment(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report a variable that keeps libraries off the fabric.

    A variable, or what a command says by `export` or `mpirun -x`, keeps libraries from the fabric that pods ask
    for, or only fits another cluster. Told of runtimes, MPIJobs, JobSets, Jobs and Pods, and of a TrainJob with its
    runtime's devices:

    - `NCCL_IB_GID_INDEX`: NCCL finds the entry by itself since 2.21; a fixed one is another address on another
      node
    - `NCCL_IB_HCA: mlx5_1`: without `=` it is how names begin, and means `mlx5_10` too
    - `NCCL_SOCKET_IFNAME: net1`: data goes by the device; by the interface ranks only meet
    - `NCCL_IB_DISABLE: 1`, `NCCL_NET: Socket`: the device is reserved, and not used
    - `NCCL_IB_*` with EFA, or with GPUDirect-TCPXO: NCCL's plugin for them reads none
    - `UCX_NET_DEVICES: mlx5_0`: UCX before 1.21 knows no device without its port, `mlx5_0:1`
    - `UCX_TLS: tcp`, `UCX_NET_DEVICES: eth0`, `FI_PROVIDER: tcp`, `I_MPI_FABRICS: shm:tcp`, `OMPI_MCA_pml:
      ob1`: MPI goes by TCP. Nothing is said where a framework or accelerators are: there NCCL carries the data,
      and MPI is rightly kept on eth0
    - `RDMAV_FORK_SAFE`, `IBV_FORK_SAFE`: registering memory becomes dear; kernels since 5.12 need neither
    """
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


_OF_RANKS = re.compile(r"^(NCCL|RCCL|UCX|FI|RDMAV|IBV|HCCL|CCL|GLOO|I_MPI|OMPI_MCA|PMIX_MCA)_")
_FORWARDED = re.compile(r"^(OMPI|PRTE|PMIX)_")
"""What Open MPI hands on by itself (open-mpi/ompi docs/mca.rst)."""
_PASSING = re.compile(
    r"/run/mpi/environment|export -p|SetEnv|SendEnv|PermitUserEnvironment|/etc/environment|/proc/1/environ|printenv"
    r"|\benv\s*(\||>)"
)
"""How a container hands its environment to what sshd starts, or ssh its own to the other side."""
_BY_HYDRA = re.compile(r"^(HYDRA|I_MPI_HYDRA)_")
_STARTS = re.compile(r"\b(mpirun|mpiexec|orterun|prterun)\b")
_FILES = ("openmpi-mca-params.conf", "prte-mca-params.conf")
_TRAINER: Path = ("spec", "trainer")
_DATA = ("btl_tcp_if_include", "btl_tcp_if_exclude")
_CONTROL = ("oob_tcp_if_include", "oob_tcp_if_exclude", "prte_if_include", "prte_if_exclude")


@dataclass(frozen=True)
class Started:
    """A job whose launcher starts ranks on its hosts by ssh.

    Attributes:
        workload: the object.
        hosts: the pods with sshd.
        launcher: the container with `mpirun`.
        is_complete: whether the command of the launcher stands in it; in a runtime a TrainJob says it.
    """

    workload: Workload
    hosts: Pods
    launcher: Box
    is_complete: bool

    @cached_property
    def host(self) -> Box | None:
        """The container with sshd."""
        return _main(self.hosts)

    @cached_property
    def is_hydra(self) -> bool:
        """Whether Intel MPI or MPICH start the ranks, which hand on all that the launcher has."""
        said = mapping(self.workload.manifest.body, "spec").get("mpiImplementation")
        return said in {"Intel", "MPICH"} or any(_BY_HYDRA.match(name) for name in self.told)

    @cached_property
    def told(self) -> frozenset[str]:
        """The names of the variables that the launcher has."""
        return frozenset(each.name for each in (*self.launcher.variables, *self.launcher.assigned))


@check("fabric/environment-lost", severity=WARNING, needs=Objects)
def environment_lost(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report variables of the hosts that ranks do not get.

    Variables that ranks are to read stand on the hosts of an MPI runtime or MPIJob, and sshd passes on nothing of
    its container. Nothing is said where a command shows how it is passed on (`export -p`, `SetEnv`, `SendEnv`, …),
    or is not sshd's, as an image may do it. Of an MPIJob, and of a TrainJob on such a runtime, also: Open MPI's
    `mpirun` hands on only its own variables and those that it gets by `-x`.
    """
    for started in _all_started(gathered):
        host = started.host
        if host and _drops_environment(started):
            names = [each.name for each in host.variables if _OF_RANKS.match(each.name)]
            if lost := [name for name in names if name not in started.told and not _is_in_file(name, host)]:
                what = f"{listed(lost)}: set on the hosts `{started.hosts.role}`, and not on `{LAUNCHER}`"
                yield started.workload.manifest, _lost(host, what, lost)
        if started.is_complete and not started.is_hydra:
            kept = _kept_back(started.launcher, host)
            if kept:
                what = f"{listed(kept)}: set on `{LAUNCHER}`, whose `mpirun` hands on no such variable to the hosts"
                yield started.workload.manifest, _lost(started.launcher, what, kept)
    yield from _lost_of_jobs(gathered)


def _lost_of_jobs(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """`trainer.env` of a TrainJob is that of its launcher (trainer v2.3.0 pkg/runtime/framework/plugins/jobset)."""
    known = {id(started.workload.manifest): started for started in _all_started(gathered)}
    for job in gathered.view(Workloads.read):
        started = known.get(id(job.runtime.manifest)) if job.runtime else None
        if started and not started.is_hydra and not any(_PASSING.search(box.text) for box in started.workload.written):
            for box in (each for each in job.written if each.path == _TRAINER):
                if kept := _kept_back(box, started.host):
                    runtime = started.workload.manifest.name
                    what = f"{listed(kept)}: the launcher of `{runtime}` gets it, whose `mpirun` does not hand it on"
                    yield job.manifest, _lost(box, what, kept)


def _drops_environment(started: Started) -> bool:
    """Whether it is sshd itself that starts the ranks, as far as the manifest tells; an image may do otherwise."""
    host, boxes = started.host, (*started.hosts.first_boxes, *started.hosts.boxes)
    text = host.text if host else ""
    is_sshd = "sshd" in text or (not text and started.workload.manifest.kind == "MPIJob")
    return is_sshd and not any(_PASSING.search(box.text) for box in boxes)


def _kept_back(box: Box, host: Box | None) -> list[str]:
    """The variables of a launcher that the `mpirun` of its command does not hand on; none if that starts no ranks."""
    text = box.text
    if not _STARTS.search(text) or "mca_base_env_list" in text or _PASSING.search(text):
        return []
    names = [each.name for each in box.variables if _OF_RANKS.match(each.name) and not _FORWARDED.match(each.name)]
    lost = [name for name in names if not re.search(rf"(-x|--x|-genv)\s+[\"']?{name}\b", text)]
    return [name for name in lost if not (host and _is_in_file(name, host))]


def _is_in_file(name: str, host: Box) -> bool:
    """Whether NCCL of the hosts has a file that may say it (NVIDIA/nccl docs/userguide/source/env.rst)."""
    return name.startswith("NCCL_") and bool(host.mount("/etc/nccl.conf"))


def _lost(box: Box, what: str, names: Sequence[str]) -> Breach:
    return Breach(
        (*box.path, "env"),
        "fabric/environment-lost",
        what,
        "ranks on the hosts are started by sshd, which passes on nothing of its container: they do without",
        f"say it on `{LAUNCHER}`, and to Open MPI also `mpirun -x {names[0]}`; Intel MPI and MPICH hand on all; "
        "for NCCL a ConfigMap mounted as `/etc/nccl.conf` on the hosts does too",
        Severity.WARNING,
    )


@check("fabric/control-network", severity=WARNING, needs=Objects)
def control_network(gathered: Objects) -> Iterator[tuple[Manifest, Breach]]:
    """Report MPI that may use a second network for its control traffic.

    Pods get another network from Multus, and nothing keeps MPI on the first (`OMPI_MCA_btl_tcp_if_include`, and for
    the daemons `OMPI_MCA_oob_tcp_if_include` of Open MPI 4 or `PRTE_MCA_prte_if_include` of Open MPI 5;
    `HYDRA_IFACE`, `I_MPI_HYDRA_IFACE`). MPI then tries every address of a host, and hangs.
    """
    for started in _all_started(gathered):
        box = started.launcher
        if not started.hosts.is_attached or box.body.get("envFrom") or _has_file(box):
            continue
        if missing := _missing(started):
            yield (
                started.workload.manifest,
                Breach(
                    (*box.path, "env"),
                    "fabric/control-network",
                    f"`{LAUNCHER}` lacks {listed(missing)}, and the hosts `{started.hosts.role}` have another network",
                    "MPI tries every address of a host, and hangs on one that its other side cannot reach",
                    "write each with the value `eth0`, the interface of the cluster's own network",
                    Severity.WARNING,
                ),
            )


def _missing(started: Started) -> list[str]:
    text = f"{' '.join(started.told)} {started.launcher.text}"
    if started.is_hydra:
        name = env.I_MPI_HYDRA_IFACE if "I_MPI_" in text else env.HYDRA_IFACE
        return [] if re.search(r"HYDRA_IFACE|-iface\b", text) else [name]
    found = [] if any(each in text for each in _DATA) else [env.OMPI_MCA_btl_tcp_if_include]
    if not any(each in text for each in _CONTROL):
        found += [env.OMPI_MCA_oob_tcp_if_include, env.PRTE_MCA_prte_if_include]
    return found


def _has_file(box: Box) -> bool:
    mounts = box.body.get("volumeMounts")
    return any(file in str(mounts) for file in _FILES)


def _all_started(gathered: Objects) -> Iterator[Started]:
    for workload in gathered.view(Workloads.read):
        is_runtime = mpi_runtime(workload.manifest.body) is not None
        if not is_runtime and workload.manifest.kind != "MPIJob":
            continue
        roles = {pods.role.lower(): pods for pods in workload.pods}
        hosts, launcher = roles.get(NODE if is_runtime else "worker"), roles.get(LAUNCHER)
        box = _main(launcher) if launcher else None
        if hosts and box:
            yield Started(workload, hosts, box, is_complete=not is_runtime)


def _main(pods: Pods) -> Box | None:
    """The container that Trainer knows by its name, or of an MPIJob the first."""
    named = (box for box in pods.boxes if box.body.get("name") == NODE)
    return next(named, None) or next(iter(pods.boxes), None)
