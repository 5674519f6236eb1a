"""Answer requests to addresses outside the hosts of a room."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterable
from typing import Any

from tests.cluster.mpi.plans import Target

_WORD = b"here\n"


class _Server(socketserver.ThreadingMixIn):
    daemon_threads = True
    allow_reuse_address = True


class _Tcp(_Server, socketserver.TCPServer):
    class Handler(socketserver.BaseRequestHandler):
        """Answer every connection."""

        def handle(self) -> None:
            self.request.sendall(_WORD)


class _Udp(_Server, socketserver.UDPServer):
    class Handler(socketserver.BaseRequestHandler):
        """Answer every datagram."""

        def handle(self) -> None:
            self.request[1].sendto(_WORD, self.client_address)


_SERVERS: dict[str, Any] = {"TCP": _Tcp, "UDP": _Udp}


def serve(targets: Iterable[Target]) -> None:
    """Answer at all of them, until the room is closed."""
    for target in targets:
        server = _SERVERS[target["protocol"]]
        listening = server((target["address"], target["port"]), server.Handler)
        threading.Thread(target=listening.serve_forever, daemon=True).start()
