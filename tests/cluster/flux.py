"""Run Flux's kustomize-controller, which applies a Git repository of this machine.

The tests play source-controller, whose rules are few: they read the GitRepository's `ref` and `sparseCheckout`, pack
these folders of the commit with `git archive`, serve the archive by HTTP, and write `status.artifact` of the
GitRepository (source-controller v1.7.3 internal/controller/gitrepository_controller.go
GitRepositoryReconciler.reconcileArtifact). For an
OCIRepository, they pack the folder that `flux push artifact --path` would push from HEAD: its files are at the root of
the archive, and the revision is `tag@digest` (source-controller v1.7.3 internal/controller/ocirepository_controller.go
OCIRepositoryReconciler.getRevision; source-controller v1.7.3 internal/controller/ocirepository_controller.go
OCIRepositoryReconciler.reconcileArtifact).
kustomize-controller is upstream's, with the rights of Flux's installation: it is a cluster admin (flux2 v2.7.5
manifests/rbac/reconciler.yaml), and impersonates the account of a Kustomization.
"""

from __future__ import annotations

import hashlib
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.cluster.argocd import Repository
from tests.cluster.build import build
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.controllers import kubeconfig, token
from tests.cluster.install import install
from tests.cluster.processes import free_ports, listens

API_VERSION = "kustomize.toolkit.fluxcd.io/v1"
SOURCE_VERSION = "source.toolkit.fluxcd.io/v1"
NAMESPACE = "flux-system"
_RBAC = "rbac.authorization.k8s.io"
_KINDS_OF_REFERENCE = {"branch": "refs/heads/{0}", "tag": "refs/tags/{0}", "name": "{0}", "commit": "{0}"}
_MERGE = "application/merge-patch+json"


@dataclass(slots=True)
class Artifacts:
    """An HTTP server of archives: path → content."""

    content: dict[str, bytes] = field(default_factory=dict)
    port: int = 0

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the archives until the block ends."""
        content = self.content

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = content.get(self.path)
                self.send_response(200 if found is not None else 404)
                self.send_header("Content-Length", str(len(found or b"")))
                self.end_headers()
                self.wfile.write(found or b"")

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


@dataclass(frozen=True, slots=True)
class Flux:
    """A Flux that runs.

    Attributes:
        cluster: the control plane.
        repository: the repository for releases.
        artifacts: the server of the repository's archives.
    """

    cluster: Cluster
    repository: Repository
    artifacts: Artifacts

    @property
    def admin(self) -> Client:
        """Return a client that may do everything."""
        return self.cluster.admin

    def end(self) -> None:
        """End kustomize-controller."""
        self.cluster.processes.end("flux")

    def kustomizations(self) -> dict[str, Kustomization]:
        """Return name → Kustomization."""
        items = self.admin.items(API_VERSION, "Kustomization", NAMESPACE)
        return {item["metadata"]["name"]: Kustomization(item) for item in items}

    def refresh(self) -> str:
        """Write the newest archive into the status of each source, and return the last revision."""
        revision = ""
        for item in self.admin.items(SOURCE_VERSION, "GitRepository", NAMESPACE):
            ((key, value),) = item["spec"]["ref"].items()
            reference = _KINDS_OF_REFERENCE[key].format(value)
            commit = self.repository.git("rev-parse", f"{reference}^{{commit}}").strip()
            revision = f"{value}@sha1:{commit}"
            self._store("GitRepository", item, revision, self._pack(commit, item["spec"]["sparseCheckout"]))
        for item in self.admin.items(SOURCE_VERSION, "OCIRepository", NAMESPACE):
            archive = self._pack(f"HEAD:output/{item['spec']['url'].rpartition('/')[2]}")
            revision = f"{item['spec']['ref']['tag']}@sha256:{hashlib.sha256(archive).hexdigest()}"
            self._store("OCIRepository", item, revision, archive)
        return revision

    def _store(self, kind: str, item: Body, revision: str, archive: bytes) -> None:
        """Serve an archive, and write its place into the status of a source."""
        path = f"{kind.lower()}/{item['metadata']['name']}/{revision.rpartition(':')[2]}.tar.gz"
        self.artifacts.content[f"/{path}"] = archive
        artifact = {
            "path": path,
            "url": f"http://127.0.0.1:{self.artifacts.port}/{path}",
            "revision": revision,
            "digest": f"sha256:{hashlib.sha256(archive).hexdigest()}",
            "lastUpdateTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "size": len(archive),
        }
        status = {"status": {"artifact": artifact, "observedGeneration": item["metadata"]["generation"]}}
        body = {**item, "apiVersion": SOURCE_VERSION, "kind": kind}
        self.admin.request("PATCH", f"{self.admin.path_of(body)}/status", status, _MERGE)

    def _pack(self, tree: str, folders: Collection[str] = ()) -> bytes:
        command = ["git", "archive", "--format=tar.gz", tree, "--", *folders]
        return subprocess.run(command, cwd=self.repository.folder, capture_output=True, check=True).stdout

    def reconcile(self, name: str) -> None:
        """Let Flux apply a Kustomization now, as `flux reconcile kustomization` does."""
        now = {"reconcile.fluxcd.io/requestedAt": str(time.time())}
        patch = {"metadata": {"annotations": now}}
        self.admin.request("PATCH", self.admin.path_of(flux_object("Kustomization", name)), patch, _MERGE)

    def wait_for(self, holds: Callable[[dict[str, Kustomization]], bool], seconds: float = 300) -> None:
        """Wait until a condition holds for name → Kustomization.

        Raises:
            TimeoutError: the condition does not hold in time; the message has the state of each Kustomization.
        """
        try:
            wait_until("Flux has applied the commit", lambda: holds(self.kustomizations()), seconds)
        except TimeoutError as error:
            states = "\n".join(each.summary for each in self.kustomizations().values())
            raise TimeoutError(f"{error}\n{states}") from None

    def wait_until_ready(self, revision: str, names: set[str]) -> None:
        """Wait until exactly these Kustomizations exist, and all have applied a revision."""
        self.wait_for(lambda found: set(found) == names and all(each.has_applied(revision) for each in found.values()))


@dataclass(frozen=True, slots=True)
class Kustomization:
    """The state of a Kustomization."""

    body: Body

    @property
    def status(self) -> Body:
        """Return its status; empty before the first reconciliation."""
        status: Body = self.body.get("status", {})
        return status

    @property
    def ready(self) -> Body:
        """Return its condition `Ready`; empty before the first reconciliation."""
        conditions = self.status.get("conditions", [])
        return next((each for each in conditions if each["type"] == "Ready"), {})

    def has_applied(self, revision: str) -> bool:
        """Return True if Flux has applied a revision, and all objects are healthy."""
        is_current = self.status.get("observedGeneration") == self.body["metadata"]["generation"]
        is_applied = self.status.get("lastAppliedRevision") == revision
        return is_current and is_applied and self.ready.get("status") == "True"

    @property
    def summary(self) -> str:
        """Return the state in words."""
        ready = f"{self.ready.get('status')} {self.ready.get('reason')}: {self.ready.get('message')}"
        return f"{self.body['metadata']['name']}: {self.status.get('lastAppliedRevision')}, ready {ready}"


def flux_object(kind: str, name: str) -> Body:
    """Return the identity of an object of Flux."""
    version = SOURCE_VERSION if kind.endswith("Repository") else API_VERSION
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}}


@contextmanager
def running(cluster: Cluster, repository: Repository) -> Iterator[Flux]:
    """Install and start kustomize-controller, and end it afterwards."""
    program = cluster.versions["flux"]
    install(cluster.admin, _objects(program.account))
    metrics, health = free_ports(2)
    folder = cluster.processes.folder / "flux"
    folder.mkdir()
    account = cluster.processes.folder / "flux.kubeconfig"
    account.write_text(kubeconfig(cluster.admin.port, cluster.certificates, token(cluster.admin, program)))
    command: list[str | Path] = [
        build(program),
        f"--metrics-addr=127.0.0.1:{metrics}",
        f"--health-addr=127.0.0.1:{health}",
        "--requeue-dependency=1s",
        "--interval-jitter-percentage=0",
    ]
    environment = {"KUBECONFIG": str(account), "TMPDIR": str(folder), "RUNTIME_NAMESPACE": NAMESPACE}
    artifacts = Artifacts()
    with artifacts.serving():
        started = Flux(cluster, repository, artifacts)
        try:
            cluster.processes.start("flux", command, environment)
            cluster.processes.wait("flux", lambda: listens(health))
            yield started
        finally:
            started.end()


def _objects(account: str) -> Iterator[Body]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    identity = {"name": account, "namespace": NAMESPACE}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": identity}
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "cluster-reconciler"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", **identity}],
    }
