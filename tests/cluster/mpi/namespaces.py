"""Open Linux namespaces that end, with all their processes, together with the process that opened them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_GUARD = Path(__file__).parent.parent / "guard.py"
_TOOLS = ("ip", "mmdebstrap", "mount", "nft", "nsenter", "unshare")
_SETUP = "tests/cluster/mpi/setup.sh installs it"


def guarded(command: list[str | Path], *kinds: str) -> list[str]:
    """Wrap a command as process 1 of its own PID namespace and of other kinds, such as `--mount`.

    The kernel kills `unshare` when this process ends, process 1 when `unshare` ends, and then all other processes in
    the namespace. Its mounts and interfaces vanish with the last process.
    """
    unshare = shutil.which("unshare") or "unshare"
    options = [*kinds, "--pid", "--fork", "--kill-child", "--propagation", "private"]
    return [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), unshare, *options, *map(str, command)]


def lacking() -> str:
    """Return the reason why this machine cannot run pods, or an empty string."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return "the MPI implementations are for Linux on x86-64"
    if os.geteuid():
        return "mounting root filesystems takes root"
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        return f"there is no {', '.join(missing)}; {_SETUP}"
    tried = subprocess.run(
        guarded(["mount", "-t", "tmpfs", "none", "/tmp"], "--mount", "--net"),
        capture_output=True,
        text=True,
        check=False,
    )
    return f"namespaces cannot be had: {tried.stderr.strip()}" if tried.returncode else ""
