"""A namespace of a team, with its ServiceAccount, ResourceQuota, LimitRange and PersistentVolumeClaims.

Sources: kubernetes v1.34.2 pkg/quota/v1/evaluator/core/pods.go isExtendedResourceNameForQuota (extended resources count
under `requests.` only), kubernetes v1.34.2 pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem.
"""

from __future__ import annotations

from collections.abc import Iterator

from generator import quantities
from generator.config.model.cluster import Cluster
from generator.config.model.quotas import quota_amounts
from generator.config.model.tenants import Tenant
from generator.config.platform import Platform
from generator.facts.names import (
    CONFIRMED_DELETION,
    DASHBOARD_PROJECT,
    ISOLATION,
    POD_SECURITY_ENFORCE,
    REGISTRY_LOGIN,
    RELAXED,
    RETIRED,
    SERVICE_ACCOUNT,
    SYNC_OPTIONS,
    TENANT_LABEL,
)
from generator.manifests import Body, omit_none
from generator.policies.access import MEMLOCK, STANDARD
from generator.policies.admission.parameters import namespace_parameters

_DEFAULT_REQUESTS = {"cpu": "100m", "memory": "256Mi"}
_OPENSHIFT_LABELS = {
    "security.openshift.io/scc.podSecurityLabelSync": "false",  # else OpenShift overwrites the Pod Security labels
    "kueue.openshift.io/managed": "true",  # else the Kueue operator ignores the namespace
}


def namespace(tenant: Tenant, team: str, platform: Platform) -> Body:
    """Return a namespace of a team, with its Pod Security level and the parameters of admission policies.

    Argo CD deletes the namespace only after a person confirms. Kubernetes enforces the Pod Security level as of the
    declared version, so that an upgrade of the cluster rejects no pod, and warns as of the latest version.
    """
    cluster = platform.cluster
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": tenant.name,
            "labels": {
                TENANT_LABEL: team,
                **({RETIRED: tenant.retired.until} if tenant.retired else {}),
                **tenant.labels,
                **{f"{RELAXED}{exemption.rule}": exemption.until for exemption in tenant.relax},
                **_pod_security_labels(tenant, platform.policies.pod_security),
                "pod-security.kubernetes.io/enforce-version": f"v{cluster.versions.kubernetes}",
                "pod-security.kubernetes.io/audit": "restricted",
                "pod-security.kubernetes.io/audit-version": "latest",
                "pod-security.kubernetes.io/warn": "restricted",
                "pod-security.kubernetes.io/warn-version": "latest",
                **(_OPENSHIFT_LABELS if cluster.is_openshift else {}),
                **({DASHBOARD_PROJECT: "true"} if cluster.openshift_ai else {}),
            },
            "annotations": {
                SYNC_OPTIONS: CONFIRMED_DELETION,
                **namespace_parameters(tenant, team, platform),
                **({ISOLATION: "job"} if platform.isolation.unit == "job" else {}),
                **({RETIRED: tenant.retired.reason} if tenant.retired else {}),
                **{f"{RELAXED}{exemption.rule}": exemption.reason for exemption in tenant.relax},
            },
        },
    }


def _pod_security_labels(tenant: Tenant, standard: str) -> dict[str, str]:
    """Return the labels of the enforced Pod Security level. For mpigen's own level `memlock`, it is `privileged`.

    No other level of Kubernetes allows IPC_LOCK. The admission rule `memlock` enforces all else that `restricted`
    requires.
    """
    if tenant.pod_security == MEMLOCK:
        return {STANDARD: MEMLOCK, POD_SECURITY_ENFORCE: "privileged"}
    return {POD_SECURITY_ENFORCE: tenant.pod_security or standard}


def service_account(tenant: Tenant, cluster: Cluster) -> Body:
    """Return the ServiceAccount of the tenant's MPI pods, which has no permissions and mounts no token.

    Pods without pull secrets get the pull secrets of their ServiceAccount (kubernetes v1.34.2
    plugin/pkg/admission/serviceaccount/admission.go Plugin.Admit). The list is atomic. OpenShift adds the login of its
    own registry
    to the list, with a random name unless an annotation sets the name. With a random name, OpenShift and Argo CD would
    overwrite each other's list forever (openshift/openshift-controller-manager 438d52e
    pkg/internalregistry/controllers/service_account_controller.go managedImagePullSecretName).
    """
    declared = [secret.name for secret in tenant.secrets.pull_secrets]
    logins = [REGISTRY_LOGIN] if declared and cluster.is_openshift else []
    annotations = {
        **tenant.service_account_annotations,
        **({"openshift.io/internal-registry-pull-secret-ref": REGISTRY_LOGIN} if logins else {}),
    }
    return omit_none(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": SERVICE_ACCOUNT,
                "namespace": tenant.name,
                "annotations": annotations or None,
            },
            "automountServiceAccountToken": False,
            "imagePullSecrets": [{"name": name} for name in (*logins, *declared)] or None,
        }
    )


def resource_quota(tenant: Tenant) -> Body:
    """Return the ResourceQuota of a namespace: objects, storage, and the requests in `limits.resources` of the tenant.

    A retired tenant can create no TrainJobs. Its other TrainJobs stay: kubernetes v1.34.2
    pkg/controller/resourcequota/resource_quota_controller.go Controller.syncResourceQuota: it deletes nothing.

    If a limit is below the quota of the ClusterQueue, pods of admitted jobs are rejected: the jobs hold quota and never
    start. A limit on cpu or memory rejects every pod without a request for cpu or memory.
    """
    limits = tenant.limits
    jobs = 0 if tenant.retired else limits.train_jobs
    hard = {
        **{f"requests.{resource}": str(amount) for resource, amount in limits.resources.items()},
        "count/trainjobs.trainer.kubeflow.org": str(quantities.parse(str(jobs))),
        "services.loadbalancers": "0",
        "services.nodeports": "0",
        "persistentvolumeclaims": None if limits.volumes is None else str(quantities.parse(str(limits.volumes))),
        "requests.storage": None if limits.storage is None else str(limits.storage),
    }
    return omit_none(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "tenant", "namespace": tenant.name},
            "spec": {"hard": dict(sorted(hard.items()))},
        }
    )


def limit_range(tenant: Tenant, platform: Platform) -> Body:
    """Return the LimitRange: small default requests, and at most the cpu and memory of the largest node in a container.

    Kueue then reports a job with larger pods as inadmissible, instead of admitting pods that no node can run. A tenant
    with `multiKueue` has no `max`, because its jobs run on other clusters.

    A `max` of cpu or memory also becomes the default limit, so a container without a limit gets the limit of a whole
    node. The default is written out, as the API server stores it. These settings are left out, because they would
    reject ordinary pods (kubernetes v1.34.2 plugin/pkg/admission/limitranger/admission.go):

    - A smaller `default` makes a container with a larger request and no limit invalid.
    - `maxLimitRequestRatio` requires a limit and a request in every container. Workbenches and pipelines are burstable:
      their limits exceed their requests, or they have none.
    - `max` of a `Pod` compares the sum of the limits, so two containers without limits exceed it.
    - `max` of a device becomes the default request too, so that every container would request all devices of a node.
    - `max` of a PersistentVolumeClaim adds nothing to `requests.storage` of the ResourceQuota. The API server would
      also reject every update of a larger existing claim, such as the update that binds the claim.
    """
    most = {} if tenant.multi_kueue else _largest_node(tenant, platform)
    bounds = {"default": most, "defaultRequest": _DEFAULT_REQUESTS, "max": most}
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "tenant", "namespace": tenant.name},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    **{bound: amounts for bound, amounts in bounds.items() if amounts},
                }
            ]
        },
    }


def _largest_node(tenant: Tenant, platform: Platform) -> dict[str, str]:
    """Return the most cpu and the most memory that a node offers to pods of the tenant.

    Jobs run in the pools of the tenant's quota and borrowing limit. Pods of declared workloads run in any pool.
    """
    shares = (*tenant.quotas, tenant.borrow)
    used = {name for share in shares for name in quota_amounts(share, platform.supplies)}
    declared = (platform.policies.workloads, tenant.workloads)
    is_open = any(workloads.kinds or workloads.controllers for workloads in declared)
    pools = [pool for pool in platform.pools if is_open or pool.name in used]
    amounts = {name: [pool.allocatable[name] for pool in pools] for name in _DEFAULT_REQUESTS}
    return {name: str(max(offered, key=lambda amount: amount.value)) for name, offered in amounts.items()}


def persistent_volume_claims(tenant: Tenant) -> Iterator[Body]:
    """Yield the PersistentVolumeClaims of a namespace, which Argo CD deletes only after a person confirms."""
    for volume in tenant.volumes:
        yield omit_none(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": volume.name,
                    "namespace": tenant.name,
                    "annotations": {SYNC_OPTIONS: CONFIRMED_DELETION},
                },
                "spec": {
                    "accessModes": [*volume.access_modes],
                    "resources": {"requests": {"storage": str(volume.size)}},
                    "volumeMode": "Filesystem",
                    "storageClassName": volume.class_name,
                },
            }
        )
