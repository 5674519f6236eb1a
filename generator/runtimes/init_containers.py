"""The init containers of a runtime's pods: prepare /run/mpi, wait for hosts, and check GPUs and fabrics.

Trainer v2.3.0 mounts a key and a hostfile and sets variables of Open MPI 4. The files of /run/mpi add the rest, so that
an image needs no more than a shell, OpenSSH and the MPI, for any user, with a read-only root filesystem and without a
network. Trainer with `mpiImplementation: Intel` and `MPICH` (kubeflow/trainer#3712) would make the files for Hydra
unnecessary.

An init container that checks devices requests the same devices as the container of the ranks: the kubelet gives the
devices of an init container to the container that follows (kubernetes v1.34.2 pkg/kubelet/cm/devicemanager/manager.go,
`devicesToReuse`), reports only the devices of the container to Multus (pkg/kubelet/apis/podresources/server_v1.go), and
quota counts the larger request, not the sum. The checks read Linux' Documentation/ABI/stable/sysfs-class-infiniband and
testing/sysfs-class-net.
"""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files

from generator import quantities
from generator.config.model.fabrics import Fabric
from generator.config.model.pools import Pool
from generator.config.model.runtimes import HOME, RUN, Runtime, fabric_of
from generator.facts.devices import DeviceKind
from generator.facts.env import host_variable_patterns
from generator.facts.names import MPI_FOLDER, SSH_PORT
from generator.manifests import Body
from generator.runtimes import hosts
from generator.runtimes.hosts import NodeSize

RANK = f"{RUN}/bin/rank"
"""The agent of Open MPI that sets the variables from which frameworks read their rank."""
LOCK = f"{RUN}/bin/lock"
"""The agent of Open MPI that gives ranks the capability to lock memory."""
HOSTFILE = "/etc/mpi/hostfile"
"""The hostfile that Trainer writes, in the launcher."""
HYDRA_HOSTFILE = f"{RUN}/hostfile"
"""The hostfile in the format of Hydra."""
PATH = f"{RUN}/bin:/opt/mpi/bin:/opt/intel/oneapi/mpi/latest/bin:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin"
"""PATH of a launcher with Hydra: `mpirun` of /run/mpi comes first."""
_LAUNCHERS = ("mpirun", "mpiexec", "mpiexec.hydra")
SMALL = {"cpu": "100m", "memory": "64Mi"}
"""Requests of an init container: a Guaranteed pod needs both. A pod requests the largest, not the sum."""


def prepare_container(image: str, runtime: Runtime, security: Body, *, is_launcher: bool) -> Body:
    """Return the container that writes /run/mpi. It runs the image of the ranks, to read their users and programs."""
    mounts = [{"name": "run", "mountPath": RUN}]
    if is_launcher and runtime.family.mpi != "openmpi":
        mounts.append({"name": "mpi-hostfile", "mountPath": MPI_FOLDER})  # Trainer adds the volume
    return {
        "name": "prepare",
        "image": image,
        "securityContext": security,
        "resources": {"requests": dict(SMALL), "limits": dict(SMALL)},
        "command": ["/bin/sh", "-c", prepare_script(runtime, is_launcher=is_launcher)],
        "volumeMounts": mounts,
    }


def hosts_container(image: str, security: Body, patience: int) -> Body:
    """Return the container that waits until ssh connects to every host, because a gang starts all pods at once."""
    return {
        "name": "hosts",
        "image": image,
        "securityContext": security,
        "resources": {"requests": dict(SMALL), "limits": dict(SMALL)},
        "command": ["/bin/sh", "-c", f"patience={patience}\n{script('hosts.sh')}"],
        "volumeMounts": [
            *volume_mounts(),
            {"name": "mpi-hostfile", "mountPath": MPI_FOLDER},  # Trainer adds both volumes
            {"name": "mpi-ssh-auth", "mountPath": f"{HOME}/.ssh"},
        ],
    }


def prepare_script(runtime: Runtime, *, is_launcher: bool) -> str:
    """Return the shell script of the container `prepare`."""
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


def volumes() -> list[Body]:
    """Return the volumes that the adapter and programs write to."""
    return [{"name": name, "emptyDir": {}} for name in ("run", "home", "tmp")]


def volume_mounts() -> list[Body]:
    """Return the mounts of the volumes that `volumes` returns."""
    return [
        {"name": "run", "mountPath": RUN},
        {"name": "run", "mountPath": "/etc/passwd", "subPath": "passwd", "readOnly": True},
        {"name": "run", "mountPath": "/etc/ssh/ssh_config", "subPath": "ssh_config", "readOnly": True},
        {"name": "home", "mountPath": HOME},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the pod
    ]


@cache
def script(name: str) -> str:
    """Return the text of a file in the folder `scripts`."""
    return files("generator.runtimes").joinpath("scripts", name).read_text(encoding="utf-8")


def _written(name: str, target: str = "") -> str:
    return _file(target or name, script(name).replace("SSH_PORT", str(SSH_PORT)))


def _file(target: str, content: str) -> str:
    text = f"cat > {target} <<'EOF'\n{content}EOF\n"
    return f"{text}chmod 755 {target}\n" if target.startswith("bin/") else text


def _host_patterns() -> str:
    """Return shell variables for environment.sh: patterns of variables that differ between hosts."""
    return "\n".join(f"of_{keeps}='{pattern}'" for keeps, pattern in host_variable_patterns().items())


PREFLIGHT = "fabric"
"""Name of the container that checks the fabric."""
DEVICES = "devices"
"""Name of the container that checks the GPUs."""
_OWNED: tuple[DeviceKind, ...] = ("amd", "intel")
"""Accelerators whose files only root and a group can open (systemd rules.d/50-udev-default.rules.in: `render`)."""


def preflight_containers(image: str, runtime: Runtime, pool: Pool, size: NodeSize, security: Body) -> list[Body]:
    """Return the init containers that check a host, in the order in which they run."""
    containers = (make(image, runtime, pool, size, security) for make in (devices_container, fabric_container))
    return [container for container in containers if container]


def devices_container(image: str, _runtime: Runtime, pool: Pool, size: NodeSize, security: Body) -> Body | None:
    """Return the init container that tests access to the GPUs of a host; None if every user can open them.

    The device files belong to a group of the node, whose id an image cannot know. Without the group, ranks fail with a
    message about missing GPUs, or train on CPUs (ROCm/k8s-device-plugin issue 39).
    """
    if pool.device not in _OWNED:
        return None
    devices = {pool.accelerator: size.resources[pool.accelerator]} if pool.accelerator in size.resources else {}
    if not devices:
        return None
    amounts = SMALL | devices
    return {
        "name": DEVICES,
        "image": image,
        "securityContext": security,
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "command": ["/bin/sh", "-c", devices_script(pool)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def devices_script(pool: Pool) -> str:
    """Return the shell script of the container `devices`."""
    return "\n".join([f"pool={pool.name}", script("devices.sh")])


def fabric_container(image: str, runtime: Runtime, pool: Pool, size: NodeSize, security: Body) -> Body | None:
    """Return the container that checks a fabric; None if there is no fabric, no preflight, or a fallback to TCP."""
    wiring = fabric_of(runtime, pool)
    if wiring is None or not wiring.preflight or wiring.fallback:
        return None
    devices = {name: amount for name, amount in size.resources.items() if name in wiring.requests}
    return {
        "name": PREFLIGHT,
        "image": image,
        "securityContext": security,
        "resources": hosts.container_resources(runtime, pool, SMALL | devices, is_node=True),
        "command": ["/bin/sh", "-c", fabric_script(runtime, wiring, size)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def fabric_script(runtime: Runtime, wiring: Fabric, size: NodeSize) -> str:
    """Return the shell script of the container `fabric`: fabric.sh with the numbers of this runtime."""
    numbers = {
        "fabric": wiring.name,
        "devices": _devices(wiring, size),
        "interfaces": f"'{' '.join(hosts.fabric_interfaces(wiring, size.resources))}'",
        # Of InfiniBand an interface is up by a partition's IPoIB, which RDMA does not need: there the device says it.
        "link": "" if wiring.type == "infiniband" and wiring.attached != "ipoib" else "yes",
        "memory": _to_lock(runtime, wiring, size),
    }
    return "\n".join([*(f"{name}={value}" for name, value in numbers.items()), script("fabric.sh")])


def _devices(wiring: Fabric, size: NodeSize) -> int:
    """Return the number of RDMA devices that a host has; for a shared device all devices behind it."""
    if not wiring.has_rdma:
        return 0
    if wiring.shares_device:
        return wiring.per_node
    return sum(int(quantities.parse(size.resources.get(name, "0")).value) for name in wiring.requests)


def _to_lock(runtime: Runtime, wiring: Fabric, size: NodeSize) -> int:
    """Return the bytes that the ranks of a host lock at most; 0 if a capability lifts the limit."""
    if not wiring.has_rdma or runtime.locks_memory:
        return 0
    return math.ceil(quantities.parse(size.resources.get("memory", "0")).value)
