"""Test that jobs, nodes and namespaces end as before, and that no user keeps what ends."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from functools import partial

import pytest

from tests.cluster import trees
from tests.cluster.client import Body, Client, RefusedError, wait_for, wait_until
from tests.cluster.test_personas import JOBS, TEAM, _is_taken, _pods, _running, person, train_job
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
_MERGE = "application/merge-patch+json"
_RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def running(governed: Deployed, admin: Client) -> Iterator[Body]:
    """Return an editor's job whose pods run."""
    assert governed.platform.platform == "access"
    editor, body = person(admin, "editor"), train_job("ending", "editor")
    wait_until("the team's people may work", partial(_is_taken, editor, body))
    editor.create(body)
    wait_for("it runs", partial(_running, admin, "ending"))
    yield body
    if admin.exists(body):
        admin.request("PATCH", admin.path_of(body), {"metadata": {"finalizers": None}}, _MERGE)
        admin.delete(body)
    wait_until("its pods are gone", lambda: not _pods(admin, "ending"))


@pytest.fixture
def drainer(admin: Client) -> Iterator[Client]:
    """Return a user with the rights that `kubectl drain` needs, and no others."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "delete"]},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
    ]
    yield from _person_with(admin, "drainer", rules)


@pytest.fixture
def broad(admin: Client) -> Iterator[Client]:
    """Return a member of the team with all rights on objects, as an additional role may give them."""
    verbs = ["get", "list", "create", "update", "patch", "delete", "deletecollection"]
    groups = ["", "apps", "batch", "jobset.x-k8s.io", "trainer.kubeflow.org", "kueue.x-k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": verbs}]
    yield from _person_with(admin, "broad", rules, TEAM)


def _person_with(admin: Client, name: str, rules: list[Body], namespace: str = "") -> Iterator[Client]:
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": name}],
    }
    for body in (role, binding):
        admin.apply(body)
    yield admin.as_user(name)
    for body in (binding, role):
        admin.delete(body)


def test_a_collection_of_jobs_is_not_deleted_without_its_pods(running: Body, broad: Client, admin: Client) -> None:
    path = JOBS
    with pytest.raises(RefusedError, match="ValidatingAdmissionPolicy 'access-lifecycle'"):
        _allowed(broad, "DELETE", f"{path}?propagationPolicy=Orphan")
    assert admin.exists(running)
    _allowed(broad, "DELETE", path)
    wait_until("the jobs and their pods are gone", lambda: not admin.exists(running) and not _pods(admin, "ending"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/namespaces/access-a/limitranges", {"apiVersion": "v1", "kind": "LimitRange"}),
        ("/api/v1/namespaces/access-a/secrets", {"apiVersion": "v1", "kind": "Secret"}),
        (
            "/api/v1/namespaces/access-a/serviceaccounts/mpi/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        ),
        ("/api/v1/namespaces/access-a/pods/{pod}/exec?command=id&stdout=true", None),
        ("/api/v1/namespaces/access-a/pods/{pod}/attach?stdout=true", None),
        ("/api/v1/namespaces/access-a/pods/{pod}/portforward?ports=2222", None),
    ],
)
def test_an_additional_role_opens_no_other_kind(
    path: str, body: Body | None, running: Body, broad: Client, admin: Client
) -> None:
    assert running
    pod = str(_pods(admin, "ending")[0]["metadata"]["name"])
    sent = body and {**body, **({} if "spec" in body else {"metadata": {"name": "broad"}})}
    with pytest.raises(RefusedError, match="ValidatingAdmissionPolicy 'access-kinds'"):
        _allowed(broad, "POST", path.replace("{pod}", pod), sent)


def test_nodes_can_be_drained(running: Body, drainer: Client, admin: Client) -> None:
    assert running
    first, second = sorted(str(pod["metadata"]["name"]) for pod in _pods(admin, "ending"))
    path = f"/api/v1/namespaces/{TEAM}/pods"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": first, "namespace": TEAM}}
    _allowed(drainer, "POST", f"{path}/{first}/eviction?dryRun=All", eviction)
    _allowed(drainer, "DELETE", f"{path}/{second}?dryRun=All")


def test_a_janitor_ends_a_job_that_a_finalizer_keeps(running: Body, admin: Client) -> None:
    janitor, editor, path = person(admin, "janitor"), person(admin, "editor"), admin.path_of(running)
    admin.request("PATCH", path, {"metadata": {"finalizers": ["example.com/held"]}}, _MERGE)
    editor.request("DELETE", path)
    for change in ({"labels": {"kueue.x-k8s.io/queue-name": "other"}}, {"finalizers": None}):
        with pytest.raises(RefusedError, match="ValidatingAdmissionPolicy 'access-"):
            editor.request("PATCH", path, {"metadata": change}, _MERGE)
    janitor.request("PATCH", path, {"metadata": {"finalizers": None}}, _MERGE)
    wait_until("it is gone", lambda: trees.is_gone(admin, running) and not _pods(admin, "ending"))


def _allowed(client: Client, method: str, path: str, body: Body | None = None) -> None:
    """Send a request. Wait for the user's rights: RBAC answers with other words than policies.

    Raises:
        RefusedError: a policy rejects the request.
    """

    def is_answered() -> bool:
        try:
            client.request(method, path, body)
        except RefusedError as refused:
            if (
                refused.status == http.client.FORBIDDEN
                and "cannot" in refused.message
                and "ValidatingAdmission" not in refused.message
            ):
                return False
            raise
        return True

    wait_until("the rights are known", is_answered)
