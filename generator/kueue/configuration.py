"""The configuration of Kueue: the ConfigMap of upstream's install, or the `Kueue` resource of OpenShift's operator.

Kueue reads the configuration at start, and it applies to the whole cluster. So no GitOps engine applies the generated
file: an admin compares it with the installed configuration. Sources: kueue v0.19.2
apis/config/v1beta2/configuration_types.go; kueue v0.18.3 apis/config/v1beta2/configuration_types.go; kueue v0.19.2
pkg/config/validation.go; kueue v0.18.3 pkg/config/validation.go; with an unknown field Kueue does not start
(kueue v0.19.2 pkg/config/config.go fromFile; kueue v0.18.3 pkg/config/config.go fromFile).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from generator.config.model.cluster import Cluster
from generator.config.model.fabrics import Fabric
from generator.config.model.fields import to_seconds
from generator.config.model.queues import Queues
from generator.documents.emit import Emitter
from generator.facts.defects import known
from generator.facts.names import TENANT_LABEL
from generator.facts.table import read_table
from generator.facts.versions import followed_minor
from generator.manifests import Body, omit_none

_INSTALLS: Mapping[str, Body] = {row["version"]: row for row in read_table("kueue")["installs"]}
"""Minor version of Kueue → the settings of its install."""
_OPERATOR_NAMES: Mapping[str, str] = read_table("kueue")["operatorNames"]

NAMESPACE = "kueue-system"
KEY = "controller_manager_config.yaml"
"""Key in the ConfigMap of upstream's kustomization and chart: the file that Kueue reads (`--config`)."""

_TENANTS = {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]}
"""Selects the namespaces of tenants, in which Kueue suspends jobs without a queue. Kueue then ignores all jobs in other
namespaces (ManagedJobsNamespaceSelectorAlwaysRespected: enabled by default in 0.18, locked in 0.19)."""

_STRATEGIES = {"retain": "Retain", "replace": "Replace"}

_PAUSES = {"backoffBaseSeconds": 60, "backoffMaxSeconds": 3600}
"""The operator's defaults of two fields of `requeuingStrategy`. If one is absent, the API server rejects the object: a
CEL rule compares both (kueue-operator dc3b65774c45 pkg/apis/kueueoperator/v1/types.go RequeuingStrategy)."""


def kueue_object(queues: Queues, cluster: Cluster, fabrics: Sequence[Fabric] = ()) -> Body:
    """Return the ConfigMap of upstream's install, or the `Kueue` resource of OpenShift's operator."""
    if cluster.is_openshift:
        return operator_resource(queues, cluster.versions.kueue, fabrics)
    text = Emitter().emit([configuration(queues, cluster.versions.kueue, fabrics)]).removeprefix("---\n")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": NAMESPACE},
        "data": {KEY: text},
    }


def configuration(queues: Queues, version: str, fabrics: Sequence[Fabric] = ()) -> Body:
    """Return the complete `Configuration` of Kueue: the defaults of an install, changed as the platform declares."""
    install, manages_all = _INSTALLS[followed_minor("kueue", version)], queues.manage_jobs_without_queue_name
    retained = {"workloads": {"afterFinished": queues.retain_finished}}
    preemption_strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
    return omit_none(
        {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": ":8081"},
            "metrics": {"bindAddress": ":8443"},
            "webhook": {"port": 9443},
            "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
            "controller": {"groupKindConcurrency": dict(install["concurrency"])},
            "clientConnection": dict(install["client"]),
            "integrations": {"frameworks": list(install["frameworks"])},
            "manageJobsWithoutQueueName": manages_all,
            "waitForPodsReady": _wait_for_pods_ready(queues),
            "managedJobsNamespaceSelector": _TENANTS if manages_all else None,
            "fairSharing": {"preemptionStrategies": preemption_strategies} if queues.fair_sharing else None,
            "resources": _resources(queues, fabrics) or None,
            "objectRetentionPolicies": None if queues.retain_finished is None else retained,
        }
    )


def _wait_for_pods_ready(queues: Queues) -> Body:
    settings = queues.wait_for_pods_ready
    requeuing = {"backoffLimitCount": settings.backoff_limit}
    return {
        "timeout": settings.timeout,
        "blockAdmission": False,
        "recoveryTimeout": settings.recovery_timeout,
        "requeuingStrategy": None if settings.backoff_limit is None else requeuing,
    }


def _resources(queues: Queues, fabrics: Sequence[Fabric]) -> Body:
    transformations = [
        {
            "input": transformation.input,
            "strategy": _STRATEGIES[transformation.strategy],
            "outputs": {name: str(amount) for name, amount in transformation.outputs.items()} or None,
        }
        for transformation in queues.transformations
    ]
    return omit_none(
        {
            "deviceClassMappings": _device_class_mappings(fabrics),
            "excludeResourcePrefixes": [*queues.exclude_resource_prefixes] or None,
            "transformations": transformations or None,
        }
    )


def _device_class_mappings(fabrics: Sequence[Fabric]) -> list[Body] | None:
    """Return the resource name by which Kueue counts claims of each DeviceClass; None if pods claim no device.

    Kueue rejects workloads that claim an unmapped class (kueue v0.19.2 pkg/dra/claims.go).
    """
    claimed = [fabric for fabric in fabrics if fabric.attached == "dra"]
    return [{"name": fabric.device, "deviceClassNames": [fabric.claimed]} for fabric in claimed] or None


def operator_resource(queues: Queues, version: str, fabrics: Sequence[Fabric] = ()) -> Body:
    """Return the `Kueue` resource, from which the operator of the Red Hat build of Kueue writes the configuration.

    For Kueue 0.19 (main, 1.5.0): kueue-operator dc3b65774c45 pkg/apis/kueueoperator/v1/types.go; kueue-operator
    dc3b65774c45 pkg/configmap/configmap.go. For 0.18 (release-1.4): kueue-operator a82b72a1a973
    pkg/apis/kueueoperator/v1/types.go; kueue-operator a82b72a1a973 pkg/configmap/configmap.go. The operator sets the
    managed namespaces
    (`kueue.openshift.io/managed`), concurrency and certificates itself. The resource has no field for the retention of
    finished workloads. Of `resources`, it has only `deviceClassMappings`.
    """
    policy = "None" if queues.manage_jobs_without_queue_name else "QueueName"
    mappings = _device_class_mappings(fabrics)
    install = _INSTALLS[followed_minor("kueue", version)]
    frameworks = [_OPERATOR_NAMES[name] for name in install["frameworks"] if name in _OPERATOR_NAMES]
    return omit_none(
        {
            "apiVersion": "kueue.openshift.io/v1",
            "kind": "Kueue",
            "metadata": {"name": "cluster"},
            "spec": {
                "managementState": "Managed",
                "logLevel": "Normal",
                "operatorLogLevel": "Normal",
                "config": {
                    "integrations": {"frameworks": frameworks},
                    "workloadManagement": {"labelPolicy": policy},
                    "gangScheduling": _gang_scheduling(queues, version),
                    "preemption": {"preemptionPolicy": "FairSharing" if queues.fair_sharing else "Classical"},
                    "resources": {"deviceClassMappings": mappings} if mappings else None,
                },
            },
        }
    )


def _gang_scheduling(queues: Queues, version: str) -> Body:
    """Return `gangScheduling`; off in versions that wait only five minutes for pods, too short to pull most images."""
    if known("kueue-operator-waits-five-minutes").affects({"kueue": version}):
        return {"policy": "None"}
    settings = queues.wait_for_pods_ready
    recovery, retries = settings.recovery_timeout, settings.backoff_limit
    return {
        "policy": "ByWorkload",
        "byWorkload": {
            "admission": "Parallel",
            "timeoutSeconds": to_seconds(settings.timeout),
            "recoveryTimeoutSeconds": None if recovery is None else to_seconds(recovery),
            "requeuingStrategy": None if retries is None else {"retryLimit": retries, **_PAUSES},
        },
    }
