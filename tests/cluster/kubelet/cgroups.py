"""Control groups of a node: one subtree in each hierarchy of cgroup v1, which looks like the root inside the node."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "mpigen-node-"
_NEEDED = {"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids"}
_REMOVING = 20  # seconds, until the last process of a killed namespace is gone


def hierarchies() -> dict[str, str]:
    """Return the mounted hierarchies: the name of the folder → the options that mount it again."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        target = fields.split()[4]
        kind, _, options = rest.split()
        if kind == "cgroup" and Path(target).parent == _ROOT:
            chosen = [each for each in options.split(",") if each not in ("rw", "ro", "xattr")]
            found[Path(target).name] = ",".join(["none", *chosen] if chosen[0].startswith("name=") else chosen)
    return found


def lacking() -> str:
    """Return the reason why no kubelet can limit containers here, or an empty string."""
    mounted = {each for options in hierarchies().values() for each in options.split(",")}
    missing = sorted(_NEEDED - mounted)
    if missing:
        return f"/sys/fs/cgroup does not have the hierarchies of cgroup v1 for {', '.join(missing)}"
    return "" if os.access(_ROOT / "memory", os.W_OK) else "/sys/fs/cgroup/memory is read-only"


def name_of(process: int | str) -> str:
    """Return the name of the subtree that a process creates."""
    return f"{_PREFIX}{process}"


def create() -> str:
    """Create the subtree of this process, and return its name."""
    name = name_of(os.getpid())
    for hierarchy in hierarchies():
        folder = _ROOT / hierarchy / name
        folder.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, which then can have no process
            if (folder / setting).exists():
                (folder / setting).write_text((folder.parent / setting).read_text())
    return name


def enter(name: str) -> None:
    """Move this process into a subtree."""
    for hierarchy in hierarchies():
        (_ROOT / hierarchy / name / "cgroup.procs").write_text(str(os.getpid()))


def remove(name: str) -> None:
    """Remove a subtree, as soon as its last process is gone."""
    deadline = time.monotonic() + _REMOVING
    while time.monotonic() < deadline:
        for hierarchy in hierarchies():
            for folder, _, _ in os.walk(_ROOT / hierarchy / name, topdown=False):
                with suppress(OSError):  # it has processes, or another run removes it too
                    Path(folder).rmdir()
        if not any((_ROOT / hierarchy / name).exists() for hierarchy in hierarchies()):
            return
        time.sleep(0.05)


def remove_leftovers() -> None:
    """Remove the subtrees of processes that were killed before they could."""
    names = {found.name for hierarchy in hierarchies() for found in (_ROOT / hierarchy).glob(f"{_PREFIX}*")}
    for name in names:
        if not Path(f"/proc/{name.removeprefix(_PREFIX)}").exists():
            remove(name)


def mount_again(names: dict[str, str]) -> list[list[str]]:
    """Return the commands that mount the hierarchies in a new cgroup namespace, where the subtree is the root."""
    commands = [["mount", "-t", "tmpfs", "-o", "mode=755", "cgroup", str(_ROOT)]]
    for name, options in names.items():
        commands.append(["mkdir", str(_ROOT / name)])
        commands.append(["mount", "-t", "cgroup", "-o", options, "cgroup", str(_ROOT / name)])
    return commands
