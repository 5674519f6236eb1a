"""The example trees as they are committed, applied to the cluster one after another and removed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from generator import Platform, manifests, pipeline
from generator.gitops.argocd import argocd_namespace
from generator.manifests import Manifest
from tests.cluster.argocd_order import in_order
from tests.cluster.client import Body, Client, RefusedError, wait_until
from tests.cluster.gitops_account import gitops_account
from tests.cluster.nodes import add_nodes
from tests.conftest import EXAMPLES, ROOT

_SCC = "system:openshift:scc:nonroot-v2"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one object.

    Attributes:
        manifest: what was applied.
        refusal: why not; empty when it was accepted.
        warnings: what the API server or a webhook warned about.
    """

    manifest: Manifest
    refusal: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deployed:
    """An example on the cluster.

    Attributes:
        name: of the example.
        platform: what its file says.
        account: the client that applied it.
        outcomes: of every object, in the order in which Argo CD applies them.
    """

    name: str
    platform: Platform
    account: Client
    outcomes: tuple[Outcome, ...]

    @property
    def stored(self) -> list[Manifest]:
        """What was accepted."""
        return [outcome.manifest for outcome in self.outcomes if not outcome.refusal]


@contextmanager
def deployed(admin: Client, name: str) -> Iterator[Deployed]:
    """An example's nodes and tree on the cluster; everything of it is gone afterwards."""
    platform, _ = pipeline.load(EXAMPLES[name])
    nodes = add_nodes(admin, platform)
    tree = _tree(platform)
    for body in _prerequisites(platform):
        admin.apply(body, "tests")
    account = gitops_account(admin, f"gitops-{name}", tree)
    result = Deployed(name, platform, account, tuple(_apply(account, manifest) for manifest in tree))
    try:
        yield result
    finally:
        _remove(admin, [manifest.body for manifest in reversed(result.stored)])
        _remove(admin, nodes)


def _tree(platform: Platform) -> list[Manifest]:
    """Everything that Argo CD would apply for the example: its pointer, and the release behind it."""
    output = ROOT / "output" / platform.platform
    return [*in_order(_read(output / "argocd")), *in_order(_read(output / platform.release))]


def _read(folder: Path) -> Iterator[Manifest]:
    for file in sorted(folder.rglob("*.yaml")):
        yield from manifests.read(file.read_text(), str(file.relative_to(ROOT)))


def _prerequisites(platform: Platform) -> list[Body]:
    """What is there before the tree: the namespace of Argo CD and, on OpenShift, the role behind an SCC."""
    assert platform.gitops
    argocd = argocd_namespace(platform.gitops, platform.cluster)
    scc = {
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": [_SCC.rpartition(":")[2]],
        "verbs": ["use"],
    }
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _SCC},
        "rules": [scc],
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": argocd}}
    return [namespace, role] if platform.cluster.is_openshift else [namespace]


def _apply(account: Client, manifest: Manifest) -> Outcome:
    try:
        return Outcome(manifest, "", account.apply(manifest.body).warnings)
    except RefusedError as refused:
        return Outcome(manifest, str(refused), ())


def _remove(admin: Client, bodies: list[Body]) -> None:
    for body in bodies:
        admin.delete(body)
    for body in bodies:
        wait_until(f"{body['kind']} {body['metadata']['name']} is gone", partial(_is_gone, admin, body))


def _is_gone(admin: Client, body: Body) -> bool:
    return not admin.exists(body)
