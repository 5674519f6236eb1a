"""The shell scripts that the containers of a runtime run as their `command`, and the files that the scripts write.

Trainer v2.3.0 mounts an ssh key and a hostfile, and sets the variables of Open MPI 4. The init container `prepare`
writes all other files to /run/mpi. So an image needs only the programs of facts/programs.yaml, such as a shell, OpenSSH
and the MPI, and runs as any user with a read-only root filesystem. The files for Hydra, the launcher of MPICH and Intel
MPI, are needed until Trainer supports `mpiImplementation: Intel` and `MPICH` (kubeflow/trainer#3712). The init
container `fabric` reads files of Linux (Documentation/ABI/stable/sysfs-class-infiniband and
testing/sysfs-class-net).
"""

from __future__ import annotations

import math
import shlex

from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import MPIRUN_ENDS, RUN, Runtime
from generator.facts.env import host_variable_patterns
from generator.facts.families import MPI
from generator.facts.names import SSH_PORT
from generator.facts.table import read_text
from generator.quantities import ZERO
from generator.runtimes.hosts import NodeSize, fabric_interfaces
from generator.runtimes.image_needs import PATH, Need, advice, image_needs

RANK = f"{RUN}/bin/rank"
"""The program with which Open MPI starts each rank, to set the variables from which frameworks read the rank."""
LOCK = f"{RUN}/bin/lock"
"""The program with which Open MPI starts each rank, to give the rank the capability to lock memory."""
SSHD = "/usr/sbin/sshd"
"""The sshd of the image."""
OPENSSH = f"{RUN}/openssh"
"""The folder of ssh and sshd of the image that `sshImage` of a runtime names."""
HYDRA_HOSTFILE = f"{RUN}/hostfile"
"""The hostfile of Trainer in the format of Hydra, the launcher of MPICH and Intel MPI."""
STOP = f"{RUN}/bin/stop"
"""The preStop hook of the pods."""
STOPPED = 75
"""The exit code of the launcher and of worker pods that Kubernetes stopped (EX_TEMPFAIL of sysexits.h)."""
_OTHER_FOLDERS = "/usr/local/mpi/bin:/opt/mpi/bin:/opt/amazon/openmpi/bin:/opt/intel/oneapi/mpi/latest/bin"
"""Folders of `mpirun` in images whose PATH lacks its folder."""
_LAUNCHERS = {"openmpi": ("mpirun", "mpiexec"), "hydra": ("mpirun", "mpiexec", "mpiexec.hydra")}
DEFAULT_GRACE = 30
"""Default of `terminationGracePeriodSeconds`: kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_PodSpec."""

DNS_PATIENCE = 120
"""Seconds that a launcher waits for the names of pods that are ready. DNS has a name seconds after the pod is ready,
but a resolver between them may remember that it was missing."""


def script(name: str) -> str:
    """Return the text of a file in the folder `scripts`."""
    return read_text("generator.runtimes", "scripts", name)


def prepare_script(runtime: Runtime, path: str, *, is_launcher: bool) -> str:
    """Return the script of the init container `prepare`, which checks the image and writes the files in /run/mpi.

    Args:
        runtime: the runtime.
        path: the PATH of the launcher; empty for the PATH of the image.
        is_launcher: True for the launcher pod, False for a worker pod.
    """
    check = check_script(runtime, path, is_launcher=is_launcher)
    return f"{check}\n{files_script(runtime, is_launcher=is_launcher)}"


def check_script(runtime: Runtime, path: str, *, is_launcher: bool) -> str:
    """Return the part of the script of `prepare` that fails if the image lacks programs.

    The arguments are as in `prepare_script`.
    """
    needs = image_needs(runtime, path, is_launcher=is_launcher)
    of_mpi = [need for need in needs if need.folders]
    mpi = of_mpi[0]
    texts = advice(runtime.name, mpi.software)
    lines = [
        script("check.sh"),
        *(_need(need) for need in needs if not need.folders),
        *([f"path={shlex.quote(mpi.path)}"] if mpi.path else []),
        f"folders={shlex.quote('|'.join(mpi.folders))}",
        *map(_need, of_mpi),
        f"always={shlex.quote(texts.always)}",
        f"openssh={shlex.quote(texts.openssh)}",
        f"mpi={shlex.quote(texts.mpi)}",
        f"report {shlex.quote(mpi.software)}",
        "",
    ]
    return "\n".join(lines)


def _need(need: Need) -> str:
    return " ".join(["need", *map(shlex.quote, (need.software, *need.programs))])


def wrapped_path(path: str) -> str:
    """Return a PATH of the launcher that finds mpigen's `mpirun` first."""
    return f"{RUN}/bin:{path.removeprefix(f'{RUN}/bin:')}"


def files_script(runtime: Runtime, *, is_launcher: bool) -> str:
    """Return the part of the script of `prepare` that writes the files in /run/mpi."""
    parts = [
        script("prepare.sh"),
        _written("shell.sh", "sh"),
        _written("ssh_config"),
        _file("environment.sh", f"{_host_patterns()}\n{script('environment/environment.sh')}"),
        _written("environment/connect.sh", "bin/connect"),
        _file("bin/stop", stop_script(runtime, is_launcher=is_launcher)),
    ]
    if not is_launcher:
        parts += [
            "[ -p reports ] || mkfifo reports\n",
            _written("sshd_config"),
            _written("environment/receive.sh", "bin/receive", runtime_sshd(runtime)),
            _written("environment/session.sh", "bin/session"),
        ]
    if runtime.family.rank_variables:
        parts.append(_written("rank.sh", "bin/rank"))
    if runtime.locks_memory:
        parts.append(_written("lock.sh", "bin/lock"))
    if is_launcher:
        has_hydra = runtime.family.mpi != "openmpi"
        parts += [f"path='{PATH}'\n{script('path.sh')}", *([script("hydra.sh")] if has_hydra else [])]
        names = _LAUNCHERS["hydra" if has_hydra else "openmpi"]
        parts += [_file(f"bin/{name}", mpirun_script(has_hydra=has_hydra)) for name in names]
    return "\n".join(parts)


def sshd_script(runtime: Runtime) -> str:
    """Return the script of the main container of a worker pod, which runs sshd."""
    return script("sshd.sh").replace(SSHD, runtime_sshd(runtime))


def runtime_sshd(runtime: Runtime) -> str:
    """Return the path of sshd in the pods: that of the image, or of the image that `sshImage` names."""
    return f"{OPENSSH}/sshd" if runtime.ssh_image else SSHD


def stop_script(runtime: Runtime, *, is_launcher: bool) -> str:
    """Return the script of the preStop hook, which sends SIGTERM to all ranks of the job and waits for their end."""
    grace = runtime.termination_grace_period_seconds
    numbers = {
        "grace": DEFAULT_GRACE if grace is None else grace,
        "mpirun_ends": MPIRUN_ENDS,
        "daemons": f"'{MPI[runtime.family.mpi].daemons}'",
        "is_launcher": "yes" if is_launcher else "",
        "ssh": f"{OPENSSH}/ssh" if runtime.ssh_image else "ssh",
    }
    first, _, rest = script("stop.sh").partition("\n")
    return "\n".join([first, *(f"{name}={value}" for name, value in numbers.items()), rest])


def mpirun_script(*, has_hydra: bool) -> str:
    """Return the program that precedes `mpirun` of the image: mpirun.sh sets its arguments, launch.sh its exit code."""
    arguments = script("mpirun.sh") if has_hydra else ""
    return f"#!{RUN}/sh\npath='{PATH}' others='{_OTHER_FOLDERS}'\n{arguments}{script('launch.sh')}"


def _written(name: str, target: str = "", sshd: str = SSHD) -> str:
    return _file(target or name, script(name).replace("SSH_PORT", str(SSH_PORT)).replace(SSHD, sshd))


def _file(target: str, content: str) -> str:
    """Return the shell command that writes a file, and makes a script with `#!` executable."""
    text = f"cat > {target} <<'EOF'\n{content}EOF\n"
    return f"{text}chmod 755 {target}\n" if content.startswith("#!") else text


def _host_patterns() -> str:
    """Return the shell variables that environment.sh reads: patterns of environment variables that differ by pod."""
    return "\n".join(f"of_{keeps}='{pattern}'" for keeps, pattern in host_variable_patterns().items())


def hosts_script(runtime: Runtime, patience: int) -> str:
    """Return the script of the init container `hosts`: it waits for all hosts of the hostfile.

    Args:
        runtime: the runtime.
        patience: seconds to wait for ssh to all worker pods if a gang scheduler starts the pods.
    """
    is_in_gang = runtime.gang != "kueue"
    path = f"PATH={OPENSSH}:$PATH\n" if runtime.ssh_image and is_in_gang else ""
    numbers = f"patience={patience if is_in_gang else DNS_PATIENCE} gang={'yes' if is_in_gang else ''}\n"
    return f"{numbers}{path}{script('hosts.sh')}"


def devices_script(pool: Pool) -> str:
    """Return the script of the init container `devices`, which checks that its user can open the GPUs of the pod."""
    return f"pool={pool.name}\n{script('devices.sh')}"


def fabric_script(runtime: Runtime, fabric: Fabric, size: NodeSize) -> str:
    """Return the script of the init container `fabric`, which checks the NICs, their links and the memory limit."""
    numbers = {
        "fabric": fabric.name,
        "devices": _rdma_devices(fabric, size),
        "interfaces": f"'{' '.join(fabric_interfaces(fabric, size.resources))}'",
        # On InfiniBand, the interface is up only if its partition has IPoIB, which RDMA does not need.
        "link": "" if fabric.type == "infiniband" and fabric.attached != "ipoib" else "yes",
        "memory": _locked_memory(runtime, fabric, size),
    }
    return "\n".join([*(f"{name}={value}" for name, value in numbers.items()), script("fabric.sh")])


def _rdma_devices(fabric: Fabric, size: NodeSize) -> int:
    """Return the number of RDMA devices in a pod that runs ranks; for a shared device, all NICs of the node."""
    if not fabric.has_rdma:
        return 0
    if fabric.shares_device:
        return fabric.per_node
    return sum(int(size.resources.get(name, ZERO).value) for name in fabric.requests)


def _locked_memory(runtime: Runtime, fabric: Fabric, size: NodeSize) -> int:
    """Return the smallest `ulimit -l` (locked memory), in bytes, that the script accepts: the memory of the pod.

    Return 0, with which the script checks no limit, without RDMA, or if the ranks have the capability IPC_LOCK.
    """
    if not fabric.has_rdma or runtime.locks_memory:
        return 0
    return math.ceil(size.resources.get("memory", ZERO).value)
