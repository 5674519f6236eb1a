"""The configuration of Kueue: the ConfigMap of upstream's install, or the `Kueue` resource of OpenShift's operator.

Kueue reads the configuration at start, and it applies to the whole cluster. So no GitOps engine applies the generated
file: an admin compares it with the installed configuration. Sources: kueue v0.19.2 and v0.18.3
apis/config/v1beta2/configuration_types.go and pkg/config/validation.go; with an unknown field Kueue does not start
(pkg/config/config.go `fromFile`).
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
from generator.manifests import Body

_INSTALLS: Mapping[str, Body] = {row["version"]: row for row in read_table("kueue")["installs"]}
"""Minor version of Kueue → the settings of its install."""
_OPERATOR_NAMES: Mapping[str, str] = read_table("kueue")["operatorNames"]

NAMESPACE = "kueue-system"
KEY = "controller_manager_config.yaml"
"""The file in the ConfigMap of upstream's kustomization and chart that Kueue reads (`--config`)."""

_TENANTS = {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]}
"""Namespaces in which Kueue suspends jobs without a queue. In other namespaces it then ignores jobs with a queue, too
(ManagedJobsNamespaceSelectorAlwaysRespected: enabled by default in 0.18, locked in 0.19)."""

_STRATEGIES = {"retain": "Retain", "replace": "Replace"}

_PAUSES = {"backoffBaseSeconds": 60, "backoffMaxSeconds": 3600}
"""Defaults of the operator. Without them the API server rejects a `requeuingStrategy`: the CEL rule that compares the
two fields fails if one is absent (openshift/kueue-operator at dc3b65774c45 types.go `RequeuingStrategy`)."""


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
    install = _INSTALLS[version]
    body: Body = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "controller": {"groupKindConcurrency": dict(install["concurrency"])},
        "clientConnection": dict(install["client"]),
        "integrations": {"frameworks": list(install["frameworks"])},
        "manageJobsWithoutQueueName": queues.manage_jobs_without_queue_name,
        "waitForPodsReady": _waiting(queues),
    }
    if queues.manage_jobs_without_queue_name:
        body["managedJobsNamespaceSelector"] = _TENANTS
    if queues.fair_sharing:
        strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        body["fairSharing"] = {"preemptionStrategies": strategies}
    if resources := _resources(queues, fabrics):
        body["resources"] = resources
    if queues.retain_finished is not None:
        body["objectRetentionPolicies"] = {"workloads": {"afterFinished": queues.retain_finished}}
    return body


def _resources(queues: Queues, fabrics: Sequence[Fabric]) -> Body:
    body = _claims(fabrics)
    if queues.exclude_resource_prefixes:
        body["excludeResourcePrefixes"] = list(queues.exclude_resource_prefixes)
    if queues.transformations:
        body["transformations"] = [
            {
                "input": transformation.input,
                "strategy": _STRATEGIES[transformation.strategy],
                **({"outputs": dict(transformation.outputs)} if transformation.outputs else {}),
            }
            for transformation in queues.transformations
        ]
    return body


def _claims(fabrics: Sequence[Fabric]) -> Body:
    """Return the mappings from DeviceClass to resource, because Kueue rejects unmapped classes (pkg/dra/claims.go)."""
    mapped = [
        {"name": fabric.device, "deviceClassNames": [fabric.claimed]} for fabric in fabrics if fabric.attached == "dra"
    ]
    return {"deviceClassMappings": mapped} if mapped else {}


def _waiting(queues: Queues) -> Body:
    settings = queues.wait_for_pods_ready
    body: Body = {"timeout": settings.timeout, "blockAdmission": False}
    if settings.recovery_timeout is not None:
        body["recoveryTimeout"] = settings.recovery_timeout
    if settings.backoff_limit is not None:
        body["requeuingStrategy"] = {"backoffLimitCount": settings.backoff_limit}
    return body


def operator_resource(queues: Queues, version: str, fabrics: Sequence[Fabric] = ()) -> Body:
    """Return the `Kueue` resource, from which the operator of the Red Hat build of Kueue writes the configuration.

    openshift/kueue-operator, for Kueue 0.19 at dc3b65774c45 (main, 1.5.0), for 0.18 at a82b72a1a973 (release-1.4):
    pkg/apis/kueueoperator/v1/types.go, pkg/configmap/configmap.go. The operator sets the managed namespaces
    (`kueue.openshift.io/managed`), concurrency and certificates itself. It has no field for the retention of finished
    workloads, and of the counted resources only a field for claims.
    """
    policy = "None" if queues.manage_jobs_without_queue_name else "QueueName"
    claims = _claims(fabrics)
    frameworks = [_OPERATOR_NAMES[name] for name in _INSTALLS[version]["frameworks"] if name in _OPERATOR_NAMES]
    return {
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
                **({"resources": claims} if claims else {}),
            },
        },
    }


def _gang_scheduling(queues: Queues, version: str) -> Body:
    """Return `gangScheduling`: off if the operator waits only five minutes, too short to pull most images."""
    if known("kueue-operator-waits-five-minutes").affects({"kueue": version}):
        return {"policy": "None"}
    settings = queues.wait_for_pods_ready
    body: Body = {"admission": "Parallel", "timeoutSeconds": to_seconds(settings.timeout)}
    if settings.recovery_timeout is not None:
        body["recoveryTimeoutSeconds"] = to_seconds(settings.recovery_timeout)
    if settings.backoff_limit is not None:
        body["requeuingStrategy"] = {"retryLimit": settings.backoff_limit, **_PAUSES}
    return {"policy": "ByWorkload", "byWorkload": body}
