"""Connections to the API server that are kept: a TLS handshake costs both sides more than most answers do."""

from __future__ import annotations

import http.client
import ssl
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_STALE = 30  # seconds; the API server closes what is idle for 90


class Connections:
    """Idle connections to one server, for any number of threads."""

    def __init__(self) -> None:
        self._idle: deque[tuple[float, http.client.HTTPSConnection]] = deque()

    @contextmanager
    def connection(self, port: int, context: ssl.SSLContext) -> Iterator[http.client.HTTPSConnection]:
        """A connection for one request; it is kept for the next if nothing is raised meanwhile."""
        server = self._kept() or http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        try:
            yield server
        except BaseException:
            server.close()
            raise
        self._idle.append((time.monotonic(), server))

    def close(self) -> None:
        """Close all of them."""
        while self._idle:
            self._idle.pop()[1].close()

    def _kept(self) -> http.client.HTTPSConnection | None:
        """The one used last, as it is the least likely to have been closed by the server."""
        try:
            since, server = self._idle.pop()
        except IndexError:
            return None
        if time.monotonic() - since < _STALE:
            return server
        server.close()
        return None
