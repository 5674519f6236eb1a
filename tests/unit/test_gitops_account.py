"""Test the rights of Argo CD's account: it can apply all kinds of a platform, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from generator import Platform, pipeline
from generator.facts.kinds import KINDS
from generator.facts.names import GITOPS_ROLE
from generator.gitops.argocd import account_rules, is_applied
from generator.manifests import Body, Manifest
from generator.schemas.catalog import Catalog
from tests.conftest import EXAMPLES

CATALOG = Catalog.bundled()


def about(found: list[Body], verb: str) -> dict[tuple[str, str], list[str]]:
    """Return (group, resource) → the names to which the verb is limited."""
    return {
        (group, resource): rule.get("resourceNames", [])
        for rule in found
        if verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def role(kind: str, name: str, **others: object) -> Manifest:
    metadata = {"name": name, "namespace": "a"} if kind in ("Role", "RoleBinding") else {"name": name}
    body = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, **others}
    return Manifest(body, "a.yaml")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_has_the_resource_name_of_the_api_server(kind: object) -> None:
    found = {
        (entry.api_version.rpartition("/")[0], entry.kind, entry.plural, entry.scope == "Namespaced")
        for entry in CATALOG.everything
    }
    assert (kind.group, kind.kind, kind.resource, kind.namespaced) in found  # type: ignore[attr-defined]


def test_the_account_can_apply_every_object_of_an_example(example: Path) -> None:
    platform, app = pipeline.load(example)
    tree = pipeline.render(platform, app)
    found = account_rules(tree, CATALOG)
    written = about(found, "patch")
    for manifest in tree:
        if not manifest.file.startswith("kueue/"):
            assert (manifest.group, CATALOG.entries[manifest.api_version, manifest.kind].plural) in written


def test_roles_beyond_its_rights_are_bound_by_name() -> None:
    """The API server checks `escalate` without the name of a role that `kubectl auth reconcile` creates."""
    tree = [
        role("ClusterRole", "ours"),
        role("ClusterRoleBinding", "x", roleRef={"kind": "ClusterRole", "name": "theirs"}),
        role("RoleBinding", "y", roleRef={"kind": "ClusterRole", "name": "view"}),
        role("RoleBinding", "z", roleRef={"kind": "Role", "name": "local"}),
    ]
    rbac = "rbac.authorization.k8s.io"
    found = account_rules(tree, CATALOG)
    assert about(found, "escalate") == {(rbac, "clusterroles"): []}
    assert about(found, "bind") == {(rbac, "clusterroles"): ["theirs", "view"], (rbac, "roles"): ["local"]}


def test_the_account_reads_no_secrets_and_creates_no_workloads() -> None:
    resources = {resource for _, resource in about(account_rules([], CATALOG), "get")}
    assert not resources & {"secrets", "pods", "pods/log", "trainjobs", "jobs"}
    assert "*" not in str(account_rules([], CATALOG))


def test_kinds_of_admin_objects_are_added() -> None:
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    assert ("scheduling.k8s.io", "priorityclasses") in about(
        account_rules([Manifest(body, "a.yaml")], CATALOG), "delete"
    )


def test_the_role_is_rendered_if_the_platform_grants_it() -> None:
    platform, app = pipeline.load(EXAMPLES["openshift-h100"])
    tree = pipeline.render(platform, app)
    granted, binding = [found for found in tree if found.file == "cluster/access/gitops.yaml"]
    assert granted.body["rules"] == account_rules((found for found in tree if is_applied(found.file)), CATALOG)
    assert binding.body["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": "openshift-gitops-argocd-application-controller",
            "namespace": "openshift-gitops",
        }
    ]
    assert GITOPS_ROLE in about(granted.body["rules"], "bind")["rbac.authorization.k8s.io", "clusterroles"]
    options = {found.body["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] for found in (granted, binding)}
    assert options == {"Prune=false,Delete=false"}


def test_no_role_is_granted_by_default(platform: Platform) -> None:
    assert platform.gitops
    assert not platform.gitops.grant
