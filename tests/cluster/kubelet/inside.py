"""`python -m tests.cluster.kubelet.inside PLAN SOCKET ADDRESS`: run the programs of a node.

It is process 1 of fresh namespaces. Everything that the programs write outside of the node's folder is on file systems
that vanish with the namespaces.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.cluster.kubelet import cgroups, settings
from tests.cluster.kubelet.plan import DATA, Plan

_TEMPORARY = ("/run", "/var/log", "/var/lib/kubelet", "/var/lib/cni")
# The kubelet writes these settings of the whole machine (kubernetes v1.34.2 pkg/kubelet/cm/container_manager_linux.go
# setupKernelTunables). Here it writes into files.
_KERNEL = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# The node reports more than this machine has, or the scheduler would place a job of two hosts at most. Limits are real.
_CORES, _MEMORY = 96, 256 << 20  # of memory: KiB
_STARTING = 60  # seconds
_HEALTH = 10248


def main() -> None:
    """Prepare the namespaces, start the programs in order, and collect orphans forever."""
    plan: Plan = json.loads(Path(sys.argv[1]).read_text())
    ours = socket.socket(fileno=int(sys.argv[2]))
    folder = Path(plan["folder"]) / DATA
    os.umask(0o022)
    _prepare(plan, folder)
    with socket.create_server(("127.0.0.1", plan["api_server"])) as listener:
        socket.send_fds(ours, [b"x"], [listener.fileno()])
    _wait("the link to the API server", lambda: _is_up(sys.argv[3]))
    _write_settings(plan, folder)
    here = [sys.executable, "-m", "tests.cluster.kubelet.registry"]
    _start(folder, "registry", [*here, str(settings.REGISTRY_PORT), str(folder / "images.json")])
    _start(folder, "containerd", ["containerd", f"--config={folder / 'containerd.toml'}"])
    _wait("containerd", lambda: Path("/run/containerd/containerd.sock").exists())
    _start(folder, "coredns", [plan["coredns"], f"-conf={folder / 'Corefile'}"])
    _start(folder, "kubelet", _kubelet(plan, folder, sys.argv[3]))
    _wait("kubelet", _is_healthy)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(1)


def _prepare(plan: Plan, folder: Path) -> None:
    kernel = folder / "kernel"
    kernel.mkdir(parents=True)
    mounted = cgroups.hierarchies()
    _run("mount", "-t", "proc", "proc", "/proc")
    _run("mount", "-t", "sysfs", "sysfs", "/sys")
    for command in cgroups.mount_again(mounted):
        _run(*command)
    for path in _TEMPORARY:
        Path(path).mkdir(exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", path)
    for name, value in _KERNEL.items():
        file = kernel / name.replace("/", "-")
        file.write_text(value)
        _run("mount", "--bind", str(file), f"/proc/sys/{name}")
    _oversize(folder)
    _run("hostname", plan["name"])
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", f"{settings.DNS}/32", "dev", "lo")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _oversize(folder: Path) -> None:
    """Let cAdvisor see a larger machine.

    cAdvisor counts folders (cadvisor v0.52.1 utils/sysinfo/sysinfo.go getCPUTopology).
    """
    for path in ("/sys/devices/system/node", "/sys/devices/system/cpu"):
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", path)
    for number in range(_CORES):
        Path(f"/sys/devices/system/cpu/cpu{number}").mkdir()
    memory = re.sub(r"(?m)^MemTotal: .*$", f"MemTotal: {_MEMORY} kB", Path("/proc/meminfo").read_text())
    (folder / "kernel" / "meminfo").write_text(memory)
    _run("mount", "--bind", str(folder / "kernel" / "meminfo"), "/proc/meminfo")


def _write_settings(plan: Plan, folder: Path) -> None:
    files = {
        "containerd.toml": settings.containerd(folder),
        "cni/pods.conflist": settings.network(),
        f"registries/{settings.REGISTRY}/hosts.toml": settings.hosts(),
        "Corefile": settings.corefile(Path(plan["reader"])),
        "kubelet.yaml": settings.kubelet([*plan["taints"]]),
        "images.json": json.dumps(plan["images"]),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _kubelet(plan: Plan, folder: Path, address: str) -> list[str]:
    return [
        plan["kubelet"],
        f"--config={folder / 'kubelet.yaml'}",
        f"--kubeconfig={plan['kubeconfig']}",
        f"--root-dir={folder / 'kubelet'}",
        f"--cert-dir={folder / 'kubelet-certificates'}",
        f"--hostname-override={plan['name']}",
        f"--node-ip={address}",
        f"--node-labels={','.join(f'{name}={value}' for name, value in plan['labels'].items())}",
        "--v=2",
    ]


def _start(folder: Path, name: str, command: list[str]) -> None:
    with (folder.parent / f"{name}.log").open("ab") as log:
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def _wait(name: str, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _STARTING
    while not ready():
        if time.monotonic() > deadline:
            sys.exit(f"{name} is not ready after {_STARTING} s")
        time.sleep(0.05)


def _is_up(address: str) -> bool:
    shown = ["ip", "-brief", "address", "show", "dev", "uplink"]
    return f"{address}/" in subprocess.run(shown, capture_output=True, text=True, check=False).stdout


def _is_healthy() -> bool:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", _HEALTH, timeout=2)) as server:
            server.request("GET", "/healthz")
            return server.getresponse().status == http.client.OK
    except OSError:
        return False


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
