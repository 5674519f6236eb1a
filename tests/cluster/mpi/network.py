"""The network of a room: a bridge that all hosts share, and on each host a second interface that leads nowhere."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterable

_BRIDGE = "pods"
_PREFIX = "10.77.0"
_DEAD_END = "192.168.9"


def address(number: int) -> str:
    """The IP address of a host, numbered from 1."""
    return f"{_PREFIX}.{number}"


NODE = f"{_PREFIX}.254"
"""The address from which probes reach the hosts."""


def open_bridge(others: Iterable[str] = ()) -> None:
    """The bridge, with the address of the node and with others, of what is outside the cluster."""
    addresses = [f"addr add {address}/32 dev {_BRIDGE}" for address in others]
    _ip(
        [], f"link add {_BRIDGE} type bridge", f"addr add {NODE}/24 dev {_BRIDGE}", *addresses, f"link set {_BRIDGE} up"
    )


def guard(sandbox: int, firewall: str) -> None:
    """Let nftables keep packets from the network namespace of a process, and in it."""
    inside = ["nsenter", f"--target={sandbox}", "--net", "nft", "--file", "-"]
    subprocess.run(inside, input=firewall, text=True, check=True)


def connect(sandbox: int, own: str, others: Iterable[str] = ()) -> None:
    """Give the network namespace of a process eth0 on the bridge, and net1 as a secondary network gives it.

    All hosts believe that they reach each other by net1, as they have addresses of one subnet there, but nothing
    arrives: what MPI tries there takes as long as on a cluster whose secondary network is broken. The others are
    what the bridge has more addresses for.
    """
    last = own.rpartition(".")[2]
    _ip(
        [],
        f"link add pod{last} type veth peer name eth0 netns {sandbox}",
        f"link set pod{last} master {_BRIDGE} up",
        f"link add dead{last} type veth peer name net1 netns {sandbox}",
        f"link set dead{last} up",
    )
    _ip(
        ["nsenter", f"--target={sandbox}", "--net"],
        "link set lo up",
        f"addr add {own}/24 dev eth0",
        "link set eth0 up",
        *(f"route add {address}/32 dev eth0" for address in others),
        f"addr add {_DEAD_END}.{last}/24 dev net1",
        "link set net1 up",
    )


def accepts(own: str, port: int) -> bool:
    """Whether a host accepts connections there; asked from the bridge, as the kubelet asks from the node."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((own, port)) == 0


def _ip(inside: list[str], *commands: str) -> None:
    subprocess.run([*inside, "ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
