"""Run Argo CD, which applies a Git repository of this machine.

Its programs are upstream's repo-server, application-controller, applicationset-controller and, on request,
notifications-controller. A database in memory replaces the Redis server, which is a cache.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.cluster.build import build
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.controllers import kubeconfig, token
from tests.cluster.install import install, render
from tests.cluster.modules import module_folder
from tests.cluster.processes import free_ports, listens
from tests.cluster.versions import Program

API_VERSION = "argoproj.io/v1alpha1"
NAMESPACE = "argocd"
_VERIFY = "git-verify-wrapper.sh"
_NOT_HERE = {"Deployment", "Service", "Secret", "NetworkPolicy"}
_REFRESH = {"Application": "argocd.argoproj.io/refresh", "ApplicationSet": "argocd.argoproj.io/application-set-refresh"}
_APPROVED = "argocd.argoproj.io/deletion-approved"
_SETTINGS = {"resource.respectRBAC": "normal"}  # docs/explanations/access.md


@dataclass(frozen=True, slots=True)
class Repository:
    """A Git repository in a folder."""

    folder: Path

    @property
    def url(self) -> str:
        """Return the URL that Argo CD reads."""
        return f"file://{self.folder}"

    def git(self, *arguments: str) -> str:
        """Run Git with these arguments, and return its output."""
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        person = ["-c", "user.name=tests", "-c", "user.email=tests@example.com"]
        command = ["git", *person, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env={**os.environ, **own}, capture_output=True, text=True, check=True
        )
        return done.stdout

    def start(self) -> None:
        """Create the repository with the branch `main`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def commit(self, message: str) -> str:
        """Commit all files, and return the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()


@dataclass(frozen=True, slots=True)
class ArgoCD:
    """An Argo CD that runs.

    Attributes:
        cluster: the control plane.
        repository: the repository for releases.
    """

    cluster: Cluster
    repository: Repository

    @property
    def admin(self) -> Client:
        """Return a client that may do everything."""
        return self.cluster.admin

    def applications(self) -> dict[str, Application]:
        """Return name → Application."""
        items = self.admin.items(API_VERSION, "Application", NAMESPACE)
        return {item["metadata"]["name"]: Application(item) for item in items}

    def refresh(self) -> None:
        """Let Argo CD read the repository now. A webhook of the Git server does the same."""
        for kind, annotation in _REFRESH.items():
            for item in self.admin.items(API_VERSION, kind, NAMESPACE):
                value = "true" if kind != "Application" else "normal"
                self._annotate(kind, item["metadata"]["name"], {annotation: value})

    def confirm(self, name: str) -> None:
        """Confirm the deletions of an Application, as `argocd app confirm-deletion` does, if the Application exists.

        Wait for the end of a refresh before. After it, Argo CD removes all annotations that it did not know when the
        refresh began, if no others stay (argo-cd v3.2.1 controller/appcontroller.go
        ApplicationController.persistAppStatus).
        """
        refresh = _REFRESH["Application"]

        def is_refreshed() -> bool:
            found = self.applications().get(name)
            return found is None or refresh not in found.annotations

        wait_until(f"Argo CD has refreshed {name}", is_refreshed)
        self._annotate("Application", name, {_APPROVED: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})

    def confirm_again(self, names: Collection[str]) -> None:
        """Confirm the deletions of those Applications that exist and have lost their confirmation."""
        for name, each in self.applications().items():
            if name in names and _APPROVED not in each.annotations:
                self.confirm(name)

    def _annotate(self, kind: str, name: str, annotations: Mapping[str, str]) -> None:
        """Add annotations to an object, if Argo CD has not deleted it meanwhile."""
        body: Body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}}
        patch = {"metadata": {"annotations": annotations}}
        try:
            self.admin.request("PATCH", self.admin.path_of(body), patch, "application/merge-patch+json")
        except RefusedError as refused:
            if refused.status != http.client.NOT_FOUND:
                raise

    def wait_for(
        self,
        commit: str,
        holds: Callable[[dict[str, Application]], bool],
        seconds: float = 120,
        names: Collection[str] = (),
    ) -> None:
        """Wait until Applications have compared the cluster with a commit, and a condition holds.

        Args:
            commit: the commit.
            holds: the condition, for name → Application.
            seconds: the longest time.
            names: the Applications; empty for all.

        Raises:
            TimeoutError: the condition does not hold in time; the message has the state of each Application.
        """

        def settled() -> bool:
            found = self.applications()
            compared = {name for name, each in found.items() if each.revision == commit}
            return bool(found) and compared >= set(names or found) and holds(found)

        self.refresh()
        try:
            wait_until(f"Argo CD has applied {commit[:7]}", settled, seconds)
        except TimeoutError as error:
            states = "\n".join(each.summary for each in self.applications().values())
            raise TimeoutError(f"{error}\n{states}") from None

    def wait_until_synced(self, commit: str, names: set[str], seconds: float = 120) -> None:
        """Wait until exactly these Applications exist, and all are Synced and Healthy at a commit."""

        def synced(found: dict[str, Application]) -> bool:
            return set(found) == names and all(each.is_synced and each.is_healthy for each in found.values())

        self.wait_for(commit, synced, seconds)


@dataclass(frozen=True, slots=True)
class Application:
    """The state of an Application."""

    body: Body

    @property
    def status(self) -> Body:
        """Return its status; empty before the first comparison."""
        status: Body = self.body.get("status", {})
        return status

    @property
    def annotations(self) -> Body:
        """Return its annotations."""
        annotations: Body = self.body["metadata"].get("annotations", {})
        return annotations

    @property
    def revision(self) -> str:
        """Return the commit that Argo CD compared last."""
        return str(self.status.get("sync", {}).get("revision", ""))

    @property
    def is_synced(self) -> bool:
        """Return True if the cluster has all objects of the commit, no others, and no operation runs."""
        done = self.status.get("operationState", {}).get("phase") == "Succeeded" and "operation" not in self.body
        return done and self.status.get("sync", {}).get("status") == "Synced"

    @property
    def is_healthy(self) -> bool:
        """Return True if all objects are healthy."""
        return bool(self.status.get("health", {}).get("status") == "Healthy")

    @property
    def operation(self) -> Body:
        """Return the last operation."""
        state: Body = self.status.get("operationState", {})
        return state

    @property
    def waits_for_pruning(self) -> bool:
        """Return True if the operation waits until an admin confirms a deletion."""
        message = str(self.operation.get("message", ""))
        return "waiting for pruning confirmation" in message.lower()  # 3.2 begins the sentence with a capital

    @property
    def summary(self) -> str:
        """Return the state in words, with the objects that are not Synced and Healthy."""
        sync, health = (self.status.get(key, {}).get("status") for key in ("sync", "health"))
        operation = f"{self.operation.get('phase')}: {self.operation.get('message')}"
        rows = [f"{self.body['metadata']['name']}: {sync}, {health}, {self.revision[:7]}, {operation}"]
        rows += [f"  {each['type']}: {each['message']}" for each in self.status.get("conditions", [])]
        for each in self.status.get("resources", []):
            state = (each.get("status"), each.get("health", {}).get("status", "Healthy"))
            if state != ("Synced", "Healthy"):
                rows.append(f"  {each['kind']} {each.get('namespace', '')}/{each['name']}: {state}")
        for each in self.operation.get("syncResult", {}).get("resources", []):
            if each.get("status") == "SyncFailed":
                rows.append(f"  {each['kind']} {each.get('namespace', '')}/{each['name']}: {each.get('message')}")
        return "\n".join(rows)


@contextmanager
def running(cluster: Cluster, folder: Path, *, with_notifications: bool = False) -> Iterator[ArgoCD]:
    """Install and start Argo CD without rights outside its namespace, and end its processes afterwards.

    Args:
        cluster: the control plane.
        folder: the folder of the repository.
        with_notifications: if true, also start the notifications-controller.
    """
    program = cluster.versions["argocd"]
    install(cluster.admin, _objects(program))
    repository = Repository(folder)
    repository.start()
    started: list[str] = []
    try:
        started.extend(_start(cluster, program, with_notifications=with_notifications))
        yield ArgoCD(cluster, repository)
    finally:
        for name in reversed(started):
            cluster.processes.end(name)


def _objects(program: Program) -> Iterator[Body]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for body in render(program):
        if body["kind"] == "ConfigMap" and body["metadata"]["name"] == "argocd-cm":
            body["data"].update(_SETTINGS)
        if body["kind"] not in _NOT_HERE:
            yield body
    secret = {"name": "argocd-secret", "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": "argocd"}}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"server.secretkey": "tests"}}


def _start(cluster: Cluster, program: Program, *, with_notifications: bool) -> Iterator[str]:
    """Start each program, and yield its name."""
    binary, processes, admin = build(program), cluster.processes, cluster.admin
    redis, repo, *ports = free_ports(9)
    folder = processes.folder / "argocd"
    folder.mkdir(exist_ok=True)  # another module may have started Argo CD before
    common = {"TMPDIR": str(folder), "ARGOCD_GPG_ENABLED": "false", "ARGOCD_FAKE_IN_CLUSTER": "true"}
    server = f"127.0.0.1:{redis}"
    scripts = folder / "bin"  # the image of Argo CD has this script, which also runs without GPG
    scripts.mkdir(exist_ok=True)
    script = shutil.copyfile(module_folder(program) / "hack" / _VERIFY, scripts / _VERIFY)
    script.chmod(0o755)
    common["PATH"] = f"{scripts}:{os.environ['PATH']}"

    def start(name: str, account: str, *arguments: str, port: int) -> str:
        environment: dict[str, Any] = dict(common)
        if account:
            file = processes.folder / f"{account}.kubeconfig"
            bearer = token(admin, replace(program, account=account))
            file.write_text(kubeconfig(admin.port, cluster.certificates, bearer))
            environment["KUBECONFIG"] = str(file)
        processes.start(f"argocd-{name}", [binary, name, *arguments], environment)
        processes.wait(f"argocd-{name}", lambda: listens(port))
        return f"argocd-{name}"

    yield start("redis", "", server, port=redis)
    yield start(
        "repo-server",
        "",
        f"--redis={server}",
        "--address=127.0.0.1",
        f"--port={repo}",
        f"--metrics-port={ports[0]}",
        "--disable-tls",
        "--client-ca-path=",  # its default excludes --disable-tls
        "--revision-cache-expiration=2s",
        port=repo,
    )
    yield start(
        "application-controller",
        program.account,
        f"--namespace={NAMESPACE}",
        f"--redis={server}",
        f"--repo-server=127.0.0.1:{repo}",
        "--repo-server-plaintext",
        f"--metrics-port={ports[1]}",
        "--app-resync=10",
        "--app-resync-jitter=0",
        "--persist-resource-health",
        port=ports[1],
    )
    yield start(
        "applicationset-controller",
        "argocd-applicationset-controller",
        f"--namespace={NAMESPACE}",
        f"--argocd-repo-server=127.0.0.1:{repo}",
        "--repo-server-plaintext",
        f"--metrics-addr=127.0.0.1:{ports[2]}",
        f"--probe-addr=127.0.0.1:{ports[3]}",
        f"--webhook-addr=127.0.0.1:{ports[4]}",
        port=ports[3],
    )
    if with_notifications:
        yield start(
            "notifications-controller",
            "argocd-notifications-controller",
            f"--namespace={NAMESPACE}",
            f"--argocd-repo-server=127.0.0.1:{repo}",
            "--argocd-repo-server-plaintext",
            f"--metrics-port={ports[5]}",
            port=ports[5],
        )
