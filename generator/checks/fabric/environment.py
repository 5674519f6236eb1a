"""Checks of environment variables: fabric/environment, fabric/environment-lost, fabric/control-network.

A variable must select the RDMA devices of the pods, and `mpirun` or the image must pass the variable to the ranks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from generator.checks.fabric.fabrics import Workload, Workloads
from generator.checks.finding import listed
from generator.checks.registry import WARNING, Breach, check
from generator.documents.load import Path
from generator.facts import env
from generator.facts.names import NETWORKS
from generator.objects.fields import mapping
from generator.objects.pods import NODE, Container, PodTemplate, Variable
from generator.objects.training import LAUNCHER, mpi_runtime

_ON = frozenset({"1", "true", "yes", "y", "on"})
_PORTLESS = re.compile(r"^(mlx|bnxt_re|irdma|rocep|ibp)\w+$")
_MATCHES_MORE = re.compile(r"(?<!\d)(?<!^mlx)[1-9]\d*$")  # `mlx5` is the prefix of the driver, not a device
_SECOND = re.compile(r"^=?net\d*$")


class Advice(NamedTuple):
    """Advice against the value of a variable.

    Attributes:
        fault: the end of the message, after "`NCCL_NET` is `Socket`, ".
        why: the effect of the value.
        fix: the change to make.
    """

    fault: str
    why: str
    fix: str


def _off_the_device(workload: Workload, fix: str) -> Advice:
    return Advice(
        f"which selects TCP, but {workload.device}",
        "the pods reserve the device, but the ranks send their data over TCP, which is many times slower",
        fix,
    )


def _nccl_gid_index(value: str, workload: Workload) -> Advice | None:
    """Return advice against a fixed GID index; None if NCCL selects the index or does not use it.

    Source: NVIDIA/nccl docs/userguide/source/env.rst NCCL_IB_GID_INDEX: automatic since 2.21
    """
    if value == "-1" or workload.has_plugin_of_its_own:
        return None
    return Advice(
        "a fixed index of the GID table",
        "the GID table differs between nodes and VFs: at this index NCCL may find another address or none, and fail",
        "remove the variable: NCCL 2.21 and newer select the GID; `NCCL_IB_ADDR_FAMILY` restricts the selection",
    )


def _nccl_hca(value: str, workload: Workload) -> Advice | None:
    """Return advice against a device name that NCCL uses as the prefix of other names; None for other values.

    Source: NVIDIA/nccl docs/userguide/source/env.rst NCCL_IB_HCA: names are prefixes unless the value starts with `=`
    """
    items = value.lstrip("^").split(",")
    more = next((name for name in (item.partition(":")[0] for item in items) if _MATCHES_MORE.search(name)), "")
    if not more or value.lstrip("^").startswith("=") or workload.has_plugin_of_its_own:
        return None
    fix = f"write `{'^' if value.startswith('^') else ''}={value.lstrip('^')}`, or remove the variable"
    return Advice(
        f"which selects every device whose name begins with `{more}`",
        f"without `=` NCCL matches prefixes: `{more}` also selects `{more}0`, which exists on nodes with VFs",
        fix,
    )


def _nccl_socket(value: str, workload: Workload) -> Advice | None:
    """Return advice if a workload with an RDMA device selects a second network for NCCL's bootstrap; else None.

    Source: NVIDIA/nccl docs/userguide/source/env.rst NCCL_SOCKET_IFNAME: with RDMA, only the bootstrap uses it
    """
    if not workload.device or not any(_SECOND.match(item) for item in value.split(",")):
        return None
    return Advice(
        "the interface of a second network instead of the pod network",
        f"only NCCL's bootstrap uses this interface, because {workload.device}; on a second network the DNS names and "
        "NetworkPolicies of the pods do not apply",
        "write `=eth0`, the interface of the pod network",
    )


def _nccl_disable(value: str, workload: Workload) -> Advice | None:
    is_off = value.lower() in _ON
    fix = "remove the variable, or the request for the device"
    return _off_the_device(workload, fix) if is_off and workload.device and not workload.is_efa else None


def _nccl_net(value: str, workload: Workload) -> Advice | None:
    """Return advice against `Socket` in a workload with an RDMA device; else None.

    Source: NVIDIA/nccl docs/userguide/source/env.rst NCCL_NET
    """
    is_off = value.lower() == "socket" and workload.device
    fix = "write `IB`, so that NCCL fails instead of falling back to TCP, or remove the variable"
    return _off_the_device(workload, "remove the variable" if workload.is_efa else fix) if is_off else None


def _ucx_transports(value: str, workload: Workload) -> Advice | None:
    names = {item.strip() for item in value.split(",")}
    if (
        not _carries_mpi_data(workload)
        or "tcp" not in names
        or names - {"tcp", "self", "sm", "shm", "posix", "sysv", "cma"}
    ):
        return None
    return _off_the_device(
        workload, "remove the variable, so that UCX selects the fastest transport; or write `rc,sm,self`"
    )


def _ucx_devices(value: str, workload: Workload) -> Advice | None:
    """Return advice against a device without its port, and against Ethernet interfaces; else None.

    Source: openucx/ucx pull request 11142: the port is optional since UCX 1.21
    """
    items = [item.strip() for item in value.split(",")]
    portless = next((item for item in items if _PORTLESS.match(item)), "")
    if portless:
        return Advice(
            "a device without its port", "UCX before 1.21 finds no device without the port", f"write `{portless}:1`"
        )
    if _carries_mpi_data(workload) and all(re.match(r"^(eth|ens|eno)\w*$", item) for item in items):
        return _off_the_device(
            workload, "name the device of the fabric with its port, such as `mlx5_0:1`, or remove the variable"
        )
    return None


def _libfabric_provider(value: str, workload: Workload) -> Advice | None:
    if not _carries_mpi_data(workload) or value not in {"tcp", "sockets", "tcp;ofi_rxm"}:
        return None
    better = "`efa`" if workload.is_efa else "the provider that the image has: `verbs;ofi_rxm`, `mlx` or `psm3`"
    return _off_the_device(workload, f"write {better}")


def _intel_fabrics(value: str, workload: Workload) -> Advice | None:
    is_off = _carries_mpi_data(workload) and "tcp" in value.split(":")
    return _off_the_device(workload, "write `shm:ofi`") if is_off else None


def _openmpi_pml(value: str, workload: Workload) -> Advice | None:
    """Return advice against `ob1`, which sends over BTLs, if only MPI can use the RDMA device; else None.

    Source: open-mpi/ompi: Open MPI 5.0 removed openib, the BTL for InfiniBand
    """
    if value != "ob1" or not _carries_mpi_data(workload):
        return None
    pml = "cm" if workload.is_efa else "ucx"
    return _off_the_device(workload, f"write `{pml}`, so that Open MPI fails instead of falling back to TCP")


def _horovod_operations(value: str, workload: Workload) -> Advice | None:
    """Return advice against Gloo, which sends data of CPUs over TCP, for pods with an RDMA device and no GPU.

    Source: horovod 0.28.1 horovod/common/utils/env_parser.cc ParseCPUOpsFromEnv
    """
    is_off = value.lower() == "gloo" and workload.device and not workload.has_gpus
    return _off_the_device(workload, "write `MPI`, or remove the variable") if is_off else None


def _fork_safe(_value: str, _workload: Workload) -> Advice | None:
    """Return advice against fork safety, which kernels since 5.12 do not need (ofiwg/libfabric issue 6332)."""
    return Advice(
        "which makes the registration of memory slow",
        "any value of this variable slows down memory registration, and keeps EFA from using huge pages",
        "remove the variable: kernels since 5.12 do not need it; on older kernels with EFA set `FI_EFA_FORK_SAFE`",
    )


def _carries_mpi_data(workload: Workload) -> bool:
    """Return True if the pods request an RDMA device, and only MPI can send data over the device.

    A job with accelerators or with variables of a framework uses NCCL or another library instead.
    """
    return bool(workload.device) and workload.is_plain_mpi


_JUDGES: Mapping[str, Callable[[str, Workload], Advice | None]] = {
    "NCCL_IB_GID_INDEX": _nccl_gid_index,
    "NCCL_IB_HCA": _nccl_hca,
    env.NCCL_SOCKET_IFNAME: _nccl_socket,
    env.NCCL_IB_DISABLE: _nccl_disable,
    env.NCCL_NET: _nccl_net,
    env.UCX_TLS: _ucx_transports,
    env.UCX_NET_DEVICES: _ucx_devices,
    env.FI_PROVIDER: _libfabric_provider,
    env.I_MPI_FABRICS: _intel_fabrics,
    env.I_MPI_OFI_PROVIDER: _libfabric_provider,
    env.OMPI_MCA_pml: _openmpi_pml,
    env.OMPI_MCA_mtl_ofi_provider_include: _libfabric_provider,
    env.MPIR_CVAR_OFI_USE_PROVIDER: _libfabric_provider,
    env.HOROVOD_CPU_OPERATIONS: _horovod_operations,
    "RDMAV_FORK_SAFE": _fork_safe,
    "IBV_FORK_SAFE": _fork_safe,
}


@check("fabric/environment", severity=WARNING, needs=Workloads)
def environment(workloads: Workloads) -> Iterator[Breach]:
    """Report a harmful value of a variable of NCCL, UCX, libfabric or MPI.

    With such a value, ranks send their data over TCP although the pods reserve an RDMA device, use other devices than
    intended, or fail on nodes with other NICs. The check reads the `env` of containers, assignments in commands
    (`export`, `mpirun -x`), and options (`--mca pml ob1`, `-genv FI_PROVIDER tcp`), of runtimes, MPIJobs, JobSets,
    Jobs, Pods and TrainJobs. It reports:

    - `NCCL_IB_GID_INDEX`: the GID table differs between nodes. NCCL 2.21 and newer select the entry.
    - `NCCL_IB_HCA: mlx5_1`: without `=`, NCCL matches prefixes and also uses `mlx5_10`.
    - `NCCL_SOCKET_IFNAME: net1`: NCCL's bootstrap should use the pod network. The RDMA device carries the data.
    - `NCCL_IB_DISABLE: 1`, `NCCL_NET: Socket`: NCCL does not use the RDMA device that the pods reserve.
    - `NCCL_IB_*` with EFA or GPUDirect-TCPXO: NCCL's plugin for these networks ignores the variables.
    - `UCX_NET_DEVICES: mlx5_0`: UCX before 1.21 requires the port, as in `mlx5_0:1`.
    - `UCX_TLS: tcp`, `UCX_NET_DEVICES: eth0`, `FI_PROVIDER: tcp`, `I_MPI_FABRICS: shm:tcp`, `OMPI_MCA_pml: ob1`: MPI
      uses TCP. The check skips these values in jobs with accelerators or with variables such as `NCCL_*` or `TORCH_*`,
      because NCCL or another library then carries the data.
    - `HOROVOD_CPU_OPERATIONS: gloo`: Horovod sends the data of CPUs by Gloo, which uses TCP.
    - `RDMAV_FORK_SAFE`, `IBV_FORK_SAFE`: memory registration becomes slow. Kernels since 5.12 need neither.

    The check skips a value with `$`, because the kubelet or the shell replaces a part of the value.

    Source: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html for the variables of NCCL
    """
    for workload in workloads:
        for variable in workload.variables:
            if variable.value and "$" not in variable.value and (advice := _advice(variable, workload)):
                yield Breach(
                    variable.path,
                    f"`{variable.name}` is `{variable.value}`, {advice.fault}",
                    advice.why,
                    advice.fix,
                    workload.manifest,
                    value=variable.value,
                )


def _advice(variable: Variable, workload: Workload) -> Advice | None:
    if variable.name.startswith("NCCL_IB_") and workload.has_plugin_of_its_own:
        plugin = "aws-ofi-nccl" if workload.is_efa else "the plugin of GPUDirect-TCPXO"
        return Advice(
            f"but NCCL uses {plugin} here",
            "this network plugin of NCCL ignores `NCCL_IB_*`, so the variable has no effect",
            "remove the variable",
        )
    judge = _JUDGES.get(variable.name)
    return judge(variable.value, workload) if judge else None


_RANK_VARIABLE = re.compile(r"^(NCCL|RCCL|UCX|FI|RDMAV|IBV|HCCL|CCL|GLOO|I_MPI|OMPI_MCA|PMIX_MCA)_")
_FORWARDED = re.compile(r"^(OMPI|PRTE|PMIX)_")
"""Variables that Open MPI forwards by default (open-mpi/ompi docs/mca.rst)."""
_PASSES_ENVIRONMENT = re.compile(
    r"/run/mpi/environment|export -p|SetEnv|SendEnv|PermitUserEnvironment|/etc/environment|/proc/1/environ|printenv"
    r"|\benv\s*(\||>)"
)
"""Commands and sshd options that pass the environment of a container to ssh sessions."""
_HYDRA_VARIABLE = re.compile(r"^(HYDRA|I_MPI_HYDRA)_")
_STARTS = re.compile(r"\b(mpirun|mpiexec|orterun|prterun)\b")
_FILES = ("openmpi-mca-params.conf", "prte-mca-params.conf")
_TRAINER: Path = ("spec", "trainer")
_DATA = ("btl_tcp_if_include", "btl_tcp_if_exclude")
_CONTROL = ("oob_tcp_if_include", "oob_tcp_if_exclude", "prte_if_include", "prte_if_exclude")


@dataclass(frozen=True)
class Launch:
    """An MPIJob or MPI runtime whose launcher starts ranks in the worker pods over ssh.

    Attributes:
        hosts: the worker pods, with sshd.
        launcher: the container with `mpirun`.
        is_complete: True for an MPIJob, which sets the command of its launcher. For a runtime, a TrainJob sets it.
    """

    workload: Workload
    hosts: PodTemplate
    launcher: Container
    is_complete: bool

    @cached_property
    def host(self) -> Container | None:
        """The container of the worker pods that runs sshd; None if the pod template has no container."""
        return _main_container(self.hosts)

    @cached_property
    def is_hydra(self) -> bool:
        """True if Hydra (Intel MPI or MPICH) starts the ranks. Hydra forwards every variable of the launcher."""
        implementation = mapping(self.workload.manifest.body, "spec").get("mpiImplementation")
        return implementation in {"Intel", "MPICH"} or any(_HYDRA_VARIABLE.match(name) for name in self.variable_names)

    @cached_property
    def variable_names(self) -> frozenset[str]:
        """Names of the variables that the launcher has."""
        return frozenset(variable.name for variable in (*self.launcher.variables, *self.launcher.assigned))


@check("fabric/environment-lost", severity=WARNING, needs=Workloads)
def environment_lost(workloads: Workloads) -> Iterator[Breach]:
    """Report variables of NCCL, UCX, MPI and similar libraries that the ranks in worker pods do not get.

    NCCL, UCX and MPI then run with their defaults, and the variables seem to have no effect. The check reports:

    - Variables of the launcher, in an MPIJob or in a TrainJob on an MPI runtime: Open MPI's `mpirun` forwards only its
      own variables, and variables that the option `-x` names.
    - Variables of the worker pods that the launcher does not set, in an MPI runtime or MPIJob: sshd starts the ranks
      without the environment of the container.

    The check skips jobs with a command that passes the environment to ssh sessions (`export -p`, `SetEnv`, `SendEnv`,
    …). It also skips worker pods with a command other than sshd, and runtimes without a command for these pods, because
    the image may pass the environment. Variables of NCCL also reach ranks in pods that mount `/etc/nccl.conf`.

    Source: open-mpi/ompi docs/mca.rst; trainer v2.3.0 pkg/runtime/framework/plugins/jobset: `trainer.env` is the
    environment of the launcher
    """
    launches = {id(launch.workload.manifest): launch for launch in _launches(workloads)}
    for launch in launches.values():
        if launch.host and _drops_environment(launch):
            yield from _lost_on_host(launch, launch.host)
        if launch.is_complete:
            yield from _not_forwarded(launch.workload, launch.launcher, f"the container of `{LAUNCHER}`", launch)
    for job in workloads:
        runtime = launches.get(id(job.runtime.manifest)) if job.runtime else None
        if runtime and not _passes_environment(runtime.workload.containers):
            for container in job.containers:
                if container.path == _TRAINER:
                    yield from _not_forwarded(job, container, "the TrainJob", runtime)


def _lost_on_host(launch: Launch, host: Container) -> Iterator[Breach]:
    """Yield one breach for all variables that the worker pods set, but the launcher does not set."""
    variables = [variable.name for variable in host.variables if _RANK_VARIABLE.match(variable.name)]
    lost = [name for name in variables if name not in launch.variable_names and not _is_in_file(name, host)]
    if lost:
        names = listed(lost)
        yield Breach(
            (*host.path, "env"),
            f"the pods `{launch.hosts.role}` set {names}, but the pods `{LAUNCHER}` do not",
            "sshd starts the ranks without the environment of its container, so NCCL, UCX and MPI use their defaults",
            f"set {names} on `{LAUNCHER}`, and with Open MPI {_forward(lost)} (Intel MPI and MPICH forward all "
            f"variables){_nccl_file(lost)}",
            launch.workload.manifest,
        )


def _drops_environment(launch: Launch) -> bool:
    """Return True if sshd starts the ranks, and no command of these pods passes the environment to ssh sessions."""
    text = launch.host.text if launch.host else ""
    is_sshd = "sshd" in text or (not text and launch.workload.manifest.kind == "MPIJob")
    return is_sshd and not _passes_environment((*launch.hosts.init_containers, *launch.hosts.containers))


def _passes_environment(containers: Iterable[Container]) -> bool:
    return any(_PASSES_ENVIRONMENT.search(container.text) for container in containers)


def _withheld_variables(container: Container, host: Container | None) -> list[str]:
    """Return the variables for NCCL, UCX, MPI and so on that the `mpirun` of a launcher does not forward.

    The result is empty if the command starts no ranks, or passes its environment by other means.
    """
    text = container.text
    if not _STARTS.search(text) or "mca_base_env_list" in text or _PASSES_ENVIRONMENT.search(text):
        return []
    names = [
        variable.name
        for variable in container.variables
        if _RANK_VARIABLE.match(variable.name) and not _FORWARDED.match(variable.name)
    ]
    lost = [name for name in names if not re.search(rf"(-x|--x|-genv)\s+[\"']?{name}\b", text)]
    return [name for name in lost if not (host and _is_in_file(name, host))]


def _is_in_file(name: str, host: Container) -> bool:
    """Return True if the container mounts `/etc/nccl.conf`, and NCCL reads the variable (NVIDIA/nccl env.rst)."""
    return name.startswith("NCCL_") and bool(host.mount("/etc/nccl.conf"))


def _not_forwarded(workload: Workload, container: Container, owner: str, launch: Launch) -> Iterator[Breach]:
    """Yield one breach for all variables that an object sets on the launcher and `mpirun` does not forward."""
    names = [] if launch.is_hydra else _withheld_variables(container, launch.host)
    if names:
        pronoun = "them" if len(names) > 1 else "it"
        yield Breach(
            (*container.path, "env"),
            f"{owner} sets {listed(names)}, but `mpirun` does not forward {pronoun} to the worker pods",
            "Open MPI's `mpirun` forwards only its own variables, and variables that `-x` names, so ranks in worker "
            "pods use the defaults of NCCL, UCX and MPI",
            f"{_forward(names)}{_nccl_file(names)}",
            workload.manifest,
        )


def _forward(names: Sequence[str]) -> str:
    return f"add `{' '.join(f'-x {name}' for name in names)}` to the command of `mpirun`"


def _nccl_file(names: Sequence[str]) -> str:
    """Return a second fix, to set variables of NCCL in `/etc/nccl.conf`; empty if a variable is not for NCCL."""
    is_nccl = all(name.startswith("NCCL_") for name in names)
    return ", or set the variables in a ConfigMap that the worker pods mount as `/etc/nccl.conf`" if is_nccl else ""


@check("fabric/control-network", severity=WARNING, needs=Workloads)
def control_network(workloads: Workloads) -> Iterator[Breach]:
    """Report an MPI launcher that does not restrict MPI to the pod network.

    If Multus attaches a second network to the worker pods, MPI tries all addresses of a pod, and hangs on an address
    that other pods cannot reach. These variables restrict MPI to the pod network:

    - Open MPI: `OMPI_MCA_btl_tcp_if_include`, and for its daemons `OMPI_MCA_oob_tcp_if_include` (Open MPI 4) or
      `PRTE_MCA_prte_if_include` (Open MPI 5).
    - MPICH: `HYDRA_IFACE`. Intel MPI: `I_MPI_HYDRA_IFACE`.

    The check reads MPIJobs and MPI runtimes. It skips a launcher that mounts an MCA parameter file, or that has
    `envFrom`, because these can contain the settings.

    Source: https://www.open-mpi.org/faq/?category=tcp, "Which ones will Open MPI use?"
    """
    for launch in _launches(workloads):
        container = launch.launcher
        has_file = any(file in str(container.body.get("volumeMounts")) for file in _FILES)
        is_attached = bool(launch.hosts.annotations.get(NETWORKS))
        if is_attached and not container.body.get("envFrom") and not has_file and (missing := _missing(launch)):
            yield Breach(
                (*container.path, "env"),
                f"the pods `{launch.hosts.role}` have a second network, but the container of `{LAUNCHER}` does not set "
                f"{listed(missing)}",
                "MPI tries all addresses of a pod, and hangs on an address that other pods cannot reach",
                f"set {listed(missing)} to `eth0`, the interface of the pod network",
                launch.workload.manifest,
            )


def _missing(launch: Launch) -> list[str]:
    text = f"{' '.join(launch.variable_names)} {launch.launcher.text}"
    if launch.is_hydra:
        name = env.I_MPI_HYDRA_IFACE if "I_MPI_" in text else env.HYDRA_IFACE
        return [] if re.search(r"HYDRA_IFACE|-iface\b", text) else [name]
    missing = [] if any(name in text for name in _DATA) else [env.OMPI_MCA_btl_tcp_if_include]
    if not any(name in text for name in _CONTROL):
        missing += [env.OMPI_MCA_oob_tcp_if_include, env.PRTE_MCA_prte_if_include]
    return missing


def _launches(workloads: Workloads) -> Iterator[Launch]:
    for workload in workloads:
        is_runtime = mpi_runtime(workload.manifest.body) is not None
        if not is_runtime and workload.manifest.kind != "MPIJob":
            continue
        roles = {pods.role.lower(): pods for pods in workload.pods}
        hosts, launcher = roles.get(NODE if is_runtime else "worker"), roles.get(LAUNCHER)
        container = _main_container(launcher) if launcher else None
        if hosts and container:
            yield Launch(workload, hosts, container, is_complete=not is_runtime)


def _main_container(pods: PodTemplate) -> Container | None:
    """Return the container called `node`, as Trainer requires, or else the first one, as in an MPIJob."""
    by_name = (container for container in pods.containers if container.body.get("name") == NODE)
    return next(by_name, None) or next(iter(pods.containers), None)
