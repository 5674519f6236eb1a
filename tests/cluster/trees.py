"""Deploy trees, committed examples or others, as Argo CD applies them."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from generator import Platform, manifests, pipeline
from generator.config.model.fabrics import operator_namespaces
from generator.facts.kinds import KINDS
from generator.facts.names import MANAGED_BY
from generator.manifests import Manifest
from tests.cluster.argocd_order import in_order
from tests.cluster.argocd_scope import by_applier
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.gitops_account import ACCOUNTS, gitops_account
from tests.cluster.nodes import add_nodes
from tests.conftest import EXAMPLES, ROOT

_MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of applying one object.

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
    """A tree on the cluster.

    Attributes:
        platform: the platform of its file.
        account: the client that applied it.
        nodes: Nodes of its pools.
        outcomes: outcome of every object, in the order of Argo CD.
    """

    platform: Platform
    account: Client
    nodes: tuple[Body, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def stored(self) -> list[Manifest]:
        """Return the accepted objects."""
        return [outcome.manifest for outcome in self.outcomes if not outcome.refusal]


def example(name: str) -> tuple[Platform, list[Manifest]]:
    """Return an example's platform, and its committed tree in the order in which Argo CD applies it."""
    platform, _ = pipeline.load(EXAMPLES[name])
    folder = f"output/{platform.platform}/"
    own, applied = by_applier(_read(ROOT / folder), folder)
    return platform, [*in_order(own), *in_order(applied)]


def as_argocd_applies(tree: Iterable[Manifest]) -> list[Manifest]:
    """Return the objects of a rendered release in the order in which Argo CD applies them."""
    own, applied = by_applier(tree)
    return [*in_order(own), *in_order(applied)]


def deploy(
    admin: Client,
    platform: Platform,
    tree: list[Manifest],
    account: Client | None = None,
    *,
    creates_nodes: bool = True,
) -> Deployed:
    """Create a platform's nodes and apply a tree.

    Args:
        admin: a client that may do everything.
        platform: the platform of the tree.
        tree: the objects, in order.
        account: the client that applies them. Default: an account that has only the needed rights.
        creates_nodes: False if kubelets create the nodes.

    Raises:
        TimeoutError: a namespace of the tree is there already, and does not end.
    """
    for found in tree:
        if found.kind == "Namespace":
            wait_until(f"there is no namespace {found.name} from before", partial(is_gone, admin, found.body))
    nodes = add_nodes(admin, platform) if creates_nodes else []
    for body in prerequisites(platform):
        admin.apply(body, "tests")
    account = account or gitops_account(admin, platform, tree)
    return Deployed(platform, account, tuple(nodes), tuple(_apply(account, manifest) for manifest in tree))


def is_deployed(admin: Client, on_the_cluster: list[Deployed], platform: Platform) -> bool:
    """Return True if a platform is on the cluster with all its objects: a test in between can have deleted some."""
    found = [each for each in on_the_cluster if each.platform == platform]
    return bool(found) and all(admin.exists(each.body) for each in found[-1].stored)


def remove(admin: Client, deployed: Deployed) -> None:
    """Delete a tree and its nodes, and wait for the deletion; its namespaces end by themselves."""
    remove_objects(admin, [*(found.body for found in reversed(deployed.stored)), *deployed.nodes])


def remove_objects(admin: Client, bodies: Sequence[Body]) -> None:
    """Delete objects, and wait for the deletion; namespaces among them end by themselves.

    Their TrainJobs go first: without their runtimes Kueue gives their quota back only when all pods are collected.
    """
    theirs = {body["metadata"]["name"] for body in bodies if body["kind"] == "Namespace"}
    _end_jobs(admin, theirs)
    outside = [body for body in bodies if body["metadata"].get("namespace") not in theirs]
    for body in outside:
        admin.delete(body)
    for body in outside:
        if body["kind"] != "Namespace":
            wait_until(f"{body['kind']} {body['metadata']['name']} is gone", partial(is_gone, admin, body))


def remove_all(admin: Client, on_the_cluster: list[Deployed]) -> None:
    """Delete all trees, and the cluster-scoped objects of trees that an earlier test could not delete.

    Objects of Argo CD go too, without their finalizers: a running Argo CD would act on them.
    """
    while on_the_cluster:
        remove(admin, on_the_cluster.pop())
    for kind in ("ApplicationSet", "Application", "AppProject"):
        for body in _stored(admin, "argoproj.io", kind):
            admin.request("PATCH", admin.path_of(body), {"metadata": {"finalizers": None}}, _MERGE)
            admin.delete(body)
    cluster = [row for row in KINDS if not row.namespaced]
    left = [body for row in cluster for body in _stored(admin, row.group, row.kind) if _is_of_mpigen(body)]
    for body in _stored(admin, "rbac.authorization.k8s.io", "ClusterRoleBinding"):
        if body["metadata"]["name"].startswith(ACCOUNTS):
            admin.delete(body)
    for body in left:
        admin.delete(body)
    for body in left:
        if body["kind"].startswith("ValidatingAdmissionPolicy"):
            wait_until(f"{body['kind']} {body['metadata']['name']} is gone", partial(is_gone, admin, body))


def _stored(admin: Client, group: str, kind: str) -> list[Body]:
    """Return all objects of a kind, with their metadata only; none if the API server does not serve the kind."""
    try:
        versions = admin.request("GET", f"/apis/{group}").body["versions"] if group else [{"groupVersion": "v1"}]
    except RefusedError as refused:
        if refused.status != http.client.NOT_FOUND:
            raise
        return []
    for api_version in (each["groupVersion"] for each in versions):
        if admin.serves(api_version, kind):
            items = admin.items(api_version, kind)
            return [{"apiVersion": api_version, "kind": kind, "metadata": each["metadata"]} for each in items]
    return []


def _is_of_mpigen(body: Body) -> bool:
    labels: dict[str, str] = body["metadata"].get("labels", {})
    return MANAGED_BY.items() <= labels.items()


def _end_jobs(admin: Client, namespaces: Iterable[str]) -> None:
    kind = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    found = [each for name in namespaces for each in admin.items(kind["apiVersion"], kind["kind"], name)]
    jobs: list[Body] = [{**kind, "metadata": each["metadata"]} for each in found]
    for job in jobs:
        admin.delete(job)
    for job in jobs:
        wait_until(f"TrainJob {job['metadata']['name']} is gone", partial(is_gone, admin, job))


def settled(deployed: Deployed) -> list[Body]:
    """Return all accepted objects as stored, after a second without writes of controllers."""

    def read() -> list[Body]:
        return [deployed.account.read(found.body) for found in deployed.stored]

    def quiet() -> list[Body] | None:
        first = read()
        time.sleep(1)
        second = read()
        return None if any(map(moves, first, second)) else second

    return wait_for("no controller writes any more", quiet)


def moves(one: Body, two: Body) -> bool:
    """Return True if two states of an object differ for Argo CD and controllers."""
    return bool(one["metadata"]["resourceVersion"] != two["metadata"]["resourceVersion"])


def _read(folder: Path) -> Iterator[Manifest]:
    for file in sorted(folder.rglob("*.yaml")):
        yield from manifests.read(file.read_text(), str(file.relative_to(ROOT)))


def prerequisites(platform: Platform) -> list[Body]:
    """Return the objects that must exist before the tree: namespaces of Argo CD and of network operators."""
    assert platform.gitops
    names = {
        platform.gitops.namespace_on(platform.cluster),
        *operator_namespaces(platform.fabrics, is_openshift=platform.cluster.is_openshift),
    }
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(names)]


def _apply(account: Client, manifest: Manifest) -> Outcome:
    try:
        return Outcome(manifest, "", account.apply(manifest.body).warnings)
    except RefusedError as refused:
        return Outcome(manifest, str(refused), ())


def is_gone(admin: Client, body: Body) -> bool:
    """Return True if the object no longer exists."""
    return not admin.exists(body)
