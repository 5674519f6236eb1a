"""The objects that JobSet and the Job controller create for a JobSet: a Service, Jobs and Pods.

They follow JobSet 0.11 and 0.12 and the Job controller. Each function names its source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from generator.documents.load import Path
from generator.facts.names import CONTROLLER_UID, JOB_LABEL, JOB_NAME_LABELS, UNKNOWN_UID
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, integer, mapping, mappings, string
from generator.upstream.trainer.runtime import owned

_PREFIX = "jobset.sigs.k8s.io"
_INDEX = "batch.kubernetes.io/job-completion-index"
_INDEXED = "Indexed"
_UNKNOWN_HASH = "0" * 40
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""PriorityClasses of every cluster (kubernetes v1.34.2 pkg/apis/scheduling/types.go SystemCriticalPriority)."""


def with_defaults(spec: Body) -> Body:
    """Return a JobSet spec with the defaults of the JobSet webhook.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.Default
    """
    network = {"enableDNSHostnames": True, "publishNotReadyAddresses": True, **mapping(spec.get("network"))}
    return {
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        **spec,
        "network": network,
        "replicatedJobs": [_with_modes(job) for job in mappings(spec.get("replicatedJobs"))],
    }


def _with_modes(job: Body) -> Body:
    template = mapping(job.get("template"))
    spec = {"completionMode": _INDEXED, **mapping(template, "spec")}
    pods = mapping(spec.get("template"))
    pod = {**mapping(pods, "spec"), "restartPolicy": mapping(pods, "spec").get("restartPolicy") or "OnFailure"}
    return {**job, "template": {**template, "spec": {**spec, "template": {**pods, "spec": pod}}}}


def service(job_set: Manifest) -> Body | None:
    """Return the headless Service of a JobSet; None without host names (createHeadlessSvcIfNecessary).

    JobSet creates the Service only if there is none of this name, so JobSets with one subdomain share the first one.
    """
    network = mapping(job_set.body, "spec", "network")
    if network.get("enableDNSHostnames") is not True:
        return None
    ready = {"publishNotReadyAddresses": True} if network.get("publishNotReadyAddresses") is True else {}
    spec = {"clusterIP": "None", "selector": {JOB_LABEL: job_set.name}, **ready}
    return {**owned("v1", "Service", _subdomain(job_set), job_set), "spec": spec}


def _subdomain(job_set: Manifest) -> str:
    return string(mapping(job_set.body, "spec", "network").get("subdomain")) or job_set.name


def jobs(job_set: Manifest) -> Iterator[tuple[int, Body]]:
    """Yield (index of the replicated job, Job) for the Jobs of a JobSet."""
    for number, replicated in indexed_mappings(mapping(job_set.body, "spec").get("replicatedJobs")):
        for index in range(integer(replicated.get("replicas"), 1)):
            yield number, _job(job_set, replicated, index)


def _job(job_set: Manifest, replicated: Body, index: int) -> Body:
    """Return the Job at an index of a replicated job.

    Source: jobset v0.12.0 pkg/controllers/jobset_controller.go constructJob; kubernetes v1.34.2
    pkg/registry/batch/job/strategy.go generateSelector
    """
    template, labels = mapping(replicated, "template"), _labels(job_set, replicated, index)
    name = f"{job_set.name}-{string(replicated.get('name'))}-{index}"
    spec = mapping(template, "spec")
    pods = mapping(spec, "template")
    generated = dict.fromkeys(JOB_NAME_LABELS, name)
    generated |= dict.fromkeys(("controller-uid", CONTROLLER_UID), UNKNOWN_UID)
    metadata = {
        **mapping(pods, "metadata"),
        "labels": {**generated, **mapping(pods, "metadata", "labels"), **labels},
        "annotations": {**mapping(pods, "metadata", "annotations"), **labels},
    }
    has_hosts = mapping(job_set.body, "spec", "network").get("enableDNSHostnames") is True
    pod = {**mapping(pods, "spec"), **({"subdomain": _subdomain(job_set)} if has_hosts else {})}
    if claims := _claims(job_set, pod):
        pod["volumes"] = [*mappings(pod.get("volumes")), *claims]
    job = owned("batch/v1", "Job", name, job_set)
    job["metadata"]["labels"] = {**mapping(template, "metadata", "labels"), **labels}
    job["metadata"]["annotations"] = {**mapping(template, "metadata", "annotations"), **labels}
    job["spec"] = {
        **spec,
        "selector": {"matchLabels": {CONTROLLER_UID: UNKNOWN_UID}},
        "suspend": mapping(job_set.body, "spec").get("suspend") is True,
        "template": {**pods, "metadata": metadata, "spec": pod},
    }
    return job


def find_volume_claims(spec: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield (path below the spec, name) of each claim template in the volume claim policies of a JobSet."""
    for number, policy in indexed_mappings(spec.get("volumeClaimPolicies")):
        for place, template in indexed_mappings(policy.get("templates")):
            path: Path = ("volumeClaimPolicies", number, "templates", place)
            yield path, string(mapping(template, "metadata").get("name"))


def find_mounts(pod: Body) -> Iterator[str]:
    """Yield the name of the volume of each mount in the containers of a pod."""
    for key in ("initContainers", "containers"):
        for container in mappings(pod.get(key)):
            for mount in mappings(container.get("volumeMounts")):
                yield string(mount.get("name"))


def _claims(job_set: Manifest, pod: Body) -> list[Body]:
    """Return the volumes of the claims that containers of a Job mount.

    Source: jobset v0.12.0 pkg/controllers/volume_claim_policy.go addVolumes
    """
    mounted = set(find_mounts(pod))
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{job_set.name}"}}
        for _, name in find_volume_claims(mapping(job_set.body, "spec"))
        if name in mounted
    ]


def _labels(job_set: Manifest, replicated: Body, index: int) -> dict[str, str]:
    """Return the labels of a Job and its pods, which are annotations too (labelAndAnnotateObject)."""
    everything = mappings(mapping(job_set.body, "spec").get("replicatedJobs"))
    name, group = string(replicated.get("name")), string(replicated.get("groupName"))
    members = [job for job in everything if job.get("groupName") == replicated.get("groupName")]
    job_name = f"{job_set.namespace}/{job_set.name}-{name}-{index}"
    values = {
        "jobset-uid": UNKNOWN_UID,
        "replicatedjob-name": name,
        "restart-attempt": 0,
        "replicatedjob-replicas": integer(replicated.get("replicas"), 1),
        "global-replicas": _replicas(everything),
        "job-index": index,
        "job-key": hashlib.sha1(job_name.encode()).hexdigest() if job_set.namespace else _UNKNOWN_HASH,  # noqa: S324
        "job-global-index": index + _replicas(takewhile(lambda job: job.get("name") != name, everything)),
        "group-name": group,
        "group-replicas": _replicas(members),
        "job-group-index": index + _replicas(takewhile(lambda job: job.get("name") != name, members)),
    }
    if coordinator := mapping(job_set.body, "spec", "coordinator"):
        place = [coordinator.get("replicatedJob"), coordinator.get("jobIndex", 0), coordinator.get("podIndex", 0)]
        values["coordinator"] = f"{'-'.join(map(str, (job_set.name, *place)))}.{_subdomain(job_set)}"
    return {JOB_LABEL: job_set.name, **{f"{_PREFIX}/{key}": str(value) for key, value in values.items()}}


def _replicas(replicated_jobs: Any) -> int:
    return sum(integer(job.get("replicas"), 1) for job in replicated_jobs)


def pods(job: Manifest, priorities: Mapping[str, int]) -> Iterator[Body]:
    """Yield the first pods of a Job.

    Source: kubernetes v1.34.2 pkg/controller/job/job_controller.go Controller.manageJob; kubernetes v1.34.2
    pkg/controller/job/indexed_job_utils.go firstPendingIndexes; jobset v0.12.0 pkg/webhooks/pod_webhook.go
    podWebhook.Default

    Args:
        job: the Job, not suspended.
        priorities: PriorityClass → its value; the empty name stands for pods without a class. Pods with a class that is
            not among them get no label with the priority.
    """
    spec = mapping(job.body, "spec")
    template = mapping(spec, "template")
    is_indexed = spec.get("completionMode") == _INDEXED
    pod = mapping(template, "spec")
    priority = priorities.get(string(pod.get("priorityClassName")))
    for index in range(integer(spec.get("parallelism"), 1)):  # Trainer sets the completions to the same number
        head = owned("v1", "Pod", "", job)
        labels, annotations = (dict(mapping(template, "metadata", key)) for key in ("labels", "annotations"))
        if priority is not None:
            labels[f"{_PREFIX}/priority"] = str(priority)
        if is_indexed:
            labels[_INDEX] = annotations[_INDEX] = str(index)
        if spec.get("backoffLimitPerIndex") is not None:
            annotations["batch.kubernetes.io/job-index-failure-count"] = "0"
        tracking = [*mapping(template, "metadata").get("finalizers", []), "batch.kubernetes.io/job-tracking"]
        own: Body = {
            "generateName": f"{job.name}-{index}-" if is_indexed else f"{job.name}-",
            "labels": labels,
            "annotations": annotations,
            "finalizers": list(dict.fromkeys(tracking)),
        }
        body: Body = {**pod, **{key: _indexed(pod[key]) for key in ("initContainers", "containers") if key in pod}}
        indexed = {**body, "hostname": f"{job.name}-{index}"}
        yield {**head, "metadata": {**head["metadata"], **own}, "spec": indexed if is_indexed else pod}


def _indexed(containers: Any) -> list[Body]:
    """Return containers with the variable of the pod's index (addCompletionIndexEnvVariables)."""
    added = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}},
    }
    return [
        container
        if any(item.get("name") == added["name"] for item in mappings(container.get("env")))
        else {**container, "env": [*mappings(container.get("env")), added]}
        for container in mappings(containers)
    ]
