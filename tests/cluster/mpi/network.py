"""The network of a room: a bridge that all hosts share, and on each host a second interface.

That one leads nowhere, unless the host is attached to secondary networks: those it then has as net1, net2, ….
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

_BRIDGE = "pods"
_PREFIX = "10.77.0"
_DEAD_END = "192.168.9"
_SECONDARY = "fabric"


def address(number: int) -> str:
    """The IP address of a host, numbered from 1."""
    return f"{_PREFIX}.{number}"


NODE = f"{_PREFIX}.254"
"""The address from which probes reach the hosts."""


_MOST_NEIGHBORS = 30
"""Pods that find each other on the bridge. Linux keeps 1,024 addresses of neighbors in all networks of a machine
(net.ipv4.neigh.default.gc_thresh3), so in larger rooms packets between pods go through the node, as with Calico."""


def open_bridge(others: Iterable[str] = ()) -> None:
    """The bridge, with the address of the node and with others, of what is outside the cluster."""
    for setting, value in (("ip_forward", "1"), ("conf/all/send_redirects", "0"), ("conf/default/send_redirects", "0")):
        Path(f"/proc/sys/net/ipv4/{setting}").write_text(value)
    addresses = [f"addr add {address}/32 dev {_BRIDGE}" for address in others]
    _ip(
        [], f"link add {_BRIDGE} type bridge", f"addr add {NODE}/24 dev {_BRIDGE}", *addresses, f"link set {_BRIDGE} up"
    )
    _ip([], f"link add {_SECONDARY} type bridge", f"link set {_SECONDARY} up")


def guard(sandbox: int, firewall: str) -> None:
    """Let nftables keep packets from the network namespace of a process, and in it."""
    inside = ["nsenter", f"--target={sandbox}", "--net", "nft", "--file", "-"]
    subprocess.run(inside, input=firewall, text=True, check=True)


def connect(sandbox: int, own: str, others: Iterable[str] = (), networks: int = 0, pods: int = 1) -> None:
    """Give the network namespace of a process eth0 on the bridge, and net1 as a secondary network gives it.

    Without networks all hosts believe that they reach each other by net1, as they have addresses of one subnet there,
    but nothing arrives: what MPI tries there takes as long as on a cluster whose secondary network is broken. The
    others are what the bridge has more addresses for. `pods` is the number of pods of the room.
    """
    is_routed = pods > _MOST_NEIGHBORS
    last = own.rpartition(".")[2]
    _ip(
        [],
        f"link add pod{last} type veth peer name eth0 netns {sandbox}",
        f"link set pod{last} master {_BRIDGE} up",
    )
    _ip(
        ["nsenter", f"--target={sandbox}", "--net"],
        "link set lo up",
        f"addr add {own}/{32 if is_routed else 24} dev eth0",
        "link set eth0 up",
        *([f"route add {NODE} dev eth0", f"route add {_PREFIX}.0/24 via {NODE}"] if is_routed else []),
        *(f"route add {address}/32 dev eth0" for address in others),
    )
    if not networks:
        _attach(sandbox, "net1", f"{_DEAD_END}.{last}", "")
    for number in range(1, networks + 1):
        _attach(sandbox, f"net{number}", f"192.168.{100 + number}.{last}", f"master {_SECONDARY}")


def _attach(sandbox: int, name: str, own: str, where: str) -> None:
    """A secondary interface, at a bridge if there is one."""
    there = f"{name}-{own.rpartition('.')[2]}"
    _ip([], f"link add {there} type veth peer name {name} netns {sandbox}", f"link set {there} {where} up")
    inside = ["nsenter", f"--target={sandbox}", "--net"]
    _ip(inside, f"addr add {own}/24 dev {name}", f"link set {name} up")


def accepts(own: str, port: int) -> bool:
    """Return True if a host accepts connections on a port; like the kubelet, the bridge asks from the node."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((own, port)) == 0


def _ip(inside: list[str], *commands: str) -> None:
    subprocess.run([*inside, "ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
