"""Ask each target for a connection and print a list of outcomes: `answered`, `arrived` or `dropped`.

`answered`: the server replied. `arrived`: the host replied, even if the port is closed. `dropped`: no reply arrived,
or the packet was not sent.
"""

from __future__ import annotations

import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.cluster.mpi.plans import Target

_PATIENCE = 3  # seconds
_AT_ONCE = 64
_KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}


def main() -> None:
    """Ask all of them at once."""
    targets: list[Target] = json.loads(sys.argv[1])
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        json.dump(list(pool.map(_ask, targets)), sys.stdout)


def _ask(target: Target) -> str:
    with socket.socket(socket.AF_INET, _KINDS[target["protocol"]]) as asking:
        asking.settimeout(_PATIENCE)
        try:
            asking.connect((target["address"], target["port"]))
            if target["protocol"] == "UDP":
                asking.send(b"?")
        except ConnectionRefusedError:
            return "arrived"
        except (TimeoutError, PermissionError):
            return "dropped"
        return _hear(asking, otherwise="dropped" if target["protocol"] == "UDP" else "arrived")


def _hear(asking: socket.socket, otherwise: str) -> str:
    try:
        return "answered" if asking.recv(64) else "arrived"
    except ConnectionRefusedError:  # ICMP: no such port
        return "arrived"
    except TimeoutError:
        return otherwise


if __name__ == "__main__":
    main()
