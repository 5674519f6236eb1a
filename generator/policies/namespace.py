"""The namespace of a team and what bounds it: ServiceAccount, ResourceQuota, LimitRange and PersistentVolumeClaims.

Sources: kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go (extended resources count under `requests.` only),
pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator import quantities
from generator.config.model.cluster import Cluster
from generator.config.model.tenants import Limits, Tenant
from generator.config.platform import Platform
from generator.facts.names import POD_SECURITY_ENFORCE, REGISTRY_LOGIN, RELAXED, SERVICE_ACCOUNT, TENANT_LABEL
from generator.manifests import Body
from generator.policies.admission.memlock import MEMLOCK, STANDARD
from generator.policies.admission.parameters import namespace_parameters


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
        **_pod_security_labels(tenant, platform.policies.pod_security),
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
                **namespace_parameters(tenant, team, platform),
                **{f"{RELAXED}{each.rule}": each.reason for each in tenant.relax},
            },
        },
    }


def _pod_security_labels(tenant: Tenant, standard: str) -> dict[str, str]:
    """Return the labels of Pod Security. Only `privileged` allows `memlock`: an admission rule requires the rest."""
    if tenant.pod_security == MEMLOCK:
        return {STANDARD: MEMLOCK, POD_SECURITY_ENFORCE: "privileged"}
    return {POD_SECURITY_ENFORCE: tenant.pod_security or standard}


def service_account(tenant: Tenant, cluster: Cluster) -> Body:
    """The identity of the tenant's MPI pods: nothing is granted to it, and it mounts no token.

    Pods without pull secrets get the pull secrets of their ServiceAccount (kubernetes v1.34.2
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


def resource_quota(tenant: Tenant) -> Body:
    """Limits on objects and storage. What pods request is left to Kueue, unless the platform asks for a second limit.

    A quota that is smaller than what Kueue admits refuses pods of jobs that then hold their share and never start, and
    one on cpu or memory refuses every pod that does not state them.
    """
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tenant", "namespace": tenant.name},
        "spec": {"hard": dict(sorted(_hard(tenant.limits).items()))},
    }


def _hard(limits: Limits) -> dict[str, str]:
    hard = {f"requests.{resource}": amount for resource, amount in limits.resources.items()}
    hard["count/trainjobs.trainer.kubeflow.org"] = str(quantities.parse(str(limits.train_jobs)))
    hard |= {"services.loadbalancers": "0", "services.nodeports": "0"}
    if limits.volumes is not None:
        hard["persistentvolumeclaims"] = str(quantities.parse(str(limits.volumes)))
    if limits.storage is not None:
        hard["requests.storage"] = limits.storage
    return hard


def limit_range(tenant: Tenant) -> Body:
    """Small requests for containers that state none.

    No `default` limit: it would fall below the request of a container that states only that. No `max` and no devices:
    a maximum of a device becomes its default, and every container would get all of them.
    """
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "tenant", "namespace": tenant.name},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "256Mi"}}]},
    }


def persistent_volume_claims(tenant: Tenant) -> Iterator[Body]:
    """The claims of a namespace. With a claim goes what is on it, so a person confirms, as of a namespace."""
    for volume in tenant.volumes:
        spec: Body = {
            "accessModes": [*volume.access_modes],
            "resources": {"requests": {"storage": volume.size}},
            "volumeMode": "Filesystem",
        }
        if volume.class_name is not None:
            spec["storageClassName"] = volume.class_name
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": volume.name,
                "namespace": tenant.name,
                "annotations": {"argocd.argoproj.io/sync-options": "Prune=confirm,Delete=confirm"},
            },
            "spec": spec,
        }
