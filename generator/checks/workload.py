"""workload/*: Jobs, CronJobs, JobSets and Deployments that the API server or JobSet rejects.

These rules compare two fields with each other, or parse a string. The schemas check single fields.

Source: kubernetes v1.34.2 pkg/apis/batch/validation/validation.go validateJobSpec; kubernetes v1.34.2
pkg/apis/apps/validation/validation.go ValidateStatefulSetSpec; kubernetes v1.34.2
pkg/apis/apps/validation/validation.go ValidateDeploymentSpec
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from generator.checks.registry import ERROR, WARNING, Breach, check
from generator.documents.load import Path
from generator.documents.messages import format_names, format_value
from generator.facts.names import CONTROLLER_UID, JOB_NAME_LABELS, UNKNOWN_UID
from generator.manifests import Manifest
from generator.objects.fields import indexed_mappings, integer, items, mapping, mappings, string, string_map
from generator.objects.pods import JOB_SET, RUNTIMES
from generator.objects.training import GROUP
from generator.upstream.jobset.webhook import find_job_set_faults, find_name_faults, find_unmounted_claims
from generator.upstream.kubernetes.cron import find_schedule_problem, is_time_zone
from generator.upstream.kubernetes.names import find_manager_problem, is_label
from generator.upstream.kubernetes.selectors import selects

_REJECTED = "the API server rejects the object"
_JOBS_REJECTED = "the API server rejects the Job, so no pod starts"
_INDEXED = "Indexed"
_MOST_INDEXES = 100_000
_MOST_FAILURES = 10_000
_BASES: Mapping[tuple[str, str], Path] = {
    ("batch", "Job"): ("spec",),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec"),
    ("jobset.x-k8s.io", "JobSet"): ("spec",),
    **{(GROUP, kind): JOB_SET for kind in RUNTIMES},
}
"""Group and kind → the path of the spec of the Job, or of the JobSet with the Jobs."""
_OF_INDEXES = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The spec of a Job, or of the Jobs that a CronJob, a JobSet or a runtime creates.

    Attributes:
        manifest: the object with the spec.
        path: the path of the spec.
        spec: the spec.
    """

    manifest: Manifest
    path: Path
    spec: Mapping[str, Any]

    @property
    def is_stored(self) -> bool:
        """True if the API server stores the object without validating its Jobs, and can reject the Jobs later."""
        return self.manifest.kind in ("JobSet", *RUNTIMES)

    @property
    def is_indexed(self) -> bool:
        """True if each pod has an index. JobSet sets the mode `Indexed` by default."""
        return (self.spec.get("completionMode") or (_INDEXED if self.is_stored else "")) == _INDEXED

    @property
    def completions(self) -> int | None:
        """The number of completions; 1 if neither this field nor `parallelism` is set.

        None if only `parallelism` is set, if the number is invalid, or if Trainer sets it.
        """
        if self.manifest.kind in RUNTIMES:
            return None
        default = 1 if self.spec.get("parallelism") is None else -1
        number = integer(self.spec.get("completions"), default)
        return None if number < 0 else number

    def breach(self, path: Path, message: str, fix: str, value: object = None) -> Breach:
        """Return the breach of a Job that the API server rejects. `path` starts at the spec of the Job."""
        why = _JOBS_REJECTED if self.is_stored else _REJECTED
        return Breach((*self.path, *path), message, why, fix, self.manifest, value=value)


@dataclass(frozen=True, slots=True)
class Jobs:
    """A Job, CronJob, JobSet or runtime.

    Attributes:
        manifest: the object.
        specs: the specs of its Jobs.
    """

    manifest: Manifest
    specs: tuple[JobSpec, ...]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> Jobs | None:
        """Return the Job, CronJob, JobSet or runtime in a manifest; None for another kind."""
        base = _BASES.get((manifest.group, manifest.kind))
        if base is None:
            return None
        paths: list[Path] = [base]
        if manifest.group != "batch":
            jobs = indexed_mappings(mapping(manifest.body, *map(str, base)).get("replicatedJobs"))
            paths = [(*base, "replicatedJobs", number, "template", "spec") for number, _ in jobs]
        return cls(manifest, tuple(JobSpec(manifest, path, mapping(_value_at(manifest.body, path))) for path in paths))


@check("workload/job", severity=ERROR, needs=Jobs)
def job(jobs: Jobs) -> Iterator[Breach]:
    """Report a Job whose fields contradict each other.

    The API server rejects such a Job. It stores a JobSet or a runtime with such a template, and rejects the Jobs that
    JobSet creates. The check compares `completionMode`, `completions`, `parallelism`, the limits of failed indexes,
    `successPolicy`, `podFailurePolicy` and `selector`. It also reports an `activeDeadlineSeconds` that overflows in the
    Job controller, which then fails the Job as soon as it starts.

    Source: kubernetes v1.34.2 pkg/apis/batch/validation/validation.go ValidateJob; kubernetes v1.34.2
    pkg/apis/batch/validation/validation.go validateJobSpec; kubernetes v1.34.2 pkg/apis/batch/validation/validation.go
    validatePodFailurePolicy; kubernetes v1.34.2 pkg/apis/batch/validation/validation.go validateSuccessPolicy;
    kubernetes v1.34.2 pkg/apis/batch/validation/validation.go validateGeneratedSelector; kubernetes v1.34.2
    pkg/controller/job/job_controller.go Controller.pastActiveDeadline
    """
    for spec in jobs.specs:
        yield from _find_index_breaches(spec)
        yield from _find_failure_policy_breaches(spec)
        yield from _find_success_policy_breaches(spec)
        yield from _find_selector_breaches(spec)
        yield from _find_long_deadlines(spec)
        if problem := find_manager_problem(spec.spec.get("managedBy")):
            yield spec.breach(("managedBy",), *problem, value=spec.spec["managedBy"])
    if jobs.manifest.kind == "Job":
        yield from _find_name_breaches(jobs.specs[0])


def _find_index_breaches(job: JobSpec) -> Iterator[Breach]:
    """Yield the breaches of the fields about indexes: set in a Job without indexes, negative, too large or missing."""
    spec = job.spec
    for key in _OF_INDEXES[:2]:
        if integer(spec.get(key), 0) < 0:
            yield job.breach((key,), f"`{key}` is {spec[key]}", "set 0 or more", spec[key])
    if not job.is_indexed:
        for key in _OF_INDEXES:
            if spec.get(key) is not None:
                message = f"`{key}` is set, but the Job has no indexes"
                yield job.breach((key,), message, f"set `completionMode: {_INDEXED}`, or remove `{key}`")
        return
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        message = "`maxFailedIndexes` is set without `backoffLimitPerIndex`"
        yield job.breach(("maxFailedIndexes",), message, "set `backoffLimitPerIndex`, such as 1")
    if job.manifest.kind not in RUNTIMES:  # Trainer sets `parallelism` and `completions`
        yield from _find_large_numbers(job)


def _find_large_numbers(job: JobSpec) -> Iterator[Breach]:
    """Yield the breaches of an indexed Job without `completions`, or with too many indexes or pods."""
    spec, completions = job.spec, job.completions
    if completions is None:
        if job.is_stored:
            message = "`completions` is missing, but `parallelism` is set and JobSet makes the Job indexed"
            yield job.breach((), message, "set `completions` to the same number as `parallelism`")
        return
    is_large = completions > _MOST_INDEXES and spec.get("backoffLimitPerIndex") is not None
    highest = _MOST_FAILURES if is_large else _MOST_INDEXES
    limits = {"parallelism": highest, "maxFailedIndexes": min(completions, highest)}
    for key, most in limits.items():
        if (number := integer(spec.get(key), 0)) > most:
            message = f"`{key}` is {number}, but at most {most} is possible with {completions} completions"
            yield job.breach((key,), message, f"set at most {most}", number)
    if is_large and spec.get("maxFailedIndexes") is None:
        message = f"`maxFailedIndexes` is missing in a Job with {completions} completions and `backoffLimitPerIndex`"
        yield job.breach((), message, f"set `maxFailedIndexes`, at most {_MOST_FAILURES}")


def _find_failure_policy_breaches(job: JobSpec) -> Iterator[Breach]:
    policy = job.spec.get("podFailurePolicy")
    if not isinstance(policy, dict):
        return
    pod = mapping(job.spec, "template", "spec")
    if job.spec.get("podReplacementPolicy", "Failed") not in ("Failed", None):
        value = job.spec["podReplacementPolicy"]
        message = f"`podReplacementPolicy` is {format_value(value)}, but the Job has a `podFailurePolicy`"
        yield job.breach(("podReplacementPolicy",), message, "set `podReplacementPolicy: Failed`", value)
    containers = {
        string(item.get("name")) for key in ("containers", "initContainers") for item in mappings(pod.get(key))
    }
    for number, rule in indexed_mappings(policy.get("rules")):
        path: Path = ("podFailurePolicy", "rules", number)
        if rule.get("action") == "FailIndex" and job.spec.get("backoffLimitPerIndex") is None:
            message = "the action `FailIndex` needs `backoffLimitPerIndex`"
            yield job.breach((*path, "action"), message, "set `backoffLimitPerIndex`, or another action", "FailIndex")
        codes = mapping(rule, "onExitCodes")
        name = codes.get("containerName")
        if isinstance(name, str) and name not in containers:
            message = f"`containerName` is {format_value(name)}, which is no container of the pods"
            fix = "set the name of a container, or remove `containerName`"
            yield job.breach((*path, "onExitCodes", "containerName"), message, fix, name)
        if codes:
            values = [value for value in items(codes.get("values")) if isinstance(value, int)]
            if problem := _find_problem_of_codes(codes.get("operator"), values):
                message = f"the exit codes {values} {problem}"
                fix = "list each code from 1 to 255 once, in ascending order"
                yield job.breach((*path, "onExitCodes", "values"), message, fix, values)


def _find_problem_of_codes(operator: object, values: list[int]) -> str:
    if not values:
        return "are an empty list"
    if operator == "In" and 0 in values:
        return "contain 0, which no failed container has"
    return "" if values == sorted(values) else "are not in ascending order"


def _find_success_policy_breaches(job: JobSpec) -> Iterator[Breach]:
    policy, completions = job.spec.get("successPolicy"), job.completions
    if not isinstance(policy, dict) or not job.is_indexed or job.manifest.kind in RUNTIMES:
        return
    if policy.get("rules") == []:
        yield job.breach(
            ("successPolicy", "rules"), "`successPolicy` has no rule", "add a rule, or remove `successPolicy`"
        )
    for number, rule in indexed_mappings(policy.get("rules")):
        path: Path = ("successPolicy", "rules", number)
        indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        if indexes is None and count is None:
            fix = "set `succeededCount` or `succeededIndexes`"
            yield job.breach(path, "the rule has neither `succeededCount` nor `succeededIndexes`", fix)
        if completions is None:
            continue
        most = completions
        if isinstance(indexes, str):
            listed = count_indexes(indexes, completions)
            if listed is None:
                message = (
                    f"`succeededIndexes` is `{indexes}`, which is no ascending list of indexes below {completions}"
                )
                fix = f"list indexes from 0 to {completions - 1} in ascending order, such as `0,2-4`"
                yield job.breach((*path, "succeededIndexes"), message, fix, indexes)
                continue
            most = min(most, listed)
        if isinstance(count, int) and not 0 <= count <= most:
            message = f"`succeededCount` is {count}, but the rule counts {most} indexes"
            yield job.breach((*path, "succeededCount"), message, f"set a number from 0 to {most}", count)


def count_indexes(text: str, completions: int) -> int | None:
    """Return the number of indexes in a list such as `0,2-4`; None if the API server rejects the list.

    Each index must be below `completions`, and the indexes must be in ascending order.

    Source: kubernetes v1.34.2 pkg/apis/batch/validation/validation.go validateIndexesFormat; kubernetes v1.34.2
    pkg/apis/batch/validation/validation.go parseIndexInterval
    """
    total, last = 0, None
    for interval in text.split(",") if text else ():
        parts = interval.split("-")
        if len(parts) > 2 or not all(re.fullmatch(r"\+?[0-9]{1,18}", part) for part in parts):  # noqa: PLR2004
            return None
        first, end = int(parts[0]), int(parts[-1])
        if end >= completions or (len(parts) > 1 and first >= end) or (last is not None and last >= first):
            return None
        total, last = total + end - first + 1, end
    return total


LONGEST_DURATION = (2**63 - 1) // 10**9  # seconds: Go counts a duration in nanoseconds, with 64 bits
_GENERATED = {"matchLabels": {CONTROLLER_UID: UNKNOWN_UID}}
"""The selector that the API server generates, as `mpigen compile` prints it."""


def _find_selector_breaches(job: JobSpec) -> Iterator[Breach]:
    selector, is_manual = job.spec.get("selector"), job.spec.get("manualSelector") is True
    if is_manual and (job.manifest.kind == "CronJob" or selector is None):
        fix, message = "set `selector`, or remove the field", "`manualSelector` is set in a Job without a selector"
        if job.manifest.kind == "CronJob":
            fix, message = "remove `manualSelector`", "a CronJob cannot set `manualSelector: true`"
        yield job.breach(("manualSelector",), message, fix, value=True)
    elif isinstance(selector, dict) and any(selector.values()) and not (is_manual or selector == _GENERATED):
        message = "`selector` is set, but the API server generates the selector of each Job"
        yield job.breach(("selector",), message, "remove `selector`", selector)
    elif isinstance(selector, dict) and is_manual and not selects(selector, _labels_of(job.spec)):
        message = "`selector` does not match the labels of the pod template"
        yield job.breach(("selector",), message, "add the labels of the selector to the pod template", selector)


def _find_long_deadlines(job: JobSpec) -> Iterator[Breach]:
    """Yield the breach of a deadline that Go cannot count: its durations are nanoseconds with 64 bits."""
    seconds = integer(job.spec.get("activeDeadlineSeconds"), 0)
    if seconds > LONGEST_DURATION:
        yield Breach(
            (*job.path, "activeDeadlineSeconds"),
            f"`activeDeadlineSeconds` is `{seconds}`, which overflows in the Job controller",
            "the deadline can be in the past: the Job controller then fails the Job as soon as it starts",
            f"set at most {LONGEST_DURATION} seconds, or remove the field for no deadline",
            job.manifest,
            value=seconds,
        )


def _labels_of(spec: Mapping[str, Any]) -> Mapping[str, str]:
    return string_map(mapping(spec, "template", "metadata").get("labels"))


def created_name(manifest: Manifest) -> str:
    """Return the name of an object, or the longest name that the API server generates from its `generateName`.

    The result is empty if the object has neither.

    Source: apiserver v0.34.2 pkg/storage/names/generate.go simpleNameGenerator.GenerateName
    """
    prefix = mapping(manifest.body, "metadata").get("generateName")
    return manifest.name or (f"{prefix[:_LONGEST_PREFIX]}{'x' * _RANDOM}" if isinstance(prefix, str) else "")


_RANDOM = 5  # letters and digits that the API server appends
_LONGEST_PREFIX = 63 - _RANDOM


def _find_name_breaches(job: JobSpec) -> Iterator[Breach]:
    """Yield a name that makes pod names invalid, and labels that the API server reserves."""
    name, completions = created_name(job.manifest), job.completions
    longest = f"{name}-{completions - 1}" if completions else ""
    if longest and job.is_indexed and not is_label(longest, starts_with_letter=False):
        message = f"the last pod has the host name `{longest}`, which is not a DNS label"
        fix = "choose a name of lower-case letters, digits and hyphens that leaves room for the index in 63 characters"
        yield Breach(("metadata", "name"), message, _REJECTED, fix, value=name)
    for label in JOB_NAME_LABELS:
        value = _labels_of(job.spec).get(label, name)
        if value != name and job.spec.get("manualSelector") is not True:
            path: Path = ("template", "metadata", "labels", label)
            yield job.breach(
                path, f"the label `{label}` is `{value}`, not the name of the Job", "remove the label", value
            )


@check("workload/schedule", severity=ERROR, needs=Jobs)
def schedule(jobs: Jobs) -> Iterator[Breach]:
    """Report a schedule or a time zone of a CronJob that cannot be parsed.

    A schedule has five fields: minute, hour, day of the month, month and day of the week, from 0 for Sunday to 6. Or it
    is a preset such as `@daily`, or `@every` with a duration such as `1h30m`. The time zone is a name of the IANA
    database, such as `Europe/Berlin`. Without that database on this machine, the check accepts each well-formed name.

    Source: kubernetes v1.34.2 pkg/apis/batch/validation/validation.go validateScheduleFormat; kubernetes v1.34.2
    pkg/apis/batch/validation/validation.go validateTimeZone; robfig/cron v3.0.1 parser.go ParseStandard
    """
    if jobs.manifest.kind != "CronJob":
        return
    spec = mapping(jobs.manifest.body, "spec")
    text, zone = spec.get("schedule"), spec.get("timeZone")
    if isinstance(text, str) and text and (problem := find_schedule_problem(text)):
        fix = "write five fields, such as `0 3 * * *` for each day at 3:00, or a preset such as `@daily`"
        if "TZ" in text:
            fix = "move the time zone to `timeZone`"
        yield Breach(("spec", "schedule"), f"the schedule `{text}` {problem}", _REJECTED, fix, value=text)
    if isinstance(zone, str) and not is_time_zone(zone):
        fix = "set a name of the IANA database, such as `Europe/Berlin` or `Etc/UTC`"
        yield Breach(("spec", "timeZone"), f"there is no time zone `{zone}`", _REJECTED, fix, value=zone)


@dataclass(frozen=True, slots=True)
class Replicas:
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or ReplicationController.

    Attributes:
        manifest: the object.
        spec: its spec.
    """

    manifest: Manifest
    spec: Mapping[str, Any]

    @classmethod
    def of_manifest(cls, manifest: Manifest, _targets: Mapping[str, str]) -> Replicas | None:
        """Return the Deployment, StatefulSet or similar object in a manifest; None for another kind."""
        kinds = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
        is_known = manifest.group == "apps" and manifest.kind in kinds
        is_known = is_known or (manifest.group, manifest.kind) == ("", "ReplicationController")
        return cls(manifest, mapping(manifest.body, "spec")) if is_known else None


@check("workload/selector", severity=ERROR, needs=Replicas)
def selector(replicas: Replicas) -> Iterator[Breach]:
    """Report a selector that does not match the labels of the pod template.

    The API server rejects a Deployment, ReplicaSet, StatefulSet or DaemonSet that could not find its own pods. A
    ReplicationController without a selector gets the labels of its pod template, so it needs one of both.

    Source: kubernetes v1.34.2 pkg/apis/apps/validation/validation.go ValidatePodTemplateSpecForReplicaSet; kubernetes
    v1.34.2 pkg/apis/apps/validation/validation.go ValidatePodTemplateSpecForStatefulSet; kubernetes v1.34.2
    pkg/apis/apps/validation/validation.go ValidateDaemonSetSpec; kubernetes v1.34.2
    pkg/apis/core/validation/validation.go ValidateReplicationControllerSpec
    """
    own, template = replicas.spec.get("selector"), replicas.spec.get("template")
    labels = _labels_of(replicas.spec)
    if replicas.manifest.kind == "ReplicationController":
        own = own or labels
        if isinstance(template, dict) and not own:
            message = "`selector` is not set, and the pod template has no labels"
            fix = "set the labels of the pods in `spec.template.metadata.labels`"
            yield Breach(("spec", "template"), message, _REJECTED, fix)
            return
        own = {"matchLabels": own}
    listed = format_names(f"{key}: {value}" for key, value in labels.items())
    if isinstance(own, dict) and isinstance(template, dict) and not selects(own, labels):
        yield Breach(
            ("spec", "selector"),
            f"`selector` does not match the labels of the pod template: {listed or 'there are none'}",
            _REJECTED,
            "set the labels of the selector in `spec.template.metadata.labels`",
            value=own,
        )


@check("workload/rollout", severity=ERROR, needs=Replicas)
def rollout(replicas: Replicas) -> Iterator[Breach]:
    """Report an update strategy that can never replace a pod, or whose fields contradict each other.

    `maxSurge` and `maxUnavailable` of a Deployment must not both be 0. In a DaemonSet, exactly one of them must be
    above 0, and `maxUnavailable` is 1 by default. `progressDeadlineSeconds` of a Deployment, 600 by default, must
    exceed `minReadySeconds`. A StatefulSet with the type `OnDelete` must not set `rollingUpdate`.

    Source: kubernetes v1.34.2 pkg/apis/apps/validation/validation.go ValidateRollingUpdateDeployment; kubernetes
    v1.34.2 pkg/apis/apps/validation/validation.go ValidateRollingUpdateDaemonSet; kubernetes v1.34.2
    pkg/apis/apps/validation/validation.go ValidateDeploymentSpec; kubernetes v1.34.2
    pkg/apis/apps/validation/validation.go ValidateStatefulSetSpec; kubernetes v1.34.2 pkg/apis/apps/v1/defaults.go
    SetDefaults_Deployment; kubernetes v1.34.2 pkg/apis/apps/v1/defaults.go SetDefaults_DaemonSet; kubernetes v1.34.2
    pkg/apis/apps/v1/defaults.go SetDefaults_StatefulSet
    """
    kind, spec = replicas.manifest.kind, replicas.spec
    field = "strategy" if kind == "Deployment" else "updateStrategy"
    strategy = mapping(spec, field)
    steps, path = strategy.get("rollingUpdate"), ("spec", field, "rollingUpdate")
    if kind == "StatefulSet" and strategy.get("type") == "OnDelete" and steps is not None:
        yield Breach(path, "`rollingUpdate` is set, but the type is `OnDelete`", _REJECTED, "remove `rollingUpdate`")
    if kind in ("Deployment", "DaemonSet") and isinstance(steps, dict):
        defaults = (25, 25) if kind == "Deployment" else (0, 1)
        surge, unavailable = (_count(steps.get(key), default) for key, default in zip(_STEPS, defaults, strict=True))
        if surge == unavailable == 0:
            message = "`maxSurge` and `maxUnavailable` are both 0, so no update can replace a pod"
            yield Breach(path, message, _REJECTED, "set one of them to 1 or more", value=steps)
        elif kind == "DaemonSet" and surge and unavailable and strategy.get("type", "RollingUpdate") == "RollingUpdate":
            message = "`maxSurge` and `maxUnavailable` are both above 0. `maxUnavailable` is 1 by default"
            yield Breach(path, message, _REJECTED, "set one of them to 0", value=steps)
    if kind == "Deployment":
        ready, deadline = integer(spec.get("minReadySeconds"), 0), integer(spec.get("progressDeadlineSeconds"), 600)
        if deadline <= ready:
            message = f"`progressDeadlineSeconds` is {deadline}, but `minReadySeconds` is {ready}"
            fix = f"set `progressDeadlineSeconds` to more than {ready}"
            yield Breach(("spec", "progressDeadlineSeconds"), message, _REJECTED, fix, value=deadline)


_STEPS = ("maxSurge", "maxUnavailable")


def _count(value: object, default: int) -> int:
    """Return a number of pods, or a percentage without its sign.

    Return `default` if the value is neither an integer nor a string, and -1 for any other string.
    """
    if isinstance(value, str):
        return int(value[:-1]) if re.fullmatch(r"[0-9]{1,18}%", value) else -1
    return integer(value, default)


@check("workload/job-set", severity=ERROR, needs=Jobs)
def job_set(jobs: Jobs) -> Iterator[Breach]:
    """Report a JobSet that the webhook of JobSet rejects.

    Policies, dependencies and the coordinator can name only replicated jobs of the same JobSet, and a dependency must
    come earlier in the list. Names become parts of host names, so they must be DNS labels. The API server stores a
    runtime with such a JobSet, and the webhook rejects the JobSet that Trainer creates for each TrainJob.
    `mpi/job-order` reports wrong dependencies in an MPI runtime.

    The webhook also rejects a claim in `volumeClaimPolicies` that no container mounts. A TrainJob can add the mount to
    its runtime, so this finding is a warning in a runtime. The webhook accepts a negative number of replicas, but
    JobSet creates no Job for this replicated job. If the sum of all replicas is negative, the API server also rejects
    the other Jobs, because JobSet writes the sum into their labels.

    Source: jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.ValidateCreate; jobset v0.12.0
    pkg/webhooks/jobset_webhook.go validateFailurePolicy; jobset v0.12.0 pkg/webhooks/jobset_webhook.go
    validateCoordinator; jobset v0.12.0 pkg/webhooks/jobset_webhook.go jobSetWebhook.validateVolumeClaimPolicies; jobset
    v0.12.0 pkg/controllers/jobset_controller.go globalReplicas
    """
    manifest = jobs.manifest
    if manifest.kind in ("Job", "CronJob"):
        return
    is_runtime = manifest.kind in RUNTIMES
    base: Path = JOB_SET if is_runtime else ("spec",)
    spec = mapping(manifest.body, *map(str, base))
    why = "JobSet rejects the JobSet of each TrainJob, so no pod starts" if is_runtime else "JobSet rejects the object"
    is_mpi = is_runtime and "mpi" in mapping(manifest.body, "spec", "mlPolicy")
    faults = [*find_job_set_faults(spec), *find_name_faults(spec, "a" if is_runtime else created_name(manifest))]
    for path, message, fix in faults:
        if not (is_mpi and "dependsOn" in path) or _value_at(spec, path) == []:
            yield Breach((*base, *path), message, why, fix, value=string(_value_at(spec, path)) or None)
    for path, message, fix in find_unmounted_claims(spec):
        other = "; or add the mount in `runtimePatches` of each TrainJob" if is_runtime else ""
        yield Breach((*base, *path), message, why, f"{fix}{other}", severity=WARNING if is_runtime else None)
    for number, item in indexed_mappings(spec.get("replicatedJobs")):
        if (replicas := integer(item.get("replicas"), 1)) < 0:
            yield Breach(
                (*base, "replicatedJobs", number, "replicas"),
                f"`replicas` is {replicas}",
                "JobSet creates no Job for this replicated job. If the sum of all replicas is negative, the API server "
                "also rejects the other Jobs, because JobSet writes the sum into their labels",
                "set 0 or more",
                value=replicas,
            )


def _value_at(value: object, path: Path) -> object:
    """Return the value at a path; None if there is none."""
    for step in path:
        if isinstance(step, int):
            value = items(value)[step] if step < len(items(value)) else None
        else:
            value = mapping(value).get(step)
    return value
