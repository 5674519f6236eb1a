"""Namespace and ServiceAccount of a tenant."""

from __future__ import annotations

from generator.config.model.cluster import Cluster
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import POD_SECURITY_ENFORCE, REGISTRY_LOGIN, RELAXED, SERVICE_ACCOUNT, TENANT_LABEL
from generator.manifests import Body
from generator.policies.admission.memlock import MEMLOCK, STANDARD
from generator.policies.admission.parameters import parameters


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
        return {STANDARD: MEMLOCK, POD_SECURITY_ENFORCE: "privileged"}
    return {POD_SECURITY_ENFORCE: tenant.pod_security or standard}


def service_account(tenant: Tenant, cluster: Cluster) -> Body:
    """The identity of the tenant's MPI pods: nothing is granted to it, and it mounts no token.

    Pods that name no pull secrets have those of their account (kubernetes v1.34.2
    plugin/pkg/admission/serviceaccount/admission.go). The list is atomic, and OpenShift adds the login to its own
    registry to it, by a name that it makes up unless the account says one: without that, it and Argo CD would take the
    list from each other for ever (openshift-controller-manager release-4.21 438d52e
    pkg/internalregistry/controllers/service_account_controller.go `sync`, `managedImagePullSecretName`).
    """
    names = [secret.name for secret in tenant.secrets.pull_secrets]
    metadata: Body = {"name": SERVICE_ACCOUNT, "namespace": tenant.name}
    if names and cluster.is_openshift:
        metadata["annotations"] = {"openshift.io/internal-registry-pull-secret-ref": REGISTRY_LOGIN}
        names = [REGISTRY_LOGIN, *names]
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata,
        "automountServiceAccountToken": False,
        **({"imagePullSecrets": [{"name": name} for name in names]} if names else {}),
    }
