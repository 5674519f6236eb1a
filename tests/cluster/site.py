"""Let a running Argo CD follow a Git repository with the releases of one example, and remove all of it afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from generator import Platform, pipeline
from generator.manifests import Manifest
from tests.cluster import trees
from tests.cluster.argocd import API_VERSION, NAMESPACE, Application, ArgoCD, Repository
from tests.cluster.argocd_scope import by_applier
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.nodes import add_nodes
from tests.conftest import EXAMPLES

_ACCOUNT_FILE = "cluster/access/gitops.yaml"
_FINALIZER = "resources-finalizer.argocd.argoproj.io"
_LONG = 240  # seconds; another worker can use all processors


@dataclass(slots=True)
class Site:
    """A cluster whose Argo CD follows a repository with one platform.

    Attributes:
        argo: Argo CD.
        source: the platform file, a YAML file or a Python file.
        platform: the platform of the newest release.
        tree: the manifests of the newest release.
        commit: the commit of the newest release.
        known: identity → manifest of each object that a release had and that Argo CD applies.
    """

    argo: ArgoCD
    source: Path
    platform: Platform
    tree: list[Manifest]
    commit: str = ""
    known: dict[tuple[str, str, str, str], Manifest] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Return the YAML file of the platform."""
        return self.source if self.source.suffix == ".yaml" else self.source.with_name("base.yaml")

    @property
    def output(self) -> Path:
        """Return the folder of all releases."""
        assert self.platform.gitops
        return self.argo.repository.folder / self.platform.gitops.path

    @property
    def folder(self) -> Path:
        """Return the folder of the release."""
        return self.output / self.platform.platform

    @property
    def names(self) -> set[str]:
        """Return the names of the Applications that the newest release has."""
        name = self.platform.platform
        tenants = {f"{name}.{tenant.name}" for tenant in self.platform.tenants}
        return {f"{name}-policies", f"{name}-cluster", *tenants}

    @property
    def applied(self) -> list[Manifest]:
        """Return the manifests of the newest release that Argo CD applies."""
        return by_applier(self.tree)[1]

    def publish(self, text: str) -> None:
        """Render a platform file, and commit the file and the release."""
        self.file.write_text(text)
        self._load()
        done = pipeline.synth(self.source, self.output, pipeline.Choices())
        assert all(release.written for release in done.releases), done.outcome.findings
        self.commit = self.argo.repository.commit(self.platform.release)

    def revert(self, commits: int) -> None:
        """Revert the last commits, as an admin does to roll back."""
        repository = self.argo.repository
        repository.git("revert", "--no-edit", f"HEAD~{commits}..HEAD")
        self.commit = repository.git("rev-parse", "HEAD").strip()
        self._load()

    def _load(self) -> None:
        self.platform, app = pipeline.load(self.source)
        self.tree = pipeline.render(self.platform, app)
        self.known.update({item.identity: item for item in self.applied})

    def apply_applications(self, pattern: str = "*.yaml") -> None:
        """Apply the files of the folder `argocd/` that match a pattern, as an admin does once."""
        for file in sorted((self.folder / "argocd").glob(pattern)):
            for body in yaml.safe_load_all(file.read_text()):
                self.argo.admin.apply(body, "tests")

    def stored(self, kind: str) -> list[Body]:
        """Return the stored objects of a kind that the newest release has."""
        return [self.argo.admin.read(item.body) for item in self.tree if item.kind == kind]

    def wait_until_synced(self, holds: Callable[[], bool] = lambda: True) -> None:
        """Wait until exactly the Applications of the newest release exist, all Synced and Healthy at its commit.

        Args:
            holds: a function that returns True if a further condition holds.
        """

        def synced(found: dict[str, Application]) -> bool:
            ready = all(each.is_synced and each.is_healthy for each in found.values())
            return holds() and ready and set(found) == self.names

        self.argo.wait_for(self.commit, synced, _LONG)

    def wait_until_pruning_waits(self) -> set[str]:
        """Wait until each Application is Synced or waits for the confirmation of a deletion; return the latter."""

        def waiting(found: dict[str, Application]) -> set[str]:
            return {name for name, each in found.items() if each.waits_for_pruning}

        def settled(found: dict[str, Application]) -> bool:
            waits = waiting(found)
            return all(name in waits or each.is_synced for name, each in found.items())

        self.argo.wait_for(self.commit, settled, _LONG)
        return waiting(self.argo.applications())

    def delete_platform(self) -> None:
        """Delete all Applications and their objects, and confirm each deletion, as an admin does."""
        admin, cluster = self.argo.admin, [f"{self.platform.platform}-{part}" for part in ("cluster", "policies")]
        tenants = set(self.argo.applications()) - set(cluster)
        admin.delete(argo_object("ApplicationSet", f"{self.platform.platform}-tenants"))
        for name in cluster:
            set_finalizers(admin, argo_object("Application", name), [_FINALIZER])
        self._confirm_deletion(tenants)
        for name in cluster:
            admin.delete(argo_object("Application", name))
            self._confirm_deletion({name})
        for part in ("cluster", "tenants"):
            admin.delete(argo_object("AppProject", f"{self.platform.platform}-{part}"))

    def delete_applications(self) -> None:
        """Delete all objects of Argo CD, but not the objects of the platform, as an admin does before a rename."""
        admin = self.argo.admin
        applications = argo_object("ApplicationSet", f"{self.platform.platform}-tenants")
        admin.request("DELETE", admin.path_of(applications), {"propagationPolicy": "Orphan"})
        wait_until("the ApplicationSet is gone", partial(trees.is_gone, admin, applications))
        for name in self.argo.applications():
            application = argo_object("Application", name)
            set_finalizers(admin, application, [])
            admin.delete(application)
        for part in ("cluster", "tenants"):
            admin.delete(argo_object("AppProject", f"{self.platform.platform}-{part}"))

    def _confirm_deletion(self, names: set[str]) -> None:
        def are_deleted() -> bool:
            found = self.argo.applications()
            return all(name not in found or "deletionTimestamp" in found[name].body["metadata"] for name in names)

        wait_until(f"Argo CD deletes {sorted(names)}", are_deleted, _LONG)

        def are_gone() -> bool:
            self.argo.confirm_again(names)
            return not names & set(self.argo.applications())

        for name in names & set(self.argo.applications()):
            self.argo.confirm(name)
        try:
            wait_until(f"{sorted(names)} are gone", are_gone, _LONG)
        except TimeoutError as error:
            stored = [self.argo.admin.read(item.body) for item in self.remaining()]
            deleted = [
                f"{item['kind']}: {item['metadata']}" for item in stored if "deletionTimestamp" in item["metadata"]
            ]
            states = [f"{each.summary}\n{each.body['metadata']}" for each in self.argo.applications().values()]
            raise TimeoutError(
                "\n".join([str(error), *states, "Deleted objects that still exist:", *deleted])
            ) from None

    def remaining(self) -> list[Manifest]:
        """Return the objects of the newest release that exist."""
        return [item for item in self.applied if self.argo.admin.exists(item.body)]

    def clean(self) -> None:
        """Delete all that an interrupted test leaves: Applications without their finalizers, and all objects."""
        admin = self.argo.admin
        for kind in ("ApplicationSet", "Application", "AppProject"):
            for stored in admin.items(API_VERSION, kind, NAMESPACE):
                body = argo_object(kind, stored["metadata"]["name"])
                set_finalizers(admin, body, [])
                admin.delete(body)
        known = list(self.known.values())
        for item in reversed(known):
            admin.delete(item.body)
        for item in known:
            if not item.namespace:
                wait_until(f"{item.resource} is gone", partial(trees.is_gone, admin, item.body), _LONG)


def argo_object(kind: str, name: str) -> Body:
    """Return the identity of an object of Argo CD."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}}


def set_finalizers(admin: Client, body: Body, finalizers: list[str]) -> None:
    """Replace the finalizers of an object."""
    if admin.exists(body):
        patch = {"metadata": {"finalizers": finalizers}}
        admin.request("PATCH", admin.path_of(body), patch, "application/merge-patch+json")


LOCAL = {"namespace": NAMESPACE, "serviceAccount": "serviceaccount:argocd/argocd-application-controller"}
"""Fields of `gitops` for the Argo CD of the tests, whose account OpenShift does not have."""


def write_example(name: str, folder: Path, gitops: Mapping[str, Any] = LOCAL) -> Path:
    """Copy the platform file of an example into a new repository that Argo CD reads from this folder; return the copy.

    Args:
        name: the example.
        folder: the folder of the repository.
        gitops: further fields of `gitops`.
    """
    folder.mkdir()
    example = EXAMPLES[name]
    for file in (*example.parent.glob("*.yaml"), *example.parent.glob("*.py")):
        (folder / file.name).write_text(file.read_text())
    source = folder / example.name
    file = source if source.suffix == ".yaml" else folder / "base.yaml"
    text = file.read_text()
    section = {**yaml.safe_load(text)["gitops"], "repository": f"file://{folder}", "grant": True, **gitops}
    file.write_text(
        re.sub(r"^gitops:.*\n(?:[ #].*\n)*", "", text, flags=re.MULTILINE) + yaml.safe_dump({"gitops": section})
    )
    return source


@contextmanager
def following(argo: ArgoCD, source: Path) -> Iterator[Site]:
    """Publish a first release of a platform file, without Applications, and delete all objects and nodes afterwards.

    Args:
        argo: Argo CD.
        source: the platform file, in the folder of its own repository.
    """
    admin, argo = argo.admin, replace(argo, repository=Repository(source.parent))
    argo.repository.start()
    platform, app = pipeline.load(source)
    site = Site(argo, source, platform, pipeline.render(platform, app))
    for body in trees.prerequisites(platform):
        admin.apply(body, "tests")
    nodes = add_nodes(admin, platform)
    try:
        for item in site.tree:
            if item.file == _ACCOUNT_FILE:
                admin.apply(item.body, "tests")
        argo.cluster.processes.restart("argocd-application-controller")  # docs/explanations/access.md
        site.publish(site.file.read_text())
        yield site
    finally:
        site.clean()
        for node in nodes:
            admin.delete(node)
