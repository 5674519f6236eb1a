"""Create the ServiceAccount with Argo CD's generated rights, and log in with a real token."""

from __future__ import annotations

import http.client
from functools import partial

from generator import Platform
from generator.gitops.argocd import account_rules
from generator.manifests import Manifest
from generator.schemas.catalog import Catalog
from tests.cluster.client import Body, Client, RefusedError, wait_until

ACCOUNTS = "gitops-"
"""The start of the names of the roles and bindings."""
_RBAC = "rbac.authorization.k8s.io"


def gitops_account(admin: Client, platform: Platform, manifests: list[Manifest]) -> Client:
    """Create the account that the platform says applies it, and log in with it."""
    assert platform.gitops
    name = f"{ACCOUNTS}{platform.platform}"
    namespace, _, account_name = platform.gitops.account_on(platform.cluster).partition(":")[2].partition("/")
    account = {"kind": "ServiceAccount", "name": account_name, "namespace": namespace}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    for body in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account_name, "namespace": namespace}},
        _object("ClusterRole", name) | {"rules": account_rules(manifests, Catalog.bundled())},
        _object("ClusterRoleBinding", name) | {"subjects": [account], "roleRef": role},
    ):
        admin.apply(body, "tests")
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account_name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    client = admin.with_token(admin.request("POST", path, request).body["status"]["token"])
    wait_until(f"the rights of {name} are known", partial(_may_read_namespaces, client))
    return client


def _may_read_namespaces(client: Client) -> bool:
    """Return True if the API server has observed the role and its binding."""
    try:
        client.items("v1", "Namespace")
    except RefusedError as refused:
        if refused.status == http.client.FORBIDDEN:
            return False
        raise
    return True


def _object(kind: str, name: str) -> Body:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": {"name": name}}
