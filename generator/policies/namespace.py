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
    """Return a namespace of a team, with its Pod Security level and the parameters of admission policies.

    Argo CD deletes the namespace only after a person confirms. The enforced Pod Security version is the cluster's
    version, so that pods stay valid after an upgrade. Warnings follow the latest version.
    """
    cluster = platform.cluster
    labels = {
        TENANT_LABEL: team,
        **tenant.labels,
        **{f"{RELAXED}{exemption.rule}": exemption.until for exemption in tenant.relax},
        **_pod_security_labels(tenant, platform.policies.pod_security),
        "pod-security.kubernetes.io/enforce-version": f"v{cluster.versions.kubernetes}",
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/audit-version": "latest",
        "pod-security.kubernetes.io/warn": "restricted",
        "pod-security.kubernetes.io/warn-version": "latest",
    }
    if cluster.is_openshift:
        # OpenShift's label syncer would overwrite the labels above. Its Kueue operator ignores other namespaces.
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
                **{f"{RELAXED}{exemption.rule}": exemption.reason for exemption in tenant.relax},
            },
        },
    }


def _pod_security_labels(tenant: Tenant, standard: str) -> dict[str, str]:
    """Return the Pod Security labels. Only `privileged` allows IPC_LOCK, so an admission rule restricts such pods."""
    if tenant.pod_security == MEMLOCK:
        return {STANDARD: MEMLOCK, POD_SECURITY_ENFORCE: "privileged"}
    return {POD_SECURITY_ENFORCE: tenant.pod_security or standard}


def service_account(tenant: Tenant, cluster: Cluster) -> Body:
    """Return the ServiceAccount of the tenant's MPI pods, which has no permissions and mounts no token.

    Pods without pull secrets get the pull secrets of their ServiceAccount (kubernetes v1.34.2
    plugin/pkg/admission/serviceaccount/admission.go). The list is atomic. OpenShift adds the login of its own
    registry to it, with a random name unless an annotation sets the name. With a random name, OpenShift and Argo CD
    would overwrite the list of each other forever (openshift-controller-manager release-4.21 438d52e
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
    """Return a ResourceQuota of objects and storage, and of pods' requests if the platform sets a second limit.

    A quota below the quota in Kueue rejects pods of admitted jobs, which then hold quota and never start. A quota on
    cpu or memory rejects every pod without requests for them.
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
    """Return small default requests for containers without requests.

    There is no `default` limit, because a container with a larger request and no limit would be invalid. There is no
    `max` of a device, because it would become the default, and every container would request all devices.
    """
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "tenant", "namespace": tenant.name},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m", "memory": "256Mi"}}]},
    }


def persistent_volume_claims(tenant: Tenant) -> Iterator[Body]:
    """Yield the PersistentVolumeClaims of a namespace, which Argo CD deletes only after a person confirms."""
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
