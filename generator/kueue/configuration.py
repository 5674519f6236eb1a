"""The configuration of Kueue: the ConfigMap of upstream's install, or the `Kueue` resource of OpenShift's operator.

Kueue reads it once, at start, and it holds for the whole cluster, so no engine applies it with the tree: an admin
compares it with the installed one. Fields and rules: kueue v0.19.2 and v0.18.3
apis/config/v1beta2/configuration_types.go and pkg/config/validation.go; an unknown field keeps Kueue from starting
(pkg/config/config.go `fromFile`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from generator.config.model.cluster import Cluster
from generator.config.model.fabrics import Fabric
from generator.config.model.fields import to_seconds
from generator.config.model.queues import Queues
from generator.documents.emit import Emitter
from generator.facts.defects import known
from generator.facts.names import TENANT_LABEL
from generator.manifests import Body


@dataclass(frozen=True, slots=True)
class Installed:
    """Settings that differ between minor versions of Kueue, as installed.

    Attributes:
        concurrency: kind → how many of its objects are worked on at once.
        qps: requests to the API server in a second.
        burst: how many of them at once.
        frameworks: the kinds of job that Kueue takes notice of.
    """

    concurrency: Mapping[str, int]
    qps: int
    burst: int
    frameworks: tuple[str, ...]


_BEFORE_KUBEFLOW = (
    "batch/job",
    "kubeflow.org/mpijob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "jobset.x-k8s.io/jobset",
)
_KUBEFLOW_V1 = tuple(f"kubeflow.org/{kind}" for kind in ("paddlejob", "pytorchjob", "tfjob", "xgboostjob", "jaxjob"))
_AFTER_KUBEFLOW = (
    "workload.codeflare.dev/appwrapper",
    "trainer.kubeflow.org/trainjob",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)


def _concurrency(*, workloads: int, queues: int) -> Mapping[str, int]:
    return {
        "Job.batch": 5,
        "Pod": 5,
        "Workload.kueue.x-k8s.io": workloads,
        "LocalQueue.kueue.x-k8s.io": queues,
        "Cohort.kueue.x-k8s.io": 1,
        "ClusterQueue.kueue.x-k8s.io": queues,
        "ResourceFlavor.kueue.x-k8s.io": 1,
    }


INSTALLED: Mapping[str, Installed] = {
    "0.19": Installed(
        concurrency=_concurrency(workloads=10, queues=5),
        qps=300,
        burst=500,
        frameworks=(*_BEFORE_KUBEFLOW, *_AFTER_KUBEFLOW),
    ),
    "0.18": Installed(
        concurrency=_concurrency(workloads=5, queues=1),
        qps=50,
        burst=100,
        frameworks=(*_BEFORE_KUBEFLOW, *_KUBEFLOW_V1, *_AFTER_KUBEFLOW),
    ),
}
"""Minor version of Kueue → its settings."""


NAMESPACE = "kueue-system"
KEY = "controller_manager_config.yaml"
"""The file that Kueue is started with (`--config`), in the ConfigMap of upstream's kustomization and of its chart."""

_OPERATOR_NAMES = {
    "batch/job": "BatchJob",
    "kubeflow.org/mpijob": "MPIJob",
    "ray.io/rayjob": "RayJob",
    "ray.io/raycluster": "RayCluster",
    "ray.io/rayservice": "RayService",
    "jobset.x-k8s.io/jobset": "JobSet",
    "workload.codeflare.dev/appwrapper": "AppWrapper",
    "trainer.kubeflow.org/trainjob": "TrainJob",
    "pod": "Pod",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "leaderworkerset.x-k8s.io/leaderworkerset": "LeaderWorkerSet",
}
"""Kueue's name → the operator's. Not JaxJob, which the operator passes on as nothing: Kueue would not start."""


_TENANTS = {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]}
"""Namespaces in which Kueue suspends jobs without a queue. It ignores all jobs in other namespaces then, also jobs with
a queue (ManagedJobsNamespaceSelectorAlwaysRespected: on in 0.18, for good in 0.19)."""

_STRATEGIES = {"retain": "Retain", "replace": "Replace"}

_PAUSES = {"backoffBaseSeconds": 60, "backoffMaxSeconds": 3600}
"""Defaults of the operator. Without them the API server rejects a `requeuingStrategy`: the rule that compares
the two fails where one is absent (openshift/kueue-operator at dc3b65774c45 types.go `RequeuingStrategy`)."""


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
    """Kueue's `Configuration`, whole: what the install of that version says, and what the platform wants of it."""
    installed = INSTALLED[version]
    body: Body = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "controller": {"groupKindConcurrency": dict(installed.concurrency)},
        "clientConnection": {"qps": installed.qps, "burst": installed.burst},
        "integrations": {"frameworks": list(installed.frameworks)},
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
    """Return the resource as which Kueue counts a claim; it rejects unmapped classes (pkg/dra/claims.go)."""
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
    """`Kueue` of the Red Hat build of Kueue, from which its operator writes the configuration.

    openshift/kueue-operator, for Kueue 0.19 at dc3b65774c45 (main, 1.5.0), for 0.18 at a82b72a1a973 (release-1.4):
    pkg/apis/kueueoperator/v1/types.go, and pkg/configmap/configmap.go for what becomes of it. The operator decides by
    itself which namespaces are managed (`kueue.openshift.io/managed`), how many objects are worked on at once, and
    where certificates come from; it has no word for the retention of what has finished, nor for what is counted, other
    than claims.
    """
    policy = "None" if queues.manage_jobs_without_queue_name else "QueueName"
    claims = _claims(fabrics)
    frameworks = [_OPERATOR_NAMES[name] for name in INSTALLED[version].frameworks if name in _OPERATOR_NAMES]
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
    """Switch waiting off where the operator takes no other time than five minutes, in which few images arrive."""
    if known("kueue-operator-waits-five-minutes").affects({"kueue": version}):
        return {"policy": "None"}
    settings = queues.wait_for_pods_ready
    body: Body = {"admission": "Parallel", "timeoutSeconds": to_seconds(settings.timeout)}
    if settings.recovery_timeout is not None:
        body["recoveryTimeoutSeconds"] = to_seconds(settings.recovery_timeout)
    if settings.backoff_limit is not None:
        body["requeuingStrategy"] = {"retryLimit": settings.backoff_limit, **_PAUSES}
    return {"policy": "ByWorkload", "byWorkload": body}
