"""The two judges of a case: mpigen in this process, and a real API server that is asked without storing anything."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from generator.checks.run import check_text, check_together
from generator.schemas.catalog import Catalog, Entry
from generator.schemas.embedded import Engine
from tests.cluster.client import Client
from tests.cluster.differential import templates
from tests.cluster.differential.cases import NAMESPACE, Body, Case
from tests.cluster.versions import set_targets

_THREADS = 4
_CREATE = {"dryRun": "All", "fieldValidation": "Strict"}
_APPLY = {**_CREATE, "fieldManager": "argocd-controller", "force": "true"}
_LONGEST = 200  # letters of a refusal that are worth keeping
_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # another one each time
_SUFFIX = re.compile('(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}(?=")')  # of a generated name


_UNASKED = ("fabric/", "mpi/", "reference/", "schema/deprecated", "secret/", "trainjob/")
"""The checks that are about something else, …"""
_ASKED = frozenset({"mpi/image", "mpi/job-order", "trainjob/runtime-kind"})
"""… except for these: a webhook rejects the object, or the API server rejects its Jobs."""
QUOTAS = frozenset(
    f"quota/{name}" for name in ("amount", "check-flavor", "label", "limit", "order", "repeated", "scope")
)
"""The checks of quotas that are about one object."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answers of the API server to one case.

    Attributes:
        create: the rejection of a create, as kubectl sends it, or else of an object that its controller makes of it,
            see `templates`; empty if the API server accepts all of them.
        apply: the same for a server-side apply, as Argo CD sends it; None for an object without a name.
    """

    create: str
    apply: str | None


class Mpigen:
    """Validate the form of an object with mpigen, in this process.

    Findings about MPI are left out, because the API server accepts such runtimes: `test_mpi_checks.py` tests them.
    Findings about quota arithmetic, secret values, operators of fabrics, references and deprecations are left out
    too: the API server accepts a deprecated field, and most names of objects that do not exist.
    """

    def __init__(self) -> None:
        self._engine = Engine(Catalog.bundled(set_targets("default")))

    def findings(self, text: str) -> list[tuple[str, str]]:
        """Return severity and message of each finding."""
        raw = text.encode()
        checked = check_text(raw, "case.yaml", self._engine)
        together = check_together(checked.related, self._engine.targets, lambda _: raw)
        both = checked.with_findings(together).in_order()
        found = [each for each in both if each.check in QUOTAS or not each.check.startswith("quota/")]
        of_form = [each for each in found if each.check in _ASKED or not each.check.startswith(_UNASKED)]
        return [(each.severity, f"{each.path}: {each.message}") for each in of_form]


class ApiServer:
    """Dry runs with strict field validation, on connections that stay open meanwhile."""

    def __init__(self, client: Client, seeds: Mapping[str, Body]) -> None:
        self._client, self._seeds = client, seeds
        self._entries = Catalog.bundled(set_targets("default")).entries
        self._own = threading.local()

    def answers(self, cases: Iterable[Case]) -> dict[str, Answer]:
        """Return the answers of the API server by case name."""
        asked = list(cases)
        with (
            ExitStack() as connections,
            ThreadPoolExecutor(_THREADS, initializer=self._connect, initargs=(connections,)) as threads,
        ):
            given = list(threads.map(self._answer, asked))
        return dict(zip((case.name for case in asked), given, strict=True))

    def _connect(self, connections: ExitStack) -> None:
        """Give this thread a connection."""
        client = self._client
        server = http.client.HTTPSConnection("127.0.0.1", client.port, timeout=60, context=client.context)
        self._own.server = connections.enter_context(closing(server))

    def _answer(self, case: Case) -> Answer:
        text, seed = case.text(self._seeds), self._seeds[case.seed]
        body = _read(text)
        collection = self._collection(body, seed)
        create, stored = self._send("POST", f"{collection}?{urlencode(_CREATE)}", text, "application/yaml")
        made = "" if create or seed["kind"] not in templates.TEMPLATED else self._reject_made(stored)
        name = _metadata(body).get("name")
        if not isinstance(name, str) or not name:
            return Answer(create or made, None)
        apply, _ = self._apply(collection, name, text)
        return Answer(create or made, apply or made)

    def _reject_made(self, body: Body) -> str:
        """Return the first rejection of the objects that controllers make of an object; empty if there is none."""
        for made in templates.MADE.get(body["kind"], templates.make_nothing)(body):
            collection, text = self._collection(made, made), json.dumps(made)
            if made["kind"] == "JobSet":  # Trainer applies it
                rejection, answer = self._apply(collection, made["metadata"]["name"], text)
            else:
                rejection, answer = self._send("POST", f"{collection}?{urlencode(_CREATE)}", text, "application/json")
            rejection = f"{made['kind']} {rejection}" if rejection else self._reject_made(answer)
            if rejection:
                return rejection[:_LONGEST]
        return ""

    def _apply(self, collection: str, name: str, text: str) -> tuple[str, Body]:
        path = f"{collection}/{quote(name, safe='')}?{urlencode(_APPLY)}"
        return self._send("PATCH", path, text, "application/apply-patch+yaml")

    def _collection(self, body: Body, seed: Body) -> str:
        """Return the collection of the object's kind, or the seed's collection if the kind or place is unusable."""
        entry = self._entry(body) or self._entry(seed)
        assert entry
        namespace = _metadata(body).get("namespace")
        namespace = namespace if isinstance(namespace, str) and namespace else NAMESPACE
        place = f"/namespaces/{quote(namespace, safe='')}" if entry.scope == "Namespaced" else ""
        root = "/apis" if "/" in entry.api_version else "/api"
        return f"{root}/{entry.api_version}{place}/{entry.plural}"

    def _entry(self, body: Body) -> Entry | None:
        identity = body.get("apiVersion"), body.get("kind")
        return self._entries.get(identity) if all(isinstance(part, str) for part in identity) else None  # type: ignore[arg-type]

    def _send(self, method: str, path: str, text: str, content: str) -> tuple[str, Body]:
        """Return the rejection, empty if there is none, and the object with all defaults."""
        server: http.client.HTTPSConnection = self._own.server
        headers = {**self._client.headers, "Content-Type": content, "Accept": "application/json"}
        server.request(method, path, text.encode(), headers)
        try:
            response = server.getresponse()
        except http.client.RemoteDisconnected:  # a panic of the API server; the next request connects again
            return "the API server closes the connection", {}
        answer = response.read().decode()
        if response.status < http.client.BAD_REQUEST:
            return "", json.loads(answer)
        said = json.loads(answer)["message"] if answer.startswith("{") else answer
        said = _SUFFIX.sub("<suffix>", _UID.sub("<uid>", f"{response.status}: {said}"))
        return said[:_LONGEST], {}


def _read(text: str) -> Body:
    """The object, to find its place."""
    body: Any = yaml.load(text, yaml.CSafeLoader)
    return body if isinstance(body, dict) else {}


def _metadata(body: Body) -> Body:
    metadata = body.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
