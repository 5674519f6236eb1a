"""Simulation of webhooks of Kueue and JobSet for a TrainJob and its JobSet, and of rules of the API server for pods.

Source: trainer v2.3.0 pkg/runtime/framework/plugins; kueue v0.19.2 pkg/controller/jobframework/validation.go
ValidateJobOnCreate; kueue v0.19.2 pkg/controller/jobframework/tas_validation.go ValidateTASPodSetRequest; jobset
v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.ValidateCreate; kubernetes v1.34.2
pkg/apis/core/validation/validation.go ValidatePodCreate
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from generator.documents.load import Path
from generator.facts.names import QUEUE_NAME
from generator.manifests import Body, Manifest
from generator.objects.fields import indexed_mappings, integer, mapping, mappings, string, strings
from generator.objects.pods import JOB_SET
from generator.objects.training import AMOUNTS, DEFAULT_QUEUE
from generator.quantities import amount_of
from generator.simulate.compile import Compiled, Fault, Origin
from generator.simulate.compile.job_set import find_mounts, find_volume_claims
from generator.simulate.compile.webhooks import containers_of, replicated_jobs

_KUEUE = QUEUE_NAME.partition("/")[0]
_TOPOLOGIES = tuple(f"{_KUEUE}/podset-{kind}-topology" for kind in ("required", "preferred", "unconstrained"))
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_OR_DIGIT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST = 63
_LABEL_FIX = (
    f"write a lower-case letter, then lower-case letters, digits and inner hyphens: at most {_LONGEST} characters"
)
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INT32 = 2**31 - 1
_RULE_NAME = re.compile(r"(?=.{1,128}$)[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_FAILURE_REASONS = (
    *("BackoffLimitExceeded", "DeadlineExceeded", "FailedIndexes", "MaxFailedIndexesExceeded"),
    "PodFailurePolicy",
)
_DOMAIN_PATH = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
)


def set_queue(job: Body, *, has_default: bool) -> Body:
    """Return a TrainJob as Kueue's webhook changes it.

    The webhook sets the queue label to `default` if it is absent or empty and the namespace has this LocalQueue, and
    suspends a TrainJob that then has the label.

    Args:
        job: the TrainJob.
        has_default: True if its namespace has the LocalQueue `default`.

    Source: kueue v0.19.2 pkg/controller/jobframework/defaults.go ApplyDefaultLocalQueue; kueue v0.19.2
    pkg/controller/jobframework/defaults.go ApplyDefaultForSuspend
    """
    metadata = mapping(job, "metadata")
    labels = mapping(metadata, "labels")
    if has_default and not labels.get(QUEUE_NAME):
        labels = {**labels, QUEUE_NAME: DEFAULT_QUEUE}
    if QUEUE_NAME not in labels:
        return job
    return {**job, "metadata": {**metadata, "labels": labels}, "spec": {**mapping(job, "spec"), "suspend": True}}


def find_topology_conflicts(compiled: Compiled, runtime: Manifest) -> Iterator[Fault]:
    """Yield a fault for pods with several topology annotations: Kueue's webhook rejects their TrainJob."""
    for item in replicated_jobs(compiled.job_set, ("spec",)):
        annotations = mapping(item, "template", "spec", "template", "metadata", "annotations")
        if len(set_ := [key for key in _TOPOLOGIES if key in annotations]) > 1:
            message = f"the pods `{item.get('name')}` have more than one topology annotation: {', '.join(set_)}"
            yield Fault(Origin(runtime, JOB_SET), message, "keep one of the annotations")


def find_job_set_faults(spec: Body) -> Iterator[tuple[Path, str, str]]:
    """Yield (path below the spec, message, fix) for each reason why the webhook of JobSet rejects a JobSet.

    The feature gates of JobSet are unknown, so restart strategies and actions behind a gate are accepted:
    generator/facts/feature_gates.yaml. The names of Jobs, pods and claims depend on the name of the JobSet: see
    `find_name_faults`. A TrainJob can add mounts to a runtime: see `find_unmounted_claims`.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.ValidateCreate; jobset v0.12.0
    pkg/webhooks/jobset_webhook.go validateFailurePolicy; jobset v0.12.0 pkg/webhooks/jobset_webhook.go
    validateCoordinator; jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.validateVolumeClaimPolicies
    """
    jobs = indexed_mappings(spec.get("replicatedJobs"))
    names = [string(item.get("name")) for _, item in jobs]
    if jobs and jobs[0][1].get("dependsOn") is not None:
        message = f"the first replicated job `{names[0]}` sets `dependsOn`, but only earlier jobs can be dependencies"
        yield ("replicatedJobs", jobs[0][0], "dependsOn"), message, "list the replicated job below its dependencies"
    for path, absent in _find_dangling(spec, names):
        field = path[0] if path[0] != "replicatedJobs" else "dependsOn"
        message = f"`{field}` of the JobSet names the replicated job `{absent}`, which does not exist"
        if absent in names:
            message = f"`{field}` of the JobSet names the replicated job `{absent}`, which is not earlier in the list"
        yield (
            path,
            message,
            f"set the name of a{'n earlier' if field == 'dependsOn' else ''} replicated job of this JobSet",
        )
    subdomain = string(mapping(spec, "network").get("subdomain"))
    if subdomain and not is_label(subdomain):
        message = f"the subdomain `{subdomain}` of the JobSet is not a DNS label"
        yield ("network", "subdomain"), message, _LABEL_FIX
    if problem := find_manager_problem(spec.get("managedBy")):
        yield ("managedBy",), *problem
    for number, item in jobs:
        yield from _find_faults_of_job(("replicatedJobs", number), item)
    yield from _find_faults_of_rules(spec)
    yield from _find_faults_of_coordinator(spec, [item for _, item in jobs])
    yield from _find_faults_of_claims(spec)
    yield from _find_null_sources(spec)


def _find_dangling(spec: Mapping[str, Any], names: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield (path, name) of the references to replicated jobs that do not exist, or that come later."""
    jobs = enumerate(indexed_mappings(spec.get("replicatedJobs")), start=1)
    for position, (number, item) in list(jobs)[1:]:
        for place, entry in indexed_mappings(item.get("dependsOn")):
            if (named := string(entry.get("name"))) not in names[:position]:
                yield ("replicatedJobs", number, "dependsOn", place, "name"), named
    policies: list[tuple[Path, Mapping[str, Any]]] = [(("successPolicy",), mapping(spec, "successPolicy"))]
    rules = indexed_mappings(mapping(spec, "failurePolicy").get("rules"))
    policies += [(("failurePolicy", "rules", number), rule) for number, rule in rules]
    for path, policy in policies:
        for place, named in enumerate(strings(policy.get("targetReplicatedJobs"))):
            if named not in names:
                yield (*path, "targetReplicatedJobs", place), named
    coordinator = mapping(spec, "coordinator")
    if coordinator and coordinator.get("replicatedJob") not in names:
        yield ("coordinator", "replicatedJob"), string(coordinator.get("replicatedJob"))


def _find_faults_of_job(path: Path, item: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    spec, replicas = mapping(item, "template", "spec"), integer(item.get("replicas"), 1)
    if (group := item.get("groupName", "default")) is not None and not is_label(str(group)):
        message = f"the group name `{group}` is not a DNS label"
        yield (*path, "groupName"), message, _LABEL_FIX
    if replicas * integer(spec.get("parallelism"), 1) > _INT32:
        yield (*path, "replicas"), f"`replicas` times `parallelism` exceeds {_INT32}", "set fewer replicas"


def _find_faults_of_claims(spec: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    """Yield the mistakes in the names of the claims in `volumeClaimPolicies`, and volumes with the name of a claim."""
    used: set[str] = set()
    for path, name in find_volume_claims(spec):
        place: Path = (*path, "metadata", "name") if name else path
        if not _SUBDOMAIN.fullmatch(name):
            message = (
                f"the name `{name}` of the claim is not a DNS name" if name else "the claim has no `metadata.name`"
            )
            yield place, message, "write lower-case letters, digits, and inner hyphens and dots"
        if name in used:
            yield place, f"another claim has the name `{name}` too", "rename or remove one of the claims"
        used.add(name)
        for number, item in indexed_mappings(spec.get("replicatedJobs")):
            pods = mapping(item, "template", "spec", "template", "spec")
            for index, volume in indexed_mappings(pods.get("volumes")):
                if volume.get("name") == name:
                    steps = ("template", "spec", "template", "spec", "volumes", index, "name")
                    message = f"the volume `{name}` has the name of a claim in `volumeClaimPolicies`"
                    fix = "remove the volume, because JobSet adds the claim to the pods"
                    yield ("replicatedJobs", number, *steps), message, fix


def _find_null_sources(spec: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    """Yield the data sources of claims without an `apiGroup`, which Go writes as null and the schema rejects."""
    for number, policy in indexed_mappings(spec.get("volumeClaimPolicies")):
        for index, template in indexed_mappings(policy.get("templates")):
            for key in ("dataSource", "dataSourceRef"):
                source = mapping(template, "spec").get(key)
                if isinstance(source, dict) and "apiGroup" not in source:
                    path: Path = ("volumeClaimPolicies", number, "templates", index, "spec", key)
                    message = f"`{key}` of the claim has no `apiGroup`: JobSet's webhook writes null, which is invalid"
                    yield path, message, 'set `apiGroup: ""`'


def find_unmounted_claims(spec: Body) -> Iterator[tuple[Path, str, str]]:
    """Yield (path below the spec, message, fix) for each claim of a JobSet that no container mounts.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go validateReplicatedJobsVolumeClaims
    """
    pods = [mapping(job, "template", "spec", "template", "spec") for job in mappings(spec.get("replicatedJobs"))]
    mounted = {name for pod in pods for name in find_mounts(pod)}
    for path, name in find_volume_claims(spec):
        if name and name not in mounted:
            message = f"no container mounts the claim `{name}`"
            yield (*path, "metadata", "name"), message, "add the claim to `volumeMounts` of a container"


def find_name_faults(spec: Body, name: str) -> Iterator[tuple[Path, str, str]]:
    """Yield (path below the spec, message, fix) for each name that is invalid together with the name of a JobSet.

    JobSet forms the names of Jobs, pods and claims, and the host name of the coordinator, from its own name.

    Args:
        spec: the spec of the JobSet.
        name: the name of the JobSet.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.ValidateCreate; jobset v0.12.0
    pkg/webhooks/jobset_webhook.go validateCoordinatorLabelValue;
    pkg/util/placement GenJobName, GenPodName; jobset v0.12.0 pkg/controllers/volume_claim_policy.go GeneratePVCName
    """
    for path, claim in find_volume_claims(spec):
        if len(longest := f"{claim}-{name}") > _LONGEST:
            message = f"the name `{longest}` of the claim exceeds {_LONGEST} characters"
            yield (*path, "metadata", "name"), message, "choose shorter names"
    if coordinator := mapping(spec, "coordinator"):
        index, pod = (integer(coordinator.get(key), 0) for key in ("jobIndex", "podIndex"))
        subdomain = string(mapping(spec, "network").get("subdomain")) or name
        endpoint = f"{name}-{coordinator.get('replicatedJob')}-{index}-{pod}.{subdomain}"
        if len(endpoint) > _LONGEST:
            message = f"the host name `{endpoint}` of the coordinator exceeds {_LONGEST} characters"
            yield ("coordinator",), message, "choose shorter names, or a shorter `network.subdomain`"
    for number, item in indexed_mappings(spec.get("replicatedJobs")):
        longest = _longest_name(name, item)
        if not is_label(longest):
            problem = f"exceed {_LONGEST} characters" if len(longest) > _LONGEST else "are not DNS labels"
            message = f"the names of the pods `{item.get('name')}`, such as `{longest}`, {problem}"
            letters = "use lower-case letters, digits and hyphens, and start the name of the JobSet with a letter"
            fix = "choose shorter names" if len(longest) > _LONGEST else letters
            yield ("replicatedJobs", number, "name"), message, fix


def _longest_name(name: str, item: Mapping[str, Any]) -> str:
    """Return the longest name of a Job or pod of a replicated job (GenJobName, GenPodName)."""
    spec = mapping(item, "template", "spec")
    longest = f"{name}-{item.get('name')}-{integer(item.get('replicas'), 1) - 1}"
    if "completions" in spec and spec.get("completionMode", "Indexed") == "Indexed":
        longest += f"-{integer(spec['completions'], 1) - 1}-abcde"
    return longest


def _find_faults_of_rules(spec: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    """Yield the mistakes in the rules of the failure policy."""
    used: set[str] = set()
    for number, rule in indexed_mappings(mapping(spec, "failurePolicy").get("rules")):
        path: Path = ("failurePolicy", "rules", number)
        name = string(rule.get("name"), f"failurePolicyRule{number}")
        if not _RULE_NAME.fullmatch(name):
            fix = "write a letter, then letters, digits, `_`, and inner `,` and `:`, at most 128 characters"
            yield (*path, "name"), f"the rule has the invalid name `{name}`", fix
        elif name in used:
            yield (*path, "name"), f"another rule has the name `{name}` too", "rename one of the rules"
        used.add(name)
        for place, reason in enumerate(strings(rule.get("onJobFailureReasons"))):
            if reason not in _FAILURE_REASONS:
                message = f"no Job fails with the reason `{reason}`"
                yield (*path, "onJobFailureReasons", place), message, f"use one of {', '.join(_FAILURE_REASONS)}"


def _find_faults_of_coordinator(spec: Mapping[str, Any], jobs: list[dict[str, Any]]) -> Iterator[tuple[Path, str, str]]:
    """Yield the mistakes in the coordinator: an index that no Job or pod has, or Jobs without indexed pods."""
    coordinator = mapping(spec, "coordinator")
    job = next((item for item in jobs if coordinator and item.get("name") == coordinator.get("replicatedJob")), None)
    if job is None:
        return
    template = mapping(job, "template", "spec")
    replicas, completions = integer(job.get("replicas"), 1), integer(template.get("completions"), -1)
    index, pod = (integer(coordinator.get(key), 0) for key in ("jobIndex", "podIndex"))
    if not 0 <= index < replicas:
        message = f"`jobIndex` of the coordinator is {index}, but `{job.get('name')}` has {replicas} replicas"
        yield ("coordinator", "jobIndex"), message, f"set a number from 0 to {replicas - 1}"
    elif completions < 0 or template.get("completionMode", "Indexed") != "Indexed":
        message = f"the coordinator is in `{job.get('name')}`, whose Jobs have no `completions` or no indexes"
        fix = "set `completions` of these Jobs, and remove `completionMode`: JobSet sets `Indexed`"
        yield ("coordinator", "replicatedJob"), message, fix
    elif not 0 <= pod < completions:
        message = f"`podIndex` of the coordinator is {pod}, but the Jobs have {completions} completions"
        yield ("coordinator", "podIndex"), message, f"set a number from 0 to {completions - 1}"


def find_manager_problem(value: object) -> tuple[str, str] | None:
    """Return the message and the fix for a `managedBy` of a Job or JobSet that is invalid; None if it is valid.

    Source: apimachinery v0.34.2 pkg/util/validation/validation.go IsDomainPrefixedPath; kubernetes v1.34.2
    pkg/apis/batch/validation/validation.go maxManagedByLength
    """
    if not isinstance(value, str) or (_DOMAIN_PATH.fullmatch(value) and len(value) <= _LONGEST):
        return None
    message = f"`managedBy` is `{value}`, which is not a domain and a path in at most {_LONGEST} characters"
    return message, "write a domain and a path, such as `kueue.x-k8s.io/multikueue`"


def is_label(name: str, *, starts_with_letter: bool = True) -> bool:
    """Return True if a name is a DNS label.

    Args:
        name: the name.
        starts_with_letter: True for the form of RFC 1035, False for the form of RFC 1123, which can start with a digit.
    """
    pattern = _LABEL if starts_with_letter else _LABEL_OR_DIGIT
    return len(name) <= _LONGEST and pattern.fullmatch(name) is not None


def find_exceeded_limits(job_set: Body) -> Iterator[str]:
    """Yield a reason for each request of a container above its limit: Kueue admits no workload with such a request.

    Source: kueue v0.19.2 pkg/workload/resources.go ValidateResources
    """
    for item in mappings(mapping(job_set, "spec").get("replicatedJobs")):
        for name, container in containers_of([item], item.get("name")).items():
            limits, requests = (mapping(container, "resources", key) for key in AMOUNTS)
            for key, request in requests.items():
                amount, limit = amount_of(request), amount_of(limits.get(key))
                if amount is not None and limit is not None and amount > limit:
                    yield f"the container `{name}` requests `{key}: {request}`, above its limit `{limits[key]}`"
