"""The rules of JobSets and their pods, applied to the JobSet that Trainer creates for a TrainJob.

A TrainJob and its runtime can both be valid, and their JobSet or its pods are not. So each rule judges the JobSet as if
it were in a file, and the breach is at the field of the TrainJob that sets the wrong value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from generator.checks.alone import judge, judge_alone
from generator.checks.finding import Breach, Located
from generator.checks.registry import ERROR, INFO, WARNING, Suite, complete, declare
from generator.checks.trainjob import depends_on_runtime
from generator.documents.load import Path
from generator.documents.messages import format_path
from generator.manifests import Manifest
from generator.objects.training import TrainJob
from generator.schemas.catalog import Catalog
from generator.schemas.embedded import Engine
from generator.upstream.compile import Compiled, Fault, find_faults

COMPILED = "compiled"
"""The name of this stage, which `judge_together` can leave out like a rule."""
RUNTIME: Path = ("spec", "runtimeRef", "name")
UNKNOWN = "mpigen makes no prediction here: only the cluster shows the result"
_FAMILIES = ("pod", "schema", "workload")
"""The families with the rules of the API server and of JobSet."""
_DROPPED = "schema/unknown-field"
"""Trainer has read the JobSet into the types of Go, so it writes no unknown field."""
_SUITE = Suite(of_jobs=True)
_NAME: Path = ("metadata", "name")
_LENGTH_OF_JOB_NAME = len(("spec", "replicatedJobs", 0, "name"))
CAUSES = {"pod/resources": "trainjob/contradicting-resources"}
"""A rule → the rule of TrainJobs that reports its cause, with a fix for both manifests."""


def judge_compiled(compiled: Compiled, targets: Mapping[str, str], *, is_verdict: bool = False) -> Iterator[Located]:
    """Yield the reasons why JobSet or the API server rejects the JobSet of a TrainJob, its Jobs or their pods.

    Args:
        compiled: the TrainJob and its objects.
        targets: component → minor version.
        is_verdict: True to report also what other rules report in files: the mistakes of the runtime, at `runtimeRef`
            of the TrainJob, and names that are too long for any runtime.
    """
    job_set, reported = Manifest(compiled.job_set, compiled.job.file), set[tuple[Path, str]]()
    for _, breach in judge_alone(job_set, _engine(frozenset(targets.items())), _SUITE):
        if breach.severity is not ERROR or breach.check.partition("/")[0] not in _FAMILIES or breach.check == _DROPPED:
            continue
        path = _own_path(compiled, breach.path)
        is_reported = path is None or (path == _NAME and not depends_on_runtime(TrainJob(compiled.job.body)))
        if is_reported and not is_verdict:
            continue
        placed = _of_runtime(breach) if path is None else replace(breach, path=path, manifest=None)
        if (key := (placed.path, placed.message)) not in reported:  # pods of the launcher and of workers are alike
            reported.add(key)
            yield compiled.job, placed


def judge_request(job: Manifest, runtime: Manifest, targets: Mapping[str, str]) -> Iterator[Located]:
    """Yield the fields of a TrainJob for which Trainer or Kueue rejects the TrainJob or its objects.

    Mistakes that the schema or a rule of TrainJobs reports are left out.

    Args:
        job: the TrainJob.
        runtime: its runtime.
        targets: component → minor version.
    """
    if any(_engine(frozenset(targets.items())).violations(job.body) or ()):
        return
    places = {breach.path for _, breach in judge(job, targets, _SUITE) if breach.severity is ERROR}
    for fault in find_faults(job, runtime, targets):
        is_own = fault.origin.manifest.kind == job.kind and not fault.is_unknown
        if is_own and not any(fault.origin.path[: len(place)] == place for place in places):
            yield complete(of_fault(fault, job), job)


def of_fault(fault: Fault, job: Manifest) -> Breach:
    """Return an error for a fault that keeps a TrainJob from getting pods, or an info for a field that mpigen ignores.

    The place is the field of the TrainJob with the cause, or `runtimeRef` if the cause is in the runtime.
    """
    path: Path = fault.origin.path if fault.origin.manifest.kind == job.kind else RUNTIME
    if fault.is_unknown:
        return Breach(path, fault.message, UNKNOWN, fault.fix, severity=INFO, check="trainjob/unknown")
    why = "Trainer, JobSet or Kueue rejects the TrainJob or its objects, and no pod starts"
    return Breach(path, fault.message, why, fault.fix, check="trainjob/rejected")


def judge_runtime(
    job: Manifest, runtime: Manifest, located: Iterable[Located], targets: Mapping[str, str], *, is_complete: bool
) -> Iterator[Located]:
    """Yield the errors of the runtime of a TrainJob, at `runtimeRef` of the TrainJob.

    `judge_compiled` yields the errors of its pods.

    Args:
        job: the TrainJob.
        runtime: its runtime.
        located: the breaches of the rules that read several objects.
        targets: component → minor version.
        is_complete: True if the files have all objects of the cluster. A user can create a ConfigMap, a Secret or a
            claim that the runtime names, so its absence is an error only then.
    """
    single = (item for item in judge(runtime, targets, _SUITE) if item[1].check.partition("/")[0] not in _FAMILIES)
    together = (item for item in located if item[0].identity == runtime.identity)
    for _, breach in (*single, *together):
        is_reference = is_complete and breach.check.startswith("reference/") and breach.severity is WARNING
        if breach.severity is ERROR or is_reference:
            message = f"the runtime `{runtime.name}` has a mistake: {breach.message}"
            yield job, replace(_of_runtime(breach, "the runtime"), message=message, severity=ERROR)


def _own_path(compiled: Compiled, path: Path) -> Path | None:
    """Return the field of the TrainJob that sets a field of its JobSet; None if the runtime or a controller sets it."""
    if path[-1:] == ("name",) and path[:2] == ("spec", "replicatedJobs") and len(path) == _LENGTH_OF_JOB_NAME:
        return _NAME  # JobSet makes the names of pods from the names of both
    origin = compiled.origin("JobSet", 0, path)
    return origin.path if origin and origin.manifest.kind == compiled.job.kind else None


def without_explained(compiled: Iterable[Located], others: Iterable[Located]) -> Iterator[Located]:
    """Yield the breaches of compiled objects whose cause no rule of TrainJobs reports.

    Args:
        compiled: the breaches.
        others: the breaches of other rules.
    """
    causes = {(manifest.file, manifest.index, breach.check) for manifest, breach in others}
    for manifest, breach in compiled:
        if (manifest.file, manifest.index, CAUSES.get(breach.check, "")) not in causes:
            yield manifest, breach


def _of_runtime(breach: Breach, owner: str = "its JobSet") -> Breach:
    fix = f"use another runtime, or correct `{format_path(breach.path)}` of {owner}: {breach.fix}"
    return replace(breach, path=RUNTIME, fix=fix, at_key=False, value=None, manifest=None)


@cache
def _engine(targets: frozenset[tuple[str, str]]) -> Engine:
    return Engine(Catalog.bundled(dict(targets)))


declare(
    "trainjob/rejected",
    severity=ERROR,
    text="""Report a TrainJob that gets no pods, because a webhook or the API server rejects it or its objects.

    mpigen computes the JobSet, the Jobs and the Pods of a TrainJob whose runtime is in the files. The webhooks of
    Trainer and Kueue reject some TrainJobs, such as one with an initializer or a patch of a job that its runtime lacks.
    Other TrainJobs fail later and hold their quota. The rules of the families `pod` and `workload` report mistakes in
    the pods and the JobSet, at the field of the TrainJob. `mpigen check-job` also reports:

    - JobSet rejects names of pods with more than 63 characters, and the API server rejects devices without a limit.
    - On OpenShift, no SecurityContextConstraints (SCC) that the ServiceAccount of the pods may use admits them.
    - The Pod Security level of the Namespace rejects the pods. Only the events of the Job show the message. On
      OpenShift, the SCC that admits a pod sets absent fields first.
    - A LimitRange of the namespace rejects the pods: a limit is above its `max`, a request below its `min`, or a ratio
      above its `maxLimitRequestRatio`. Its defaults apply first, and a `max` is also the default limit.
    - A ResourceQuota of the namespace rejects the JobSet, another object or some of the pods. The objects in files, and
      the TrainJobs before this one, count as its usage. A TrainJob without all of its pods never runs.

    Source: trainer v2.3.0 pkg/webhooks/trainjob_webhook.go; kueue v0.19.2
    pkg/controller/jobs/trainjob/trainjob_webhook.go; jobset v0.12.0 pkg/webhooks/jobset_webhook.go
    jobSetWebhook.ValidateCreate; pod-security-admission v0.34.2 admission/admission.go Admission.EvaluatePod;
    openshift/apiserver-library-go a8019f39 pkg/securitycontextconstraints/sccadmission/admission.go; kubernetes v1.34.2
    plugin/pkg/admission/limitranger/admission.go PodValidateLimitFunc; apiserver v0.34.2
    pkg/admission/plugin/resourcequota/controller.go CheckRequest
    """,
)
