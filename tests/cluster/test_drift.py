"""Test `mpigen drift` on exports of a real control plane, before and after changes by users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from generator import pipeline
from generator.checks.existing.drift import Drift
from generator.manifests import Manifest
from tests.cluster import trees
from tests.cluster.client import Body, Client
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
_MERGE = "application/merge-patch+json"
EDITS: dict[str, Body] = {
    "ClusterQueue": {"spec": {"queueingStrategy": "StrictFIFO", "preemption": {"withinClusterQueue": "Never"}}},
    "Namespace": {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged", "example.com/new": "1"}}},
    "ResourceQuota": {"spec": {"hard": {"pods": "777"}}},
    "NetworkPolicy": {"spec": {"ingress": [{}], "policyTypes": ["Ingress"]}},
    "ClusterRole": {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]},
    "ValidatingAdmissionPolicyBinding": {"spec": {"validationActions": ["Warn"]}},
    "ServiceAccount": {"automountServiceAccountToken": True},
    "RoleBinding": {"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mallory"}]},
}
"""Kind → the merge patch that a user applies to its first object."""


@pytest.fixture(scope="module", params=["cpu-kubernetes", "openshift-h100"])
def tree(request: pytest.FixtureRequest, admin: Client, on_the_cluster: list[Deployed]) -> Deployed:
    """Deploy an example in place of the previous one, and wait for its controllers."""
    trees.remove_all(admin, on_the_cluster)
    on_the_cluster.append(trees.deploy(admin, *trees.example(request.param)))
    trees.settled(on_the_cluster[-1])
    return on_the_cluster[-1]


def export(admin: Client, tree: Deployed, *, has_managers: bool) -> bytes:
    """Return the objects of the tree's kinds, as `kubectl get -A -o json` prints them."""
    kinds = dict.fromkeys((item.api_version, item.kind) for item in tree.stored)
    items = [
        {**item, "apiVersion": api_version, "kind": kind}
        for api_version, kind in kinds
        for item in admin.items(api_version, kind)
    ]
    for item in items:
        if not has_managers:
            item["metadata"].pop("managedFields", None)
    return json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}
    ).encode()


def compare(admin: Client, tree: Deployed, *, has_managers: bool = True) -> Drift:
    """Compare the cluster with the committed release."""
    text = export(admin, tree, has_managers=has_managers)
    return pipeline.drift({"live.json": text}, tree.stored, {}, lambda _: "").drift


def test_most_of_the_tree_is_on_the_cluster(tree: Deployed) -> None:
    assert len(tree.stored) > 50


@pytest.mark.parametrize("has_managers", [True, False])
def test_a_fresh_release_has_no_drift(tree: Deployed, admin: Client, has_managers: bool) -> None:
    done = compare(admin, tree, has_managers=has_managers)
    assert [(item.manifest.resource, item.differences) for item in done.drifted] == []
    assert (done.missing, done.extra, done.other_versions, done.not_exported) == ([], [], [], {})
    assert done.compared == len({item.identity for item in tree.stored})
    assert done.has_managers is has_managers


def test_a_release_that_a_client_replaced_has_no_drift(tree: Deployed, admin: Client) -> None:
    """An Update makes its manager the owner of all defaults."""
    for item in tree.stored:
        stored = admin.read(item.body)
        admin.request("PUT", f"{admin.path_of(item.body)}?fieldManager=kubectl-replace", stored)
    done = compare(admin, tree)
    assert [(item.manifest.resource, item.differences) for item in done.drifted] == []


def leaves(patch: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the values of a patch. Lists are values."""
    if isinstance(patch, dict) and patch:
        for key, value in patch.items():
            yield from leaves(value, (*path, key))
    else:
        yield path


@pytest.fixture
def edited(tree: Deployed, admin: Client) -> Iterator[dict[str, Manifest]]:
    """Let a user edit the first object of each kind, and restore the objects."""
    first: dict[str, Manifest] = {}
    for item in tree.stored:
        if item.kind in EDITS and (item.kind != "NetworkPolicy" or item.body["spec"].get("ingress")):
            first.setdefault(item.kind, item)
    before = {kind: admin.read(item.body) for kind, item in first.items()}
    for kind, item in first.items():
        admin.request("PATCH", f"{admin.path_of(item.body)}?fieldManager=kubectl-edit", EDITS[kind], _MERGE)
    yield first
    for body in before.values():
        version = admin.read(body)["metadata"]["resourceVersion"]
        metadata = {**body["metadata"], "resourceVersion": version}
        admin.request("PUT", f"{admin.path_of(body)}?fieldManager=tests", {**body, "metadata": metadata})


@pytest.mark.parametrize("has_managers", [True, False])
def test_edits_are_reported_with_their_manager(
    tree: Deployed, admin: Client, edited: dict[str, Manifest], has_managers: bool
) -> None:
    assert len(edited) >= 6
    done = compare(admin, tree, has_managers=has_managers)
    expected = {
        edited[kind].resource: {
            path for path in leaves(EDITS[kind]) if _value(edited[kind].body, path) != _value(EDITS[kind], path)
        }
        for kind in edited
    }
    reported = {item.manifest.resource: {change.path for change in item.differences} for item in done.drifted}
    assert reported.keys() == expected.keys()
    for resource, paths in reported.items():
        for path in paths:
            assert any(path[: len(one)] == one for one in expected[resource]), (resource, path)
        for one in expected[resource]:
            assert any(path[: len(one)] == one for path in paths), (resource, one)
    changes = [change for item in done.drifted for change in item.differences if change.managers]
    assert bool(changes) is has_managers
    assert {manager.name for change in changes for manager in change.managers} <= {"kubectl-edit"}


def _value(body: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        body = body.get(key) if isinstance(body, dict) else None
    return body


def test_deleted_and_further_objects_are_reported(tree: Deployed, admin: Client) -> None:
    gone = next(item for item in tree.stored if item.kind == "ValidatingAdmissionPolicyBinding")
    old = next(item for item in tree.stored if item.kind == "LimitRange")
    extra = {**old.body, "metadata": {**old.body["metadata"], "name": "of-an-older-release"}}
    admin.create(extra)
    admin.delete(gone.body)
    try:
        done = compare(admin, tree)
    finally:
        admin.delete(extra)
        admin.apply(gone.body)
    assert [item.resource for item in done.missing] == [gone.resource]
    assert [item.name for item in done.extra] == ["of-an-older-release"]
    assert done.drifted == []
