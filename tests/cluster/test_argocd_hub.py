"""Test that an Argo CD applies a release to a cluster that it knows by a Secret, with the rights of an account there.

The cluster is the control plane of the tests under another name: Argo CD connects to it as the account
`argocd-manager`. The account of Argo CD itself has no rights outside its namespace.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster import argocd, trees
from tests.cluster.argocd import NAMESPACE, Application
from tests.cluster.client import Body, Client, RefusedError
from tests.cluster.control_plane import Cluster
from tests.cluster.site import Site, following, write_example
from tests.cluster.trees import Deployed

pytestmark = pytest.mark.cluster
ACCOUNT: Body = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "argocd-manager", "namespace": "kube-system"},
}


@pytest.fixture(scope="module")
def site(cluster: Cluster, on_the_cluster: list[Deployed], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a cluster of the example `cpu-kubernetes`, which Argo CD knows by a Secret."""
    admin, folder = cluster.admin, tmp_path_factory.mktemp("git")
    trees.remove_all(admin, on_the_cluster)
    server = f"https://127.0.0.1:{admin.port}"
    source = write_example("cpu-kubernetes", folder / "repository", {"destination": server})
    with argocd.running(cluster, folder / "empty") as argo:
        admin.apply(ACCOUNT, "tests")
        secret = cluster_secret(cluster, server)
        admin.apply(secret, "tests")
        try:
            with following(argo, source) as found:
                yield found
        finally:
            admin.delete(secret)
            admin.delete(ACCOUNT)


def cluster_secret(cluster: Cluster, server: str) -> Body:
    """Return the Secret that `argocd cluster add` creates, with a token of the account."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = cluster.admin.request("POST", f"{cluster.admin.path_of(ACCOUNT)}/token", request)
    config = {"bearerToken": answer.body["status"]["token"], "tlsClientConfig": {"caData": cluster.certificates.bundle}}
    labels = {"argocd.argoproj.io/secret-type": "cluster"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "spoke", "namespace": NAMESPACE, "labels": labels},
        "stringData": {"name": "spoke", "server": server, "config": json.dumps(config)},
    }


def test_argo_cd_applies_a_release_to_another_cluster(site: Site) -> None:
    site.apply_applications()
    site.wait_until_synced()
    assert site.remaining() == site.applied


def test_the_account_of_argo_cd_itself_has_no_rights_on_objects_of_the_release(site: Site) -> None:
    controller: Client = site.argo.admin.as_person("system:serviceaccount:argocd:argocd-application-controller")
    for item in site.applied:
        with pytest.raises(RefusedError, match="Forbidden"):
            controller.read(item.body)


def test_the_folder_of_a_tenant_has_no_objects_in_namespaces_of_the_system(site: Site) -> None:
    """The AppProject excludes these namespaces on the cluster of its destination."""
    stray = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "stray", "namespace": "kube-system"},
        "spec": {"podSelector": {}},
    }
    (tenant,) = site.platform.tenants
    (site.folder / "tenants" / tenant.name / "stray.yaml").write_text(json.dumps(stray))
    site.commit = site.argo.repository.commit("stray")
    application = f"{site.platform.platform}.{tenant.name}"

    def is_refused(found: dict[str, Application]) -> bool:
        return "namespace kube-system is not permitted in project" in found[application].summary

    site.argo.wait_for(site.commit, is_refused, 240)
    assert not site.argo.admin.exists(stray)
    site.revert(1)
    site.wait_until_synced()


def test_the_platform_is_deleted_without_a_stuck_finalizer(site: Site) -> None:
    site.delete_platform()
    assert {item.file for item in site.remaining()} == {"cluster/access/gitops.yaml"}
