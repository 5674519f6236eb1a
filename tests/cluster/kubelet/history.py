"""Every state of pods, as the API server reports it while the kubelet and controllers write it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from tests.cluster.client import Body, Client
from tests.cluster.mpi.gangs import Gang
from tests.cluster.training import JOB, ROLE


@dataclass(frozen=True, slots=True)
class History:
    """States of pods, oldest first.

    Attributes:
        admin: a client that may do everything.
        node: the name of the node that the pods should run on.
    """

    admin: Client
    node: str
    _states: list[Body]

    def states(self, gang: Gang, role: str = "") -> list[Body]:
        """Return the recorded states of a job's pods, of one role (`node` or `launcher`) or of both."""
        wanted = {JOB: gang.name, **({ROLE: role} if role else {})}
        return [pod for pod in [*self._states] if wanted.items() <= pod["metadata"].get("labels", {}).items()]

    def pods(self, gang: Gang, role: str = "") -> list[Body]:
        """Return the last state of each pod that a job ever had. A deleted pod keeps the state before its deletion."""
        return [*{pod["metadata"]["uid"]: pod for pod in self.states(gang, role)}.values()]

    def log(self, pod: Body, container: str = "node") -> list[tuple[datetime, str]]:
        """Return the lines of a container's log with their times, from the kubelet of a pod that still exists."""
        query = urlencode({"container": container, "timestamps": "true"})
        identity = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
        text: str = self.admin.request("GET", f"{self.admin.path_of(identity)}/log?{query}").body["message"]
        lines = (line.split(" ", 1) for line in text.splitlines())
        return [(time_of(time), line) for time, line in lines]

    @contextmanager
    def following(self, pod: Body, container: str = "node") -> Iterator[list[str]]:
        """Yield the lines of a container's log, to which new lines are added until the end of the block."""
        identity = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
        query = urlencode({"container": container, "follow": "true"})
        lines: list[str] = []
        with _streaming(self.admin, f"{self.admin.path_of(identity)}/log?{query}", lines.append):
            yield lines


@contextmanager
def recorded(admin: Client, node: str) -> Iterator[History]:
    """Record the states of the pods of all namespaces, from the start of the recording."""
    states: list[Body] = []

    def record(line: str) -> None:
        event = json.loads(line)
        if event["type"] in ("ADDED", "MODIFIED"):
            states.append(event["object"])

    with _streaming(admin, f"{admin.path('v1', 'Pod')}?watch=true", record):
        yield History(admin, node, states)


@contextmanager
def _streaming(admin: Client, path: str, take: Callable[[str], None]) -> Iterator[None]:
    """Pass each line of an endless answer to a function, until the end of the block."""
    server = http.client.HTTPSConnection("127.0.0.1", admin.port, context=admin.context)
    server.request("GET", path, headers=dict(admin.headers))
    response = server.getresponse()
    assert response.status == http.client.OK, response.read()

    def read() -> None:
        with suppress(OSError, ValueError, http.client.HTTPException):  # closed while it is read
            for line in response:
                take(line.decode(errors="replace").rstrip("\n"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        with suppress(OSError):  # the server closed it
            server.sock.shutdown(socket.SHUT_RDWR)
        reader.join()
        server.close()


def status_of(pod: Body, container: str = "node") -> Body:
    """Return the status of a container or init container; empty if the kubelet has not reported it."""
    status = pod["status"]
    known = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return next((found for found in known if found["name"] == container), {})


def terminated(pod: Body, container: str = "node") -> Body:
    """Return the end of a container: exit code, reason, message and times; empty while it runs."""
    ended: Body = status_of(pod, container).get("state", {}).get("terminated", {})
    return ended


def ready_since(pod: Body) -> datetime | None:
    """Return the time since which the readiness probes of a pod succeed; None if they do not."""
    found = (one for one in pod["status"].get("conditions", []) if one["type"] == "Ready" and one["status"] == "True")
    return next((time_of(one["lastTransitionTime"]) for one in found), None)


def writers(pod: Body) -> set[str]:
    """Return the programs that wrote the status of the pod."""
    entries = pod["metadata"].get("managedFields", [])
    return {entry["manager"].partition("-v")[0] for entry in entries if entry.get("subresource") == "status"}


def time_of(text: str) -> datetime:
    """Return a time of the API server."""
    return datetime.fromisoformat(text)
