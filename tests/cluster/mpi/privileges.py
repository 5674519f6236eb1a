"""The rights of a process in a container, as runc sets them from what the kubelet asks for."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

# fmt: off
_CAPABILITIES = (  # by number, include/uapi/linux/capability.h
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)
_DEFAULT = {  # containerd v2.1.4 pkg/oci/spec.go defaultUnixCaps
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
}
# fmt: on
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38


def capabilities(wanted: dict[str, list[str]]) -> list[str]:
    """The names of what is left of the default after `drop` and `add` of a container's securityContext.

    Raises:
        ValueError: there is no such capability.
    """
    drop, add = set(wanted.get("drop", ())), set(wanted.get("add", ()))
    left = (set() if "ALL" in drop else _DEFAULT - drop) | (set(_CAPABILITIES) if "ALL" in add else add)
    if unknown := (left | drop) - {*_CAPABILITIES, "ALL"}:
        raise ValueError(f"no such capability: {', '.join(sorted(unknown))}")
    return sorted(left)


def become(user: int, group: int, groups: list[int], kept: list[str], *, may_gain_privileges: bool) -> None:
    """Become a user for good. A user other than root keeps no capability, and programs gain only `kept`."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for number in range(last + 1):
        if number >= len(_CAPABILITIES) or _CAPABILITIES[number] not in kept:
            _prctl(_PR_CAPBSET_DROP, number)
    if not may_gain_privileges:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), f"prctl {option} {value}")
