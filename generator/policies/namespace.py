"""Namespace and ServiceAccount of a tenant."""

from __future__ import annotations

from generator.config.platform import Platform
from generator.config.tenants import Tenant
from generator.config.workload import SERVICE_ACCOUNT, TENANT_LABEL
from generator.manifests import Body
from generator.policies.admission.parameters import parameters


def namespace(tenant: Tenant, team: str, platform: Platform) -> Body:
    """A namespace of a team: its Pod Security Standard, and what admission policies allow there.

    Argo CD deletes it only when a person confirms. The enforced version is pinned to the cluster's, so that an upgrade
    does not evict; warnings follow the newest.
    """
    cluster, standard = platform.cluster, platform.policies.pod_security
    labels = {
        TENANT_LABEL: team,
        **tenant.labels,
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
            "annotations": {
                "argocd.argoproj.io/sync-options": "Prune=confirm,Delete=confirm",
                **parameters(tenant, team, platform),
            },
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
