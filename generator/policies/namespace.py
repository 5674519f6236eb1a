"""Namespace and ServiceAccount of a tenant."""

from __future__ import annotations

from generator.config.cluster import Cluster
from generator.config.policies import Policies
from generator.config.tenants import Tenant
from generator.config.workload import SERVICE_ACCOUNT, TENANT_LABEL
from generator.manifests import Body


def namespace(tenant: Tenant, team: str, policies: Policies, cluster: Cluster) -> Body:
    """A namespace of a team with its Pod Security Standard; Argo CD deletes it only when a person confirms.

    The enforced version is pinned to the cluster's, so that an upgrade does not evict; warnings follow the newest.
    """
    standard = policies.pod_security
    labels = {
        TENANT_LABEL: team,
        "pod-security.kubernetes.io/enforce": standard,
        "pod-security.kubernetes.io/enforce-version": f"v{cluster.versions.kubernetes}",
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/audit-version": "latest",
        "pod-security.kubernetes.io/warn": "restricted",
        "pod-security.kubernetes.io/warn-version": "latest",
    }
    if cluster.is_openshift:
        # OpenShift's label syncer would fight over the labels above; its Kueue operator minds labelled namespaces only.
        labels["security.openshift.io/scc.podSecurityLabelSync"] = "false"
        labels["kueue.openshift.io/managed"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": tenant.name,
            "labels": labels,
            "annotations": {"argocd.argoproj.io/sync-options": "Prune=confirm,Delete=confirm"},
        },
    }


def service_account(tenant: Tenant) -> Body:
    """The identity of the tenant's MPI pods: nothing is granted to it, and it mounts no token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": SERVICE_ACCOUNT, "namespace": tenant.name},
        "automountServiceAccountToken": False,
    }
