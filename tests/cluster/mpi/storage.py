"""The folders and files that a host keeps for the containers of its pod."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.mpi.plans import Pod, Volume

_SHARED_MEMORY = "size=64m,mode=1777"  # what a runtime gives a pod that asks for nothing
_LOCAL = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"


def furnish(pod: Pod, pods: Iterable[Pod], folder: Path) -> None:
    """Make `volumes`, `hosts` and `shared-memory` in a folder for a pod among others."""
    (folder / "shared-memory").mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", _SHARED_MEMORY, "tmpfs", folder / "shared-memory")
    (folder / "hosts").write_text(_hosts(pod, pods))
    for name, volume in pod["volumes"].items():
        _fill(volume, folder / "volumes" / name)


def _hosts(pod: Pod, pods: Iterable[Pod]) -> str:
    """Write /etc/hosts as the kubelet does (managedHostsFileContent), with the names that DNS would resolve.

    Other pods have no entry for a bare hostname, and the first entry of a pod is its own full name.
    """
    own = f"{pod['address']} {' '.join([*pod['names'][:1], pod['hostname']])}\n"
    lines = [f"{other['address']} {' '.join(other['names'])}\n" for other in pods if other["names"]]
    return "".join([_LOCAL, own, *lines])


def _fill(volume: Volume, folder: Path) -> None:
    """A volume with the owner and mode that the kubelet gives it.

    Source: kubernetes v1.34.2 pkg/volume/volume_linux.go changeFilePermission
    """
    folder.mkdir(parents=True)
    if volume["claimed"]:
        _mount("--bind", volume["claimed"], folder)
    if volume["size"] is not None:
        _mount("-t", "tmpfs", "-o", f"size={volume['size']}", "tmpfs", folder)
    for path, file in (volume["files"] or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(base64.b64decode(file["content"]))
        (folder / path).chmod(file["mode"])
    mode = 0o777 if volume["size"] is None else 0o1777
    if volume["group"] is not None:
        mode |= 0o2000
        for owned in (folder, *folder.rglob("*")):
            os.chown(owned, -1, volume["group"])
    folder.chmod(mode)
    if volume["files"] is not None:
        _mount("-o", "remount,ro", folder)


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)
