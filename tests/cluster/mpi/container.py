"""`python -m tests.cluster.mpi.container ENTRY`: become a container, as process 1 of fresh mount and PID namespaces.

ENTRY is a JSON file, see `Entry`. Runs inside a room. `ENTRY COMMAND`, with a command as a JSON list, runs the command
in the namespaces of a container that runs already.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, TypedDict

from tests.cluster.mpi.plans import Container, Mount, Process
from tests.cluster.mpi.privileges import become

_DEVICES = ("full", "null", "random", "tty", "urandom", "zero")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_LOCKED = 8 << 20  # bytes: systemd's default (src/core/main.c), which container runtimes hand on
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Entry(TypedDict):
    """A container, and what its pod has for it on our side: volumes by name, an /etc/hosts, shared memory.

    `scratch` is an empty folder for what the container writes on its root filesystem.
    """

    container: Container
    scratch: str
    volumes: str
    hosts: str
    shared_memory: str


def main() -> None:
    """Mount, drop every right, run."""
    os.umask(0o022)
    entry: Entry = json.loads(Path(sys.argv[1]).read_text())
    container = entry["container"]
    process, scratch = container["process"], Path(entry["scratch"])
    if len(sys.argv) > 2:
        _enter(scratch / "root", {**process, "arguments": json.loads(sys.argv[2])})
    root = _overlay(container["layers"], scratch)
    group = process["group"] if process["group"] is not None else _group(root, process["user"])
    _kernel(root, entry["shared_memory"])
    if process["named"]:
        _name_user(root, scratch, container)
    _bind(Path(entry["hosts"]), root / "etc/hosts")
    _message(root, scratch, container["message_path"])
    _volumes(root, Path(entry["volumes"]), container["mounts"])
    if container["read_only"]:
        _mount("-o", "remount,bind,ro", root)
    os.chroot(root)
    os.chdir(process["folder"])
    _run(process, group)


def _enter(root: Path, process: Process) -> NoReturn:
    """Become a command in the root filesystem of this container, as its user and with its variables."""
    group = process["group"] if process["group"] is not None else _group(root, process["user"])
    os.chroot(root)
    os.chdir(process["folder"])
    _run(process, group)


def _message(root: Path, scratch: Path, path: str) -> None:
    """Mount a file for the termination message, writable for all.

    Source: kubernetes v1.34.2 pkg/kubelet/kuberuntime/kuberuntime_container.go kubeGenericRuntimeManager.makeMounts
    """
    (scratch / "termination-log").touch()
    (scratch / "termination-log").chmod(0o666)
    _bind(scratch / "termination-log", root / path.lstrip("/"))


def _overlay(layers: list[str], scratch: Path) -> Path:
    """Mount the layers with a separate folder for writes."""
    upper, work, root = (scratch / name for name in ("upper", "work", "root"))
    for folder in (upper, work, root):
        folder.mkdir(parents=True)
    upper.chmod(0o755)
    _mount("-t", "overlay", "-o", f"lowerdir={':'.join(layers)},upperdir={upper},workdir={work}", "overlay", root)
    return root


def _kernel(root: Path, shared_memory: str) -> None:
    """Mount what every container has (OCI runtime specification, "Default Filesystems" and "Default Devices")."""
    for folder in ("proc", "sys", "dev"):
        (root / folder).mkdir(exist_ok=True)
    _mount("-t", "proc", "-o", "nosuid,nodev,noexec", "proc", root / "proc")
    _mount("-t", "sysfs", "-o", "nosuid,nodev,noexec,ro", "sysfs", root / "sys")
    _mount("-t", "tmpfs", "-o", "nosuid,mode=755,size=64k", "tmpfs", root / "dev")
    for device in _DEVICES:
        _bind(Path("/dev") / device, root / "dev" / device)
    for name, target in _LINKS.items():
        (root / "dev" / name).symlink_to(target)
    (root / "dev/pts").mkdir()
    _mount("-t", "devpts", "-o", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5", "devpts", root / "dev/pts")
    (root / "dev/shm").mkdir()
    _bind(Path(shared_memory), root / "dev/shm")


def _volumes(root: Path, volumes: Path, mounts: list[Mount]) -> None:
    """Outer ones first, as runtimes sort them; where nothing is in the image, a place is made."""
    for mount in sorted(mounts, key=lambda mount: mount["target"].rstrip("/").count("/")):
        volume = volumes / mount["volume"]
        source = volume / mount["sub_path"]
        # a folder then, as the kubelet makes it (kubernetes v1.34.2 pkg/kubelet/kubelet_pods.go makeMounts)
        if not source.exists():
            source.mkdir(parents=True)
            source.chmod(volume.stat().st_mode & 0o7777)
        _bind(source, root / mount["target"].lstrip("/"), read_only=mount["read_only"])


def _name_user(root: Path, scratch: Path, container: Container) -> None:
    """An entry in /etc/passwd, without a shell.

    Source: cri-o v1.34.0 server/container_create.go; cri-o v1.34.0 utils/utils.go GeneratePasswd
    """
    process, passwd = container["process"], root / "etc/passwd"
    targets = {mount["target"].rstrip("/") for mount in container["mounts"]}
    user = process["user"]
    if targets & {"/etc", "/etc/passwd"} or any(_users(root, user)):
        return
    group, home = process["group"] or 0, process["environment"].get("HOME", process["folder"])
    text = f"{passwd.read_text()}{user}:x:{user}:{group}:{user} user:{home}:/sbin/nologin\n"
    (scratch / "passwd").write_text(text)
    _bind(scratch / "passwd", passwd)


def _run(process: Process, group: int) -> NoReturn:
    """Become the program; 127 if there is none, as shells have it."""
    environment = {"HOME": _home(process["user"]), **process["environment"]}
    locked = min([_LOCKED, *(limit for limit in resource.getrlimit(resource.RLIMIT_MEMLOCK) if limit >= 0)])
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (locked, locked))
    program = shutil.which(process["arguments"][0], path=environment.get("PATH"))
    become(
        process["user"],
        group,
        process["groups"],
        process["capabilities"],
        may_gain_privileges=process["may_gain_privileges"],
    )
    if program is None:
        os.write(2, f"there is no {process['arguments'][0]} in {environment.get('PATH')}\n".encode())
        os._exit(127)
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    os.execve(program, process["arguments"], environment)


def _group(root: Path, user: int) -> int:
    """The user's group in the image, else 0 (containerd v2.1.4 pkg/oci/spec_opts.go WithUserID)."""
    return next((int(fields[3]) for fields in _users(root, user)), 0)


def _home(user: int) -> str:
    """Return the user's home in the mounted container, else / (runc libcontainer, setupUser)."""
    return next((fields[5] for fields in _users(Path("/"), user)), "/")


def _users(root: Path, user: int) -> Iterator[list[str]]:
    passwd = root / "etc/passwd"  # images without a shell may lack it
    lines = passwd.read_text().splitlines() if passwd.exists() else []
    return (fields for fields in (line.split(":") for line in lines) if fields[2] == str(user))


def _bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount("--bind", source, target)
    if read_only:
        _mount("-o", "remount,bind,ro", target)


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
