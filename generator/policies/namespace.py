"""Namespace and ServiceAccount of a tenant."""

from __future__ import annotations

from generator.config.platform import Platform
from generator.config.tenants import Tenant
from generator.config.workload import SERVICE_ACCOUNT, TENANT_LABEL
from generator.manifests import Body
from generator.policies.admission.memlock import MEMLOCK, STANDARD
from generator.policies.admission.parameters import parameters
from generator.policies.admission.policy import RELAXED

_ENFORCE = "pod-security.kubernetes.io/enforce"


def namespace(tenant: Tenant, team: str, platform: Platform) -> Body:
    """A namespace of a team: its Pod Security Standard, and what admission policies allow there.

    Argo CD deletes it only when a person confirms. The enforced version is pinned to the cluster's, so that an upgrade
    does not evict; warnings follow the newest.
    """
    cluster = platform.cluster
    labels = {
        TENANT_LABEL: team,
        **tenant.labels,
        **{f"{RELAXED}{each.rule}": each.until for each in tenant.relax},
        **_standard(tenant, platform.policies.pod_security),
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
                **{f"{RELAXED}{each.rule}": each.reason for each in tenant.relax},
            },
        },
    }


def _standard(tenant: Tenant, standard: str) -> dict[str, str]:
    """What pods are held to. Of Kubernetes' standards none but `privileged` knows `memlock`: a policy does the rest."""
    if tenant.pod_security == MEMLOCK:
        return {STANDARD: MEMLOCK, _ENFORCE: "privileged"}
    return {_ENFORCE: tenant.pod_security or standard}


def service_account(tenant: Tenant) -> Body:
    """The identity of the tenant's MPI pods: nothing is granted to it, and it mounts no token."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": SERVICE_ACCOUNT, "namespace": tenant.name},
        "automountServiceAccountToken": False,
    }
