"""The account that applies a tree: a ServiceAccount with the least that Argo CD needs for it, and a real token.

- The kinds in the tree: read, create, patch, update, delete. Argo CD watches what it manages, and prunes.
- Nobody may grant rights that they do not have. The tree's ClusterRoles hold rights that this account has not (pods,
  TrainJobs, …), so it gets `escalate` on those ClusterRoles and `bind` on those that the tree binds, each by name.
  Server-side apply is a PATCH, so the name is known even when the role is new; with `kubectl create` it is not.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable
from functools import partial

from generator.manifests import Manifest
from tests.cluster.client import Body, Client, RefusedError, wait_until

_RBAC = "rbac.authorization.k8s.io"
_VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]
NAMESPACE = "gitops-account"


def gitops_account(admin: Client, name: str, manifests: list[Manifest]) -> Client:
    """Create the account for these manifests, and log in with it."""
    account = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    for body in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}},
        _object("ClusterRole", name) | {"rules": rules(admin, manifests)},
        _object("ClusterRoleBinding", name) | {"subjects": [account], "roleRef": role},
    ):
        admin.apply(body, "tests")
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    client = admin.with_token(admin.request("POST", path, request).body["status"]["token"])
    wait_until(f"the rights of {name} are known", partial(_may_read_namespaces, client))
    return client


def _may_read_namespaces(client: Client) -> bool:
    """Whether the API server knows already of the role and its binding, which it watches like everybody else."""
    try:
        client.items("v1", "Namespace")
    except RefusedError as refused:
        if refused.status == http.client.FORBIDDEN:
            return False
        raise
    return True


def rules(admin: Client, manifests: Iterable[Manifest]) -> list[Body]:
    """What the account may do, from the kinds in the tree and the roles that it defines and binds."""
    manifests = list(manifests)
    kinds = sorted({(found.group, admin.resource(found.api_version, found.kind)["name"]) for found in manifests})
    allowed = [{"apiGroups": [group], "resources": [resource], "verbs": _VERBS} for group, resource in kinds]
    defined = {found.name for found in manifests if found.kind == "ClusterRole"}
    bound = {
        found.body["roleRef"]["name"] for found in manifests if found.kind in {"RoleBinding", "ClusterRoleBinding"}
    }
    return [*allowed, _about_roles("escalate", defined), _about_roles("bind", bound)]


def _about_roles(verb: str, names: set[str]) -> Body:
    return {"apiGroups": [_RBAC], "resources": ["clusterroles"], "verbs": [verb], "resourceNames": sorted(names)}


def _object(kind: str, name: str) -> Body:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": {"name": name}}
