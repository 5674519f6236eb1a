"""The shell scripts that the containers of a runtime run as their `command`, and the files that the scripts write.

Trainer v2.3.0 mounts an ssh key and a hostfile, and sets the variables of Open MPI 4. The init container `prepare`
writes all other files to /run/mpi. So an image needs only a shell, OpenSSH and the MPI, and `setpriv` if ranks lock
memory, and runs as any user with a read-only root filesystem. The files for Hydra, the launcher of MPICH and Intel MPI,
are needed until Trainer supports `mpiImplementation: Intel` and `MPICH` (kubeflow/trainer#3712). The init container
`fabric` reads files of Linux (Documentation/ABI/stable/sysfs-class-infiniband and testing/sysfs-class-net).
"""

from __future__ import annotations

import math

from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import RUN, Runtime
from generator.facts.env import host_variable_patterns
from generator.facts.names import SSH_PORT
from generator.facts.table import read_text
from generator.quantities import ZERO
from generator.runtimes.hosts import NodeSize, fabric_interfaces

RANK = f"{RUN}/bin/rank"
"""The program with which Open MPI starts each rank, to set the variables from which frameworks read the rank."""
LOCK = f"{RUN}/bin/lock"
"""The program with which Open MPI starts each rank, to give the rank the capability to lock memory."""
HOSTFILE = "/etc/mpi/hostfile"
"""The hostfile that Trainer mounts into the launcher pod."""
HYDRA_HOSTFILE = f"{RUN}/hostfile"
"""The hostfile of Trainer in the format of Hydra, the launcher of MPICH and Intel MPI."""
PATH = f"{RUN}/bin:/opt/mpi/bin:/opt/intel/oneapi/mpi/latest/bin:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin"
"""PATH of a launcher pod with Hydra: `mpirun` in /run/mpi/bin precedes the `mpirun` of the image."""
_LAUNCHERS = ("mpirun", "mpiexec", "mpiexec.hydra")


def script(name: str) -> str:
    """Return the text of a file in the folder `scripts`."""
    return read_text("generator.runtimes", "scripts", name)


def prepare_script(runtime: Runtime, *, is_launcher: bool) -> str:
    """Return the script of the init container `prepare`, which writes the files in /run/mpi."""
    parts = [
        script("prepare.sh"),
        _written("ssh_config"),
        _file("environment.sh", f"{_host_patterns()}\n{script('environment/environment.sh')}"),
        _written("environment/connect.sh", "bin/connect"),
    ]
    if not is_launcher:
        parts += [
            _written("sshd_config"),
            _written("environment/receive.sh", "bin/receive"),
            _written("environment/session.sh", "bin/session"),
        ]
    if runtime.family.rank_variables:
        parts.append(_written("rank.sh", "bin/rank"))
    if runtime.locks_memory:
        parts.append(_written("lock.sh", "bin/lock"))
    if runtime.family.mpi != "openmpi" and is_launcher:
        parts += [script("hydra.sh"), *(_written("mpirun.sh", f"bin/{name}") for name in _LAUNCHERS)]
    return "\n".join(parts)


def _written(name: str, target: str = "") -> str:
    return _file(target or name, script(name).replace("SSH_PORT", str(SSH_PORT)))


def _file(target: str, content: str) -> str:
    """Return the shell command that writes a file, and makes a file in `bin/` executable."""
    text = f"cat > {target} <<'EOF'\n{content}EOF\n"
    return f"{text}chmod 755 {target}\n" if target.startswith("bin/") else text


def _host_patterns() -> str:
    """Return the shell variables that environment.sh reads: patterns of environment variables that differ by pod."""
    return "\n".join(f"of_{keeps}='{pattern}'" for keeps, pattern in host_variable_patterns().items())


def hosts_script(patience: int) -> str:
    """Return the script of the init container `hosts`: it waits up to `patience` seconds for ssh to all worker pods."""
    return f"patience={patience}\n{script('hosts.sh')}"


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
