"""Call the API server with a thin client that returns exact answers and warnings.

kubectl and the `kubernetes` package hide one or the other, and take a process or a generated class for each request.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from email.message import Message
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from tests.cluster.connections import Connections

Body = dict[str, Any]
T = TypeVar("T")
_APPLY = "application/apply-patch+yaml"
_INITIALIZING = "storage is (re)initializing"
_STARTING = 60  # seconds


class RefusedError(RuntimeError):
    """The API server said no.

    Attributes:
        status: the HTTP status.
        reason: such as `Forbidden`.
        message: its words.
        warnings: what it warned about as well.
    """

    def __init__(self, request: str, status: int, answer: Body, warnings: tuple[str, ...] = ()) -> None:
        self.status = status
        self.reason = str(answer.get("reason", ""))
        self.message = str(answer.get("message", answer))
        self.warnings = warnings
        super().__init__(f"{request}: {status} {self.reason}: {self.message}")


@dataclass(frozen=True, slots=True)
class Answer:
    """The object and the warnings of an answer of the API server."""

    body: Body
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Client:
    """Someone who talks to the API server.

    Attributes:
        port: of 127.0.0.1.
        context: whom to trust.
        headers: who is talking.
        person: headers that say whom they impersonate; a name may be there several times.
        connections: shared by everyone who is derived from this client.
    """

    port: int
    context: ssl.SSLContext
    headers: Mapping[str, str] = field(default_factory=dict)
    person: tuple[tuple[str, str], ...] = ()
    connections: Connections = field(default_factory=Connections)

    def with_token(self, token: str) -> Client:
        """Return a client of the same server with this bearer token."""
        return replace(self, headers={"Authorization": f"Bearer {token}"})

    def as_group(self, group: str) -> Client:
        """Impersonate a member of a group."""
        return self.as_person(f"someone-in-{group}", (group,))

    def as_person(
        self, user: str, groups: Iterable[str] = (), uid: str = "", extra: Mapping[str, Iterable[str]] | None = None
    ) -> Client:
        """Impersonate a user; the headers are in api v0.34.2 authentication/v1/types.go ImpersonateUserHeader."""
        person = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
        person += [("Impersonate-Uid", uid)] if uid else []
        for key, values in (extra or {}).items():
            person += [(f"Impersonate-Extra-{quote(key, safe='')}", value) for value in values]
        return replace(self, person=tuple(person))

    def as_user(self, user: str) -> Client:
        """Impersonate a user with the groups that belong to the name."""
        return replace(self, headers={**self.headers, "Impersonate-User": user})

    def request(self, method: str, path: str, body: object = None, content: str = "application/json") -> Answer:
        """Send a request.

        Raises:
            RefusedError: the answer is an error.
        """
        return self.send(method, path, None if body is None else json.dumps(body), content)

    def send(self, method: str, path: str, sent: str | None, content: str) -> Answer:
        """Send a request with this text as its body, which need not be valid JSON.

        As client-go does, send the request again while the API server starts the storage of a kind. The server then
        answers 429 (apiserver v0.34.2 pkg/storage/cacher/ready.go ready.checkAndReadGeneration).

        Raises:
            RefusedError: the answer is an error.
        """
        deadline = time.monotonic() + _STARTING
        while True:
            try:
                return self._send_once(method, path, sent, content)
            except RefusedError as refused:
                if _INITIALIZING not in refused.message or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def _send_once(self, method: str, path: str, sent: str | None, content: str) -> Answer:
        with self.connections.connection(self.port, self.context) as server:
            server.request(method, path, sent, self._headers(content))  # type: ignore[arg-type] # it asks for items
            response = server.getresponse()
            text = response.read().decode()
        answer = json.loads(text) if text.startswith("{") else {"message": text}
        warnings = tuple(response.headers.get_all("Warning") or ())
        if response.status >= http.client.BAD_REQUEST:
            raise RefusedError(f"{method} {path}", response.status, answer, warnings)
        return Answer(answer, warnings)

    def _headers(self, content: str) -> Message:
        """A mapping that may say a name several times."""
        headers = Message()
        said = {**self.headers, "Content-Type": content, "Accept": "application/json"}
        for name, value in (*said.items(), *self.person):
            headers[name] = value
        return headers

    def apply(self, body: Body, manager: str = "argocd-controller", *, dry_run: bool = False) -> Answer:
        """Server-side apply as Argo CD does it, refusing unknown and repeated fields.

        Raises:
            RefusedError: the API server, an admission plugin or a webhook said no.
        """
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        query |= {"dryRun": "All"} if dry_run else {}
        return self.request("PATCH", f"{self.path_of(body)}?{urlencode(query)}", body, _APPLY)

    def create(self, body: Body, *, dry_run: bool = False) -> Answer:
        """Create, refusing unknown and repeated fields.

        Raises:
            RefusedError: the API server, an admission plugin or a webhook said no.
        """
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        metadata = body["metadata"]
        collection = self.path(body["apiVersion"], body["kind"], metadata.get("namespace", ""))
        return self.request("POST", f"{collection}?{urlencode(query)}", body)

    def accepts(self, body: Body) -> bool:
        """Return True if the API server would create an object."""
        try:
            self.create(body, dry_run=True)
        except RefusedError:
            return False
        return True

    def read(self, body: Body) -> Body:
        """An object as it is stored; only the identity of `body` counts."""
        return self.request("GET", self.path_of(body)).body

    def exists(self, body: Body) -> bool:
        """Return True if an object with this identity is stored."""
        try:
            self.read(body)
        except RefusedError as refused:
            if refused.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def items(self, api_version: str, kind: str, namespace: str = "") -> list[Body]:
        """Return all objects of a kind, in one namespace or in all."""
        found: list[Body] = self.request("GET", self.path(api_version, kind, namespace)).body["items"]
        return found

    def delete(self, body: Body) -> None:
        """Delete an object, and with it what it owns; fine if it is gone already."""
        try:
            self.request("DELETE", self.path_of(body), {"propagationPolicy": "Background"})
        except RefusedError as refused:
            if refused.status != http.client.NOT_FOUND:
                raise

    def path_of(self, body: Body) -> str:
        """Return the URL path of an object."""
        metadata = body["metadata"]
        collection = self.path(body["apiVersion"], body["kind"], metadata.get("namespace", ""))
        return f"{collection}/{quote(metadata['name'], safe='')}"

    def path(self, api_version: str, kind: str, namespace: str = "") -> str:
        """Return the URL path of a kind's collection."""
        resource = self.resource(api_version, kind)["name"]
        return f"{_root(api_version)}/{f'namespaces/{namespace}/' if namespace else ''}{resource}"

    def resource(self, api_version: str, kind: str) -> Body:
        """Return the discovery entry of a kind."""
        if (api_version, kind) not in self._resources:
            for resource in self.request("GET", _root(api_version)).body["resources"]:
                if "/" not in resource["name"]:
                    self._resources[api_version, resource["kind"]] = resource
        return self._resources[api_version, kind]

    def serves(self, api_version: str, kind: str) -> bool:
        """Return True if a served version of an API group has the kind."""
        try:
            self.resource(api_version, kind)
        except KeyError:
            return False
        return True

    @cached_property
    def _resources(self) -> dict[tuple[str, str], Body]:
        return {}


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def wait_until(what: str, holds: Callable[[], bool], seconds: float = 120) -> None:
    """Return once it holds.

    Raises:
        TimeoutError: it never did.
    """
    wait_for(what, lambda: holds() or None, seconds)


def wait_for(what: str, found: Callable[[], T | None], seconds: float = 120) -> T:
    """Call `found` until it returns a value, and return the value.

    Raises:
        TimeoutError: it stayed None.
    """
    deadline = time.monotonic() + seconds
    while (result := found()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.1)
    return result
