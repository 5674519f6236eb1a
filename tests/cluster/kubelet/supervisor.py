"""`python -m tests.cluster.kubelet.supervisor PLAN`: run a node until standard input ends, and remove what it leaves.

Standard input is a pipe that only the test run can write to. So it ends when the test run closes it, or is killed.
The supervisor also ends when the node ends.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import threading
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

from tests.cluster.kubelet import cgroups
from tests.cluster.kubelet.plan import DATA, Plan
from tests.cluster.mpi.namespaces import guarded
from tests.conftest import ROOT

_KINDS = ("--mount", "--net", "--uts", "--ipc", "--cgroup")
_BUFFER = 1 << 16


def main() -> None:
    """Start the node, and end it when the test run ends."""
    plan: Plan = json.loads(Path(sys.argv[1]).read_text())
    cgroups.remove_leftovers()
    name = cgroups.create()
    ours, theirs = socket.socketpair()
    near, address = _addresses()
    inside: list[str | Path] = [sys.executable, "-m", "tests.cluster.kubelet.inside"]
    node = subprocess.Popen(
        guarded([*inside, sys.argv[1], str(theirs.fileno()), address], *_KINDS),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        preexec_fn=partial(cgroups.enter, name),  # noqa: PLW1509 - no other thread runs yet
    )
    theirs.close()
    try:
        _serve(ours, plan["api_server"])
        _link(node.pid, near, address)
        select.select([sys.stdin, ours], [], [])
    finally:
        node.kill()
        node.wait()
        cgroups.remove(name)
        shutil.rmtree(Path(plan["folder"]) / DATA, ignore_errors=True)


def _addresses() -> tuple[str, str]:
    """Return an address of this machine and one of the node, which no other node has while this process runs.

    They are in the range of RFC 6598, which no public server has.
    """
    first = int(IPv4Address("100.64.0.0")) + 2 * (os.getpid() % (1 << 21))
    return str(IPv4Address(first)), str(IPv4Address(first + 1))


def _link(node: int, near: str, address: str) -> None:
    """Let the API server reach the node. The kernel removes both ends when the namespaces of the node end."""
    own = f"node{os.getpid()}"
    commands = [
        f"link add {own} type veth peer name uplink netns {node}",
        f"address add {near}/31 dev {own}",
        f"link set {own} up",
    ]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
    inside = ["nsenter", f"--target={node}", "--net", "ip", "-batch", "-"]
    subprocess.run(inside, input=f"link set uplink up\naddress add {address}/31 dev uplink\n", text=True, check=True)


def _serve(ours: socket.socket, port: int) -> None:
    """Answer the node's requests to 127.0.0.1."""
    _, [listener], _, _ = socket.recv_fds(ours, 1, 1)
    threading.Thread(target=_relay, args=(socket.socket(fileno=listener), port), daemon=True).start()


def _relay(listener: socket.socket, port: int) -> None:
    """Connect the clients of a socket of the node's network to a port of this network.

    A socket stays in the network in which it was made, so this process has a foot in both.
    """
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", port))
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(_BUFFER):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # either end is closed
        for each in (source, target):
            each.close()


if __name__ == "__main__":
    main()
