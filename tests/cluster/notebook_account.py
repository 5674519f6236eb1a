"""Create a kubeconfig for a person of a tenant, as a ServiceAccount with a real token.

It has exactly the rights of the tenant's groups in the tree, because each of their bindings is repeated for it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import yaml

from generator.config.model.tenants import Tenant
from generator.policies.access import subject
from tests.cluster.client import Body, Client, wait_until
from tests.cluster.control_plane import Cluster
from tests.cluster.trees import Deployed

NAMESPACE = "notebooks"
_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def notebook_account(cluster: Cluster, deployed: Deployed, tenant: Tenant, access: str) -> str:
    """Return a kubeconfig for a user with this access to the tenant: view, edit, admin or `none`."""
    name = f"{tenant.name}-{access}"
    account = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    group = next(iter(getattr(tenant.access, access, ())), "")
    bodies: list[Body] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}},
    ]
    for found in deployed.stored:
        if group and subject(group) in found.body.get("subjects", []):
            metadata = {"name": f"{found.name}-{name}"}  # without labels: the copy is no object of the release
            if found.namespace:
                metadata["namespace"] = found.namespace
            bodies.append({**found.body, "metadata": metadata, "subjects": [account]})
    for body in bodies:
        cluster.admin.apply(body, "tests")
    token = _token(cluster.admin, name)
    if group:
        person = cluster.admin.with_token(token)
        wait_until(f"the rights of {name} are known", partial(_may_list_trainjobs, person, tenant.name))
    kubeconfig = yaml.safe_load((Path(cluster.processes.folder) / "admin.kubeconfig").read_text())
    kubeconfig["users"][0]["user"] = {"token": token}
    return yaml.safe_dump(kubeconfig)


def _token(admin: Client, name: str) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(admin.request("POST", path, request).body["status"]["token"])


def _may_list_trainjobs(person: Client, namespace: str) -> bool:
    """Return True if the API server has observed the bindings."""
    asked = {"verb": "list", "group": "trainer.kubeflow.org", "resource": "trainjobs", "namespace": namespace}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    return bool(
        person.request("POST", _REVIEW, {**review, "spec": {"resourceAttributes": asked}}).body["status"]["allowed"]
    )
