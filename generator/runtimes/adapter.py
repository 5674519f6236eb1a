"""The adapter between Trainer's pods and MPI: files in /run/mpi, written by an init container that anybody can read.

Trainer v2.3.0 mounts a key and a hostfile and sets variables of Open MPI 4; the rest is left to the image. The adapter
asks of an image no more than a shell, OpenSSH and the MPI: it works with any user, with a read-only root filesystem and
without a network. What it knows about Hydra goes away once Trainer has `mpiImplementation: Intel` and `MPICH`
(kubeflow/trainer#3712).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from generator.config.model.runtimes import HOME, RUN, Runtime
from generator.facts.host_variables import patterns
from generator.facts.names import MPI_FOLDER
from generator.manifests import Body

RANK = f"{RUN}/bin/rank"
"""What Open MPI starts ranks through, where they need to know who they are."""
LOCK = f"{RUN}/bin/lock"
"""What it starts them through where they lock memory by a capability."""
HOSTFILE = "/etc/mpi/hostfile"
"""Trainer's hostfile, in the launcher."""
HYDRA_HOSTFILE = f"{RUN}/hostfile"
PATH = f"{RUN}/bin:/opt/mpi/bin:/opt/intel/oneapi/mpi/latest/bin:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin"
"""Where Hydra's programs are found, our `mpirun` first."""
_LAUNCHERS = ("mpirun", "mpiexec", "mpiexec.hydra")
SMALL = {"cpu": "100m", "memory": "64Mi"}
"""What init containers ask for: a Guaranteed pod needs both. The pod requests the larger, not the sum."""


def init_container(image: str, runtime: Runtime, security: Body, *, is_launcher: bool) -> Body:
    """Writes the files. It runs in the same image, because that is where the users and the programs are."""
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
    """Waits until every host lets the launcher in: where pods start as a gang, no host is ready before it.

    Args:
        image: of the launcher.
        security: of its containers.
        patience: seconds until it gives up.
    """
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
    """The shell script of the init container: one readable text."""
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
    """What the adapter and programs write to."""
    return [{"name": name, "emptyDir": {}} for name in ("run", "home", "tmp")]


def volume_mounts() -> list[Body]:
    """Where containers see it."""
    return [
        {"name": "run", "mountPath": RUN},
        {"name": "run", "mountPath": "/etc/passwd", "subPath": "passwd", "readOnly": True},
        {"name": "run", "mountPath": "/etc/ssh/ssh_config", "subPath": "ssh_config", "readOnly": True},
        {"name": "home", "mountPath": HOME},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the pod
    ]


@cache
def script(name: str) -> str:
    """A file beside this module."""
    return files("generator.runtimes").joinpath("scripts", name).read_text(encoding="utf-8")


def _written(name: str, target: str = "") -> str:
    return _file(target or name, script(name))


def _file(target: str, content: str) -> str:
    text = f"cat > {target} <<'EOF'\n{content}EOF\n"
    return f"{text}chmod 755 {target}\n" if target.startswith("bin/") else text


def _host_patterns() -> str:
    """Return what environment.sh reads as shell variables: patterns for names of variables that hosts do not share."""
    return "\n".join(f"of_{keeps}='{pattern}'" for keeps, pattern in patterns().items())
